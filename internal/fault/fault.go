// Package fault ends work of many steps at the first error, without asking for one after each step: [Check] and [Value]
// leave the work by a panic, which [Try], where it began, turns into the error that it returns.
package fault

import "fmt"

type fault struct{ err error }

// Check ends the work if there is an error.
func Check(err error) {
	if err != nil {
		panic(fault{err})
	}
}

// Because ends the work with an error that matches a cause, and adds details.
func Because(cause error, format string, args ...any) {
	Check(fmt.Errorf("%w: %s", cause, fmt.Sprintf(format, args...)))
}

// Value returns a value, or ends the work if there is an error.
func Value[T any](v T, err error) T {
	Check(err)
	return v
}

// Try does some work, and returns the error that ended it, or nil. Other panics go on.
func Try(work func()) (err error) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case fault:
			err = f.err
		default:
			panic(f)
		}
	}()
	work()
	return nil
}

// Wrap does a part of some work, and ends all of it with an error that names the part.
func Wrap(part func(), format string, args ...any) {
	if err := Try(part); err != nil {
		Check(fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err))
	}
}

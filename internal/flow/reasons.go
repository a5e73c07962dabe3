package flow

import (
	"errors"
	"fmt"
)

// Reasons are why something cannot run, each once.
type Reasons struct {
	list    []reason
	index   map[string]int // in the list, by key
	omitted int            // that are not in the list
}

type reason struct {
	err   error
	count int
}

// maxReasons bounds what is kept of a hostile file's.
const maxReasons = 100

// Add notes a reason, or counts it if there is one of the key.
func (r *Reasons) Add(key string, err error) {
	if i, ok := r.index[key]; ok {
		r.list[i].count++
		return
	}
	if len(r.list) == maxReasons {
		r.omitted++
		return
	}
	if r.index == nil {
		r.index = map[string]int{}
	}
	r.index[key] = len(r.list)
	r.list = append(r.list, reason{err, 1})
}

// Len returns how many reasons are listed.
func (r *Reasons) Len() int { return len(r.list) }

// Err returns all reasons, and nil if there are none.
func (r *Reasons) Err() error {
	var errs []error
	for _, w := range r.list {
		if w.count > 1 {
			w.err = fmt.Errorf("%w (and %d more)", w.err, w.count-1)
		}
		errs = append(errs, w.err)
	}
	if r.omitted > 0 {
		errs = append(errs, fmt.Errorf("and %d more reasons", r.omitted))
	}
	return errors.Join(errs...)
}

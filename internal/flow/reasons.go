package flow

import (
	"errors"
	"fmt"
)

// Reasons are why something cannot run, each once.
type Reasons struct {
	list []reason
	at   map[string]int // in the list, by key
	more int            // that are not in the list
}

type reason struct {
	err   error
	count int
}

// maxReasons bounds what is kept of a hostile file's.
const maxReasons = 100

// Add notes a reason, or counts it if there is one of the key.
func (r *Reasons) Add(key string, err error) {
	if i, known := r.at[key]; known {
		r.list[i].count++
		return
	}
	if len(r.list) == maxReasons {
		r.more++
		return
	}
	if r.at == nil {
		r.at = map[string]int{}
	}
	r.at[key] = len(r.list)
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
	if r.more > 0 {
		errs = append(errs, fmt.Errorf("and %d more reasons", r.more))
	}
	return errors.Join(errs...)
}

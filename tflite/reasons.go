package tflite

import (
	"errors"
	"fmt"
)

// errRefused stands for the reasons of an operator before.
var errRefused = errors.New("it needs what another operator cannot compute")

// reasons are why a model cannot run: each once, with the first operator that it is about.
type reasons struct {
	list  []reason
	where map[string]int // by text
}

type reason struct {
	op    *operator
	err   error
	count int
}

// add notes why an operator cannot run.
func (r *reasons) add(op *operator, err error) {
	if errors.Is(err, errRefused) {
		return
	}
	text := fmt.Sprint(op.code, op.custom, ": ", err)
	if i, ok := r.where[text]; ok {
		r.list[i].count++
		return
	}
	if r.where == nil {
		r.where = map[string]int{}
	}
	r.where[text] = len(r.list)
	r.list = append(r.list, reason{op, err, 1})
}

// err returns all reasons, and nil if there are none.
func (r *reasons) err() error {
	const most = 100 // a file may have any number of operators
	var errs []error
	for i, w := range r.list {
		if i == most {
			errs = append(errs, fmt.Errorf("and %d other reasons", len(r.list)-most))
			break
		}
		err := fmt.Errorf("%s: %w", w.op.title(), w.err)
		if w.count > 1 {
			err = fmt.Errorf("%w (and %d more)", err, w.count-1)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// refuse marks what an operator that cannot run would compute.
func (p *plan) refuse(op *operator) {
	for _, n := range op.outputs {
		p.values[n] = value{state: refused}
	}
}

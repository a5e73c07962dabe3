package executorch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// reasons are why a method cannot be run here. What a hostile file has in them is bounded.
type reasons struct {
	list []error
	more int // that are not in the list
}

const maxReasons = 32

func (r *reasons) add(err error) {
	if len(r.list) == maxReasons {
		r.more++
		return
	}
	r.list = append(r.list, err)
}

func (r *reasons) none() bool { return len(r.list) == 0 }

// cannot notes why the method cannot be run.
func (p *planner) cannot(format string, args ...any) {
	p.reasons.add(fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...)))
}

// runnable returns nil, or an error that says everything why the method cannot be run here: the operators that are
// outside of XNNPACK first, in one list.
func (p *planner) runnable() error {
	var outside []string
	for o, n := range p.counts {
		if o.Where != Outside {
			continue
		}
		name := o.Name
		if n > 1 {
			name = fmt.Sprintf("%s (%d times)", name, n)
		}
		outside = append(outside, name)
	}
	var all []error
	if len(outside) > 0 {
		slices.Sort(outside)
		all = append(all, fmt.Errorf("%w: %s", ErrUnsupportedOp, strings.Join(outside, ", ")))
	}
	all = append(all, p.reasons.list...)
	if p.reasons.more > 0 {
		all = append(all, fmt.Errorf("and %d more reasons", p.reasons.more))
	}
	return errors.Join(all...)
}

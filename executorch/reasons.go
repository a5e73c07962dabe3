package executorch

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"xpwc/internal/fault"
)

// reason notes why the method cannot be run.
func (p *planner) reason(err error) { p.reasons.Add(err.Error(), err) }

// cannot notes what of the method is not supported.
func (p *planner) cannot(format string, args ...any) {
	p.reason(fault.Try(func() { unsupported(format, args...) }))
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
	if len(outside) == 0 {
		return p.reasons.Err()
	}
	slices.Sort(outside)
	return errors.Join(fmt.Errorf("%w: %s", ErrUnsupportedOp, strings.Join(outside, ", ")), p.reasons.Err())
}

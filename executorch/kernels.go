package executorch

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"xpwc/internal/fault"
	"xpwc/xnnpack"
)

// kernels are the operators outside of delegates that become nodes: what PyTorch's documentation says of each. The
// last argument of a call is what it computes.
var kernels = map[string]func(*invocation){
	"dim_order_ops::_to_dim_order_copy.out": (*invocation).copy,
	"dim_order_ops::_clone_dim_order.out":   (*invocation).copy,
	"aten::_to_copy.out":                    (*invocation).copy,
	"aten::clone.out":                       (*invocation).copy,
}

// copies are the operators that copy a tensor, their first argument, into another order of dimensions, which is that
// of their last.
var copies = maps.Clone(kernels)

func init() {
	for _, family := range []map[string]func(*invocation){
		elementwiseKernels, shapeKernels, reducingKernels, imageKernels,
	} {
		maps.Copy(kernels, family)
	}
}

// kernel plans a call of an operator.
func (p *planner) kernel(name string, args []int) error {
	values, steps := len(p.plan.values), len(p.plan.steps)
	what := ""
	if len(args) == 0 {
		return malformed("operator %s has no arguments", name)
	}
	for _, plan := range []func(*invocation){kernels[name], hostedKernels[name]} {
		if plan == nil {
			continue
		}
		c := &invocation{planner: p, name: name, args: args}
		if err := fault.Try(func() { plan(c) }); !errors.Is(err, errOutside) {
			if err == nil && len(p.plan.steps) > steps {
				p.count(name, Between)
			}
			return err
		}
		p.plan.values, p.plan.steps = p.plan.values[:values], p.plan.steps[:steps]
		what = c.types()
	}
	p.count(name+what, Outside)
	return nil
}

// types says what tensors a call was given, for who reads that it cannot be run.
func (c *invocation) types() string {
	for _, i := range c.args {
		if t := c.method.values[i].tensor; t != nil {
			if last := c.method.values[c.args[c.last()]].tensor; last != nil && last.dtype != t.dtype {
				return fmt.Sprintf(" from %v to %v", t.dtype, last.dtype)
			}
			return fmt.Sprintf(" of %v", t.dtype)
		}
	}
	return ""
}

// copy is a copy into another order of dimensions, or to another type.
func (c *invocation) copy() {
	x, y := c.tensor(0), c.tensor(c.last())
	if len(c.args) < 2 {
		fault.Check(malformed("%d arguments", len(c.args)))
	}
	if len(x.order) != len(y.order) {
		fault.Check(malformed("it copies %d dimensions to %d", len(x.order), len(y.order)))
	}
	from, to := c.args[0], c.args[c.last()]
	var source xnnpack.ValueID
	if between := elementTypes[y.dtype]; x.dtype != y.dtype && isFloat(x.dtype) && isFloat(y.dtype) {
		in := c.operand(0)
		source = c.between(x.shape, in)
		c.of(source).Type = between
		c.node(conversion(in, source))
	} else if x.dtype != y.dtype && !c.asFloat[from] {
		converted, err := c.converted(x, y.dtype)
		if err != nil || converted == nil {
			fault.Check(err)
			c.outside()
		}
		c.plan.values = append(c.plan.values, *converted)
		source = xnnpack.ValueID(len(c.plan.values) - 1)
	} else {
		source = c.operand(0)
	}
	target := c.resultAt(to, source)
	var permutation []int
	for _, d := range y.order {
		permutation = append(permutation, slices.Index(x.order, d))
	}
	in, out := &c.plan.values[source], &c.plan.values[target]
	if slices.IsSorted(permutation) && in.constant != nil && out.constant == nil && slices.Equal(x.shape, y.shape) {
		out.constant = in.constant
		return
	}
	c.permuted(source, target, permutation)
}

// isFloat reports whether XNNPACK converts elements from and to others of this kind.
func isFloat(t ScalarType) bool { return t == Float || t == Half || t == BFloat16 }

// permuted plans a transposition, or a copy if there is nothing to transpose.
func (c *invocation) permuted(source, target xnnpack.ValueID, permutation []int) {
	if slices.IsSorted(permutation) {
		c.node(duplicate{xnnpack.Copy{Input: source, Output: target}})
		return
	}
	c.node(transpose{xnnpack.StaticTranspose{Permutation: permutation, Input: source, Output: target}})
}

// converted returns a constant tensor as a value of another type, or nil if it is no constant or cannot be converted
// here. ExecuTorch's export leaves small constants, such as the numbers of an activation, for the runtime to convert.
func (p *planner) converted(x *tensor, to ScalarType) (*value, error) {
	if x.content == nil || x.state || !convertible(x.dtype, to) {
		return nil, nil
	}
	n, err := elements(x.shape...)
	if err != nil {
		return nil, err
	}
	at, err := p.files.find(x.content, int64(n)*int64(x.dtype.Size()))
	if err != nil {
		return nil, err
	}
	c := &constant{stored: at, elements: n, from: x.dtype, to: to}
	c.name = fmt.Sprint(nameOf(x.content, at), converted, to)
	t := xnnpack.Tensor{Name: c.name, Type: elementTypes[to], Shape: x.shape}
	return &value{known: true, constant: c, tensor: t}, nil
}

package executorch

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// An invocation is a call of an operator outside of delegates, while it is planned. The first error ends that, see
// package fault.
type invocation struct {
	*planner
	name string
	args []int // values of the method
}

// errOutside is the error of a call that cannot be run here, though its operator can.
var errOutside = errors.New("outside of XNNPACK")

// outside ends a call that is not planned.
func (c *invocation) outside() { fault.Check(errOutside) }

// arg returns the value of an argument.
func (c *invocation) arg(i int) *evalue {
	if i < 0 || i >= len(c.args) {
		malformed("%d arguments", len(c.args))
	}
	return &c.method.values[c.args[i]]
}

// last is the index of the last argument, which is what the operator computes.
func (c *invocation) last() int { return len(c.args) - 1 }

// absent reports whether an argument is not given.
func (c *invocation) absent(i int) bool { return c.arg(i).kind == evalueNull }

// whole returns an integer or a boolean.
func (c *invocation) whole(i int) int {
	v := c.arg(i)
	if v.kind != evalueInt && v.kind != evalueBool {
		malformed("argument %d is no integer", i)
	}
	return clampedInt(v.whole)
}

func clampedInt(n int64) int { return int(max(min(n, math.MaxInt32), math.MinInt32)) }

// number returns a number of any kind.
func (c *invocation) number(i int) float64 {
	switch v := c.arg(i); v.kind {
	case evalueInt, evalueBool:
		return float64(v.whole)
	case evalueDouble:
		return v.number
	}
	malformed("argument %d is no number", i)
	return 0
}

// wholes returns a list of integers, and a single one as a list.
func (c *invocation) wholes(i int) []int {
	v := c.arg(i)
	if v.kind == evalueInt {
		return []int{clampedInt(v.whole)}
	}
	if v.kind != evalueIntList {
		malformed("argument %d is no list of integers", i)
	}
	out := make([]int, len(v.list))
	for k, n := range v.list {
		item := &c.method.values[n]
		if item.kind != evalueInt {
			malformed("argument %d has what is no integer", i)
		}
		out[k] = clampedInt(item.whole)
	}
	return out
}

// tensorAt returns the tensor that a value of the method is.
func (c *invocation) tensorAt(value int) *tensor {
	if t := c.method.values[value].tensor; t != nil {
		return t
	}
	malformed("value %d is no tensor", value)
	return nil
}

// tensor returns the tensor that an argument is.
func (c *invocation) tensor(i int) *tensor {
	c.arg(i)
	return c.tensorAt(c.args[i])
}

// tensors returns the values of a list of tensors.
func (c *invocation) tensors(i int) []int {
	v := c.arg(i)
	if v.kind != evalueTensorList || len(v.list) == 0 {
		malformed("argument %d is no list of tensors", i)
	}
	return v.list
}

// operandAt returns a value of the method: one of XNNPACK's or, where it has no such elements, of Go's.
func (c *invocation) operandAt(value int) xnnpack.ValueID {
	t := c.tensorAt(value)
	if err := fault.Try(func() { c.know(value) }); errors.Is(err, ErrUnsupported) {
		c.outside()
	} else {
		fault.Check(err)
	}
	id := xnnpack.ValueID(c.base + value)
	if c.plan.values[id].host {
		c.computable(t, id)
	}
	return id
}

// computable ends a call with a tensor that Go does not compute with.
func (c *invocation) computable(t *tensor, id xnnpack.ValueID) {
	c.rows(t)
	c.fixed(t)
	if slices.Max(t.shape) > operators.MostIndices || !operators.Computable(c.plan.values[id].element()) {
		c.outside()
	}
}

// operand returns an argument that is a tensor.
func (c *invocation) operand(i int) xnnpack.ValueID {
	c.arg(i)
	return c.operandAt(c.args[i])
}

// float returns an argument of floats that XNNPACK computes with.
func (c *invocation) float(i int) xnnpack.ValueID {
	id := c.operand(i)
	if t := c.of(id).Type; t != xnnpack.Float32 && t != xnnpack.Float16 {
		c.outside()
	}
	return id
}

// of returns a value of the plan.
func (c *invocation) of(id xnnpack.ValueID) *xnnpack.Tensor { return &c.plan.values[id].tensor }

// resultAt says that a value of the method is computed, with elements like another's.
func (c *invocation) resultAt(value int, like xnnpack.ValueID) xnnpack.ValueID {
	t := c.tensorAt(value)
	out, in := &c.plan.values[c.base+value], &c.plan.values[like]
	if in.host {
		if t.dtype != in.dtype {
			c.outside()
		}
		return c.operandAt(value)
	}
	if want := argumentTypes[in.tensor.Type]; t.dtype != want {
		c.outside()
	}
	if out.typed && (out.tensor.Type != in.tensor.Type || !sameMeaning(out, in)) {
		malformed("value %d means other things than what it is computed from", value)
	}
	kept := out.tensor
	out.typed, out.tensor, out.scales = true, in.tensor, in.scales
	out.tensor.Name, out.tensor.Shape = kept.Name, kept.Shape
	return xnnpack.ValueID(c.base + value)
}

// result is resultAt for what the operator computes, its last argument.
func (c *invocation) result(like xnnpack.ValueID) xnnpack.ValueID {
	c.arg(c.last())
	return c.resultAt(c.args[c.last()], like)
}

// Inside implements [flow.Composer].
func (c *invocation) Inside(like xnnpack.ValueID) xnnpack.ValueID {
	t := *c.of(like)
	t.Name, t.Shape = fmt.Sprint("within ", c.name), nil
	id := c.plan.internal(t)
	c.plan.values[id].host, c.plan.values[id].dtype = c.plan.values[like].host, c.plan.values[like].dtype
	return id
}

// filled returns a constant of that shape with one number everywhere.
func (c *invocation) filled(shape []int, number float64, like xnnpack.ValueID) xnnpack.ValueID {
	kind := c.of(like).Type
	if kind != xnnpack.Float32 && kind != xnnpack.Float16 {
		c.outside()
	}
	n := elements(shape...)
	t := xnnpack.Tensor{Type: kind, Shape: shape}
	k := &constant{elements: n, filled: float32(number), from: argumentTypes[kind], to: argumentTypes[kind]}
	k.name = fmt.Sprintf("%d of %x, %v", n, math.Float32bits(k.filled), k.to)
	t.Name = k.name
	return c.plan.value(value{typed: true, constant: k, tensor: t})
}

// Number implements [flow.Composer].
func (c *invocation) Number(x float64, like xnnpack.ValueID) xnnpack.ValueID {
	return c.filled(scalar(), x, like)
}

// Add implements [flow.Composer].
func (c *invocation) Add(op flow.Operation) { c.add(c.name, op) }

// axis returns where a tensor has a dimension of the method's in memory; a negative one counts from the last.
func (c *invocation) axis(t *tensor, dim int) int {
	return slices.Index(t.order, counted(dim, len(t.order)))
}

// axes returns where the first argument has the dimensions that argument i is, or lists: all if there are none.
func (c *invocation) axes(i int) (axes []int) {
	x := c.tensor(0)
	if v := c.arg(i); v.tensor == nil && v.kind != evalueNull {
		for _, d := range c.wholes(i) {
			axes = append(axes, c.axis(x, d))
		}
	}
	if len(axes) == 0 {
		return operators.Every(0, len(x.shape), 1)
	}
	return axes
}

// counted returns an index below a length; a negative one counts from the end.
func counted(n, length int) int {
	at := n
	if at < 0 {
		at += length
	}
	if at < 0 || at >= length {
		malformed("index %d of %d", n, length)
	}
	return at
}

// rows ends a call whose tensors are not all row by row in memory, outermost dimension first.
func (c *invocation) rows(all ...*tensor) {
	for _, t := range all {
		if !slices.IsSorted(t.order) {
			c.outside()
		}
	}
}

// alike ends a call whose tensors have their dimensions in different orders in memory.
func (c *invocation) alike(all ...*tensor) {
	for _, t := range all {
		if !slices.Equal(t.order, all[0].order) {
			c.rows(all...)
		}
	}
}

// fixed ends a call with a tensor whose shape is only the largest one.
func (c *invocation) fixed(t *tensor) {
	if t.dynamic {
		c.outside()
	}
}

package tflite

import (
	"slices"

	"xpwc/xnnpack"
)

// reduction is over which dimensions of an input, and what is left.
type reduction struct {
	in     *value
	over   []int
	output []int
	keep   bool
}

// reduction reads the axes, operand 1, and defines the output.
func (c *call) reduction() (r reduction) {
	if !c.arity(2, 2) {
		return r
	}
	in, axes := c.data(0), c.integers(1)
	if c.err != nil {
		return r
	}
	reduced := make([]bool, len(in.shape))
	for _, a := range axes {
		if a < 0 {
			a += len(in.shape)
		}
		if a < 0 || a >= len(in.shape) {
			c.malformed("axes %v of shape %v", axes, in.shape)
			return r
		}
		reduced[a] = true
	}
	keep := c.op.options.Bool(reducerKeepDims)
	var over, shape []int
	for i, d := range in.shape {
		switch {
		case !reduced[i]:
			shape = append(shape, d)
		case keep:
			shape = append(shape, 1)
		}
		if reduced[i] {
			over = append(over, i)
		}
	}
	c.define(0, shape...)
	return reduction{in, over, shape, keep}
}

// planReduce plans MEAN and SUM over constant axes.
func planReduce(op xnnpack.ReduceOperator) func(*call) func(*emitter) error {
	return func(c *call) func(*emitter) error {
		r := c.reduction()
		return func(e *emitter) error {
			if len(r.over) == 0 {
				return e.s.Copy(xnnpack.Copy{Input: e.input(c, 0), Output: e.output(c, 0)})
			}
			return e.s.StaticReduce(xnnpack.StaticReduce{
				Op: op, Axes: r.over, Input: e.input(c, 0), Output: e.output(c, 0), KeepDims: r.keep,
			})
		}
	}
}

// REDUCE_MAX over axes that follow each other: the maximum of a pool of all their elements. REDUCE_MIN is that of the
// negated ones.
func planReduceMax(c *call) func(*emitter) error {
	r := c.reduction()
	if c.err != nil {
		return nil
	}
	outer, inner, pool := 1, 1, 1
	for i, d := range r.in.shape {
		switch {
		case slices.Contains(r.over, i):
			pool *= d
		case len(r.over) > 0 && i > r.over[0]:
			inner *= d
		default:
			outer *= d
		}
	}
	for i, axis := range r.over {
		if axis != r.over[0]+i {
			c.unsupported("axes %v, which do not follow each other", r.over)
		}
	}
	c.keepsScale(0)
	c.pointers(outer, pool)
	one := xnnpack.Size{Height: 1, Width: 1}
	return func(e *emitter) error {
		if pool == 1 {
			return e.reshape(e.input(c, 0), e.output(c, 0), r.output)
		}
		t, id := c.op.inputs[0], e.input(c, 0)
		if c.op.code == opReduceMin {
			id = e.negated(id, e.like(t))
		}
		in := e.reshaped(id, t, outer, pool, 1, inner)
		top := e.define(e.like(t, outer, 1, 1, inner))
		if e.err == nil {
			e.err = e.s.MaxPooling2D(xnnpack.MaxPooling2D{Input: in, Output: top, Dilation: one,
				Pooling: xnnpack.Size{Height: pool, Width: 1}, Stride: one})
		}
		if c.op.code == opReduceMin {
			top = e.negated(top, e.like(t, outer, 1, 1, inner))
		}
		return e.reshape(top, e.output(c, 0), r.output)
	}
}

func (e *emitter) negated(id xnnpack.ValueID, like xnnpack.Tensor) xnnpack.ValueID {
	out := e.define(like)
	e.unary(xnnpack.Unary{Op: xnnpack.Negate}, id, out)
	return out
}

package tflite

import (
	"slices"

	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// reduction returns along which dimensions of a shape operand 1 and the options reduce, and whether they are kept.
func (c *call) reduction(shape []int) (axes []int, keep bool) {
	axes = c.axes(1, len(shape))
	slices.Sort(axes)
	return slices.Compact(axes), c.op.options.Bool(reducerKeepDims)
}

// reduced defines the output of a reduction.
func (c *call) reduced() (in *value, axes, shape []int, keep bool) {
	in = c.data(0)
	axes, keep = c.reduction(in.shape)
	for i, d := range in.shape {
		switch {
		case !slices.Contains(axes, i):
			shape = append(shape, d)
		case keep:
			shape = append(shape, 1)
		}
	}
	c.define(0, shape...)
	return in, axes, shape, keep
}

// planReduce plans MEAN and SUM over constant axes.
func planReduce(op xnnpack.ReduceOperator) func(*call) {
	return func(c *call) {
		_, over, _, keep := c.reduced()
		if len(over) == 0 {
			c.copies()
			return
		}
		c.Add(flow.StaticReduce(xnnpack.StaticReduce{
			Op: op, Axes: over, Input: c.in(0), Output: c.out(0), KeepDims: keep,
		}))
	}
}

// REDUCE_MAX over axes that follow each other: the maximum of a pool of all their elements. REDUCE_MIN is that of the
// negated ones.
func planReduceMax(c *call) {
	from, over, shape, _ := c.reduced()
	outer, inner, pool := 1, 1, 1
	for i, d := range from.shape {
		switch {
		case slices.Contains(over, i):
			pool *= d
		case len(over) > 0 && i > over[0]:
			inner *= d
		default:
			outer *= d
		}
	}
	for i, axis := range over {
		if axis != over[0]+i {
			unsupported("axes %v, which do not follow each other", over)
		}
	}
	c.keepsScale(c.in(0))
	one := xnnpack.Size{Height: 1, Width: 1}
	if pool == 1 {
		c.shaped(c.in(0), c.out(0), shape)
		return
	}
	negated := func(id flow.ID) flow.ID {
		if c.op.code != "REDUCE_MIN" {
			return id
		}
		return flow.Each(c, xnnpack.Unary{Op: xnnpack.Negate}, id)
	}
	in := flow.Reshaped(c, negated(c.in(0)), outer, pool, 1, inner)
	top := c.Inside(in)
	c.Add(flow.MaxPooling2D(xnnpack.MaxPooling2D{Input: in, Output: top, Dilation: one,
		Pooling: xnnpack.Size{Height: pool, Width: 1}, Stride: one}))
	c.shaped(negated(top), c.out(0), shape)
}

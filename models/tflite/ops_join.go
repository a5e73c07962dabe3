package tflite

import (
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// mostJoined is how many values are joined: more than models have, and few enough to compose.
const mostJoined = 256

// CONCATENATION along an axis.
func planConcatenation(c *call) {
	first := c.all()[0]
	if a := c.activation(concatenationActivation); a != (xnnpack.Range{}) {
		unsupported("a fused activation")
	}
	axis := dimension(int(c.op.options.Int32(concatenationAxis, 0)), len(first.shape))
	var inputs flow.IDs
	for i := range c.op.inputs {
		inputs = append(inputs, c.in(i))
	}
	flow.Join(c, axis, inputs, c.out(0))
}

// PACK: values of one shape, joined along a new dimension.
func planPack(c *call) {
	first := c.all()[0]
	axis := dimension(int(c.op.options.Int32(packAxis, 0)), len(first.shape)+1)
	one := slices.Insert(slices.Clone(first.shape), axis, 1)
	var inputs flow.IDs
	for i := range c.op.inputs {
		inputs = append(inputs, flow.Reshaped(c, c.in(i), one...))
	}
	flow.Join(c, axis, inputs, c.out(0))
}

// TILE: the input several times along each dimension.
func planTile(c *call) {
	in, times := c.data(0), c.integers(1)
	if len(times) != len(in.shape) {
		malformed("%v times an input of shape %v", times, in.shape)
	}
	if c.inGo {
		c.host(operators.Tile(times), 0)
	} else {
		c.tile(in.shape, times)
	}
}

// tile plans that the output is operand 0, in a shape, several times along each dimension.
func (c *call) tile(from, times []int) {
	shape := slices.Clone(from)
	for i, n := range times {
		if n > mostJoined {
			unsupported("%v times", times)
		}
		shape[i] *= n // a number that is not positive is none of a shape
	}
	c.moves(shape...)
	id := c.in(0)
	if rank := len(c.plan.shape(id)); rank < len(from) {
		id = flow.Reshaped(c, id, from...)
	}
	c.shaped(c.tiled(id, times), c.out(0), shape)
}

// tiled returns a value that is repeated along each dimension.
func (c *call) tiled(id flow.ID, times []int) flow.ID {
	for axis, n := range slices.Backward(times) {
		if n > 1 {
			same := slices.Repeat(flow.IDs{id}, n)
			id = c.Inside(id)
			flow.Join(c, axis, same, id)
		}
	}
	return id
}

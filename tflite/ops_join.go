package tflite

import (
	"slices"

	"xpwc/internal/compute"
	"xpwc/internal/flow"
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
	var inputs []xnnpack.ValueID
	for i := range c.op.inputs {
		inputs = append(inputs, c.in(i))
	}
	c.concatenate(axis, inputs, c.out(0), c.op.inputs[0])
	for i := range c.op.inputs {
		c.keepsScale(i)
	}
}

// concatenate joins any number of values; a node of XNNPACK joins five at most, so what is joined so far goes into
// the next one. Go joins all at once. What is joined is of the kind of a tensor.
func (c *call) concatenate(axis int, inputs []xnnpack.ValueID, out xnnpack.ValueID, like int) {
	const most = 5
	if len(inputs) == 1 {
		c.add(flow.Copy(xnnpack.Copy{Input: inputs[0], Output: out}))
		return
	}
	for !c.inGo && len(inputs) > most {
		joined := c.inside(like)
		c.add(flow.Concatenate(xnnpack.Concatenate{Axis: axis, Inputs: inputs[:most], Output: joined}))
		inputs = append([]xnnpack.ValueID{joined}, inputs[most:]...)
	}
	c.add(flow.Concatenate(xnnpack.Concatenate{Axis: axis, Inputs: inputs, Output: out}))
}

// PACK: values of one shape, joined along a new dimension.
func planPack(c *call) {
	first := c.all()[0]
	axis := dimension(int(c.op.options.Int32(packAxis, 0)), len(first.shape)+1)
	one := slices.Insert(slices.Clone(first.shape), axis, 1)
	var inputs []xnnpack.ValueID
	for i, t := range c.op.inputs {
		inputs = append(inputs, c.reshaped(c.in(i), t, one...))
	}
	c.concatenate(axis, inputs, c.out(0), c.op.inputs[0])
	for i := range c.op.inputs {
		c.keepsScale(i)
	}
}

// TILE: the input several times along each dimension.
func planTile(c *call) {
	in, times := c.data(0), c.integers(1)
	if len(times) != len(in.shape) {
		malformed("%v times an input of shape %v", times, in.shape)
	}
	c.tile(in.shape, times)
}

// tile plans an operator whose output is operand 0, in a shape, several times along each dimension.
func (c *call) tile(from, times []int) {
	shape := slices.Clone(from)
	var places [][]int
	for i, n := range times {
		if n > mostJoined && !c.inGo {
			unsupported("%v times", times)
		}
		shape[i] *= n // a number that is not positive is none of a shape
	}
	c.moves(shape...)
	if c.inGo {
		for i, n := range times {
			places = append(places, slices.Repeat(compute.Every(0, from[i], 1), n))
		}
		c.do(func(r *run) {
			r.in[0].Shape = from
			compute.Take(r.out[0], r.in[0], places, nil)
		})
		return
	}
	t := c.op.inputs[0]
	id := c.in(0)
	if rank := len(c.plan.values[t].shape); rank < len(from) {
		id = c.reshaped(id, t, from...)
	}
	c.shaped(c.tiled(id, t, times), c.out(0), shape)
}

// tiled returns a value that is repeated along each dimension; it is of the kind of a tensor.
func (c *call) tiled(id xnnpack.ValueID, like int, times []int) xnnpack.ValueID {
	for axis, n := range slices.Backward(times) {
		if n > 1 {
			same := slices.Repeat([]xnnpack.ValueID{id}, n)
			id = c.inside(like)
			c.concatenate(axis, same, id, like)
		}
	}
	return id
}

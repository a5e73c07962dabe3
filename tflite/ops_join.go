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
	c.arity(1, mostJoined)
	first := c.data(0)
	if a := c.activation(concatenationActivation); a != (xnnpack.Range{}) {
		unsupported("a fused activation")
	}
	rank := len(first.shape)
	axis := dimension(int(c.op.options.Int32(concatenationAxis, 0)), rank)
	shape := slices.Clone(first.shape)
	shapes := [][]int{first.shape}
	for i := 1; i < len(c.op.inputs); i++ {
		v := c.data(i)
		if v.dtype != first.dtype || len(v.shape) != rank {
			malformed("inputs of %v%v and %v%v", first.dtype, first.shape, v.dtype, v.shape)
		}
		for d := range rank {
			if d != axis && v.shape[d] != shape[d] {
				malformed("inputs of shapes %v and %v along axis %d", first.shape, v.shape, axis)
			}
		}
		shape[axis] += v.shape[axis]
		shapes = append(shapes, v.shape)
	}
	c.define(0, shape...)
	for i := range c.op.inputs {
		c.keepsScale(i)
	}
	out := c.out(0)
	inputs := make([]xnnpack.ValueID, len(c.op.inputs))
	for i := range inputs {
		inputs[i] = c.in(i)
	}
	c.concatenate(axis, inputs, shapes, out, c.like(c.op.inputs[0]))
}

// concatenate joins any number of values; a node of XNNPACK joins five at most, so what is joined so far goes into
// the next one. Go joins all at once. What is joined is as the given description says.
func (c *call) concatenate(axis int, inputs []xnnpack.ValueID, shapes [][]int, out xnnpack.ValueID,
	like xnnpack.Tensor) {
	const most = 5
	if len(inputs) == 1 {
		c.add(flow.Copy(xnnpack.Copy{Input: inputs[0], Output: out}))
		return
	}
	for !c.inGo && len(inputs) > most {
		joined := slices.Clone(shapes[0])
		for _, s := range shapes[1:most] {
			joined[axis] += s[axis]
		}
		like.Name, like.Shape = "joined", joined
		id := c.inside(like)
		c.add(flow.Concatenate(xnnpack.Concatenate{Axis: axis, Inputs: inputs[:most], Output: id}))
		inputs = append([]xnnpack.ValueID{id}, inputs[most:]...)
		shapes = append([][]int{joined}, shapes[most:]...)
	}
	c.add(flow.Concatenate(xnnpack.Concatenate{Axis: axis, Inputs: inputs, Output: out}))
}

// PACK: values of one shape, joined along a new dimension.
func planPack(c *call) {
	c.arity(1, mostJoined)
	first := c.data(0)
	axis := dimension(int(c.op.options.Int32(packAxis, 0)), len(first.shape)+1)
	one := slices.Insert(slices.Clone(first.shape), axis, 1)
	var shapes [][]int
	for i := range c.op.inputs {
		v := c.data(i)
		if v.dtype != first.dtype || !slices.Equal(v.shape, first.shape) {
			malformed("inputs of %v%v and %v%v", first.dtype, first.shape, v.dtype, v.shape)
		}
		shapes = append(shapes, one)
	}
	shape := slices.Clone(one)
	shape[axis] = len(shapes)
	c.define(0, shape...)
	for i := range c.op.inputs {
		c.keepsScale(i)
	}
	var inputs []xnnpack.ValueID
	for i, t := range c.op.inputs {
		inputs = append(inputs, c.reshaped(c.in(i), t, one...))
	}
	c.concatenate(axis, inputs, shapes, c.out(0), c.like(c.op.inputs[0]))
}

// TILE: the input several times along each dimension.
func planTile(c *call) {
	c.arity(2, 2)
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
		c.do(func(r *run) error {
			r.in[0].Shape = from
			return compute.Take(r.out[0], r.in[0], places, nil)
		})
		return
	}
	t := c.op.inputs[0]
	id := c.in(0)
	if rank := len(c.plan.values[t].shape); rank < len(from) {
		id = c.reshaped(id, t, from...)
	}
	c.shaped(c.tiled(id, t, from, times), c.out(0), shape)
}

// tiled returns a value of a shape that is repeated along each dimension; it is of the kind of a tensor.
func (c *call) tiled(id xnnpack.ValueID, like int, shape, times []int) xnnpack.ValueID {
	shape = slices.Clone(shape)
	for axis, n := range slices.Backward(times) {
		if n == 1 {
			continue
		}
		same := slices.Repeat([]xnnpack.ValueID{id}, n)
		shapes := slices.Repeat([][]int{slices.Clone(shape)}, n)
		shape[axis] *= n
		id = c.inside(c.like(like, shape...))
		c.concatenate(axis, same, shapes, id, c.like(like))
	}
	return id
}

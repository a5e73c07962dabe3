package tflite

import (
	"slices"

	"xpwc/internal/compute"
	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// PAD with zeros, and PADV2 with a constant: paddings [rank, 2] before and after each dimension.
func planPad(c *call) {
	c.arity(2, 3)
	in, paddings := c.data(0), c.integers(1)
	var fill float32
	switch {
	case c.inGo && len(c.op.inputs) == 3:
		if v := c.data(2); v.dtype != in.dtype || len(v.shape) > 0 {
			malformed("an element of %v%v for %v", v.dtype, v.shape, in.dtype)
		}
	case c.op.code == opPadV2:
		if fill = float32(c.number(2)); c.resolve(2).dtype != typeFloat32 {
			unsupported("padding with %v", c.declared(2))
		}
	}
	rank := len(in.shape)
	if len(paddings) != 2*rank || slices.Min(append(paddings, 0)) < 0 {
		malformed("paddings %v of shape %v", paddings, in.shape)
	}
	pre, post, shape := make([]int, rank), make([]int, rank), make([]int, rank)
	for i, d := range in.shape {
		pre[i], post[i] = paddings[2*i], paddings[2*i+1]
		shape[i] = d + pre[i] + post[i]
	}
	c.moves(shape...)
	if c.inGo {
		var places [][]int
		for i, d := range in.shape {
			places = append(places, slices.Concat(slices.Repeat([]int{-1}, pre[i]), compute.Every(0, d, 1),
				slices.Repeat([]int{-1}, post[i])))
		}
		c.do(func(r *run) error {
			var missing []byte
			if len(r.in) == 3 {
				missing = r.in[2].Data
			}
			return compute.Take(r.out[0], r.in[0], places, missing)
		})
		return
	}
	c.add(flow.StaticConstantPad(xnnpack.StaticConstantPad{
		Input: c.in(0), Output: c.out(0), Pre: pre, Post: post, Value: fill,
	}))
}

// pad adds a node that puts zeros around a value.
func (c *call) pad(in, out xnnpack.ValueID, pre, post []int) {
	c.add(flow.StaticConstantPad(xnnpack.StaticConstantPad{Input: in, Output: out, Pre: pre, Post: post}))
}

// RESHAPE to the shape that the second input or else the options give, where one dimension may be -1: what is left.
func planReshape(c *call) {
	c.arity(1, 2)
	in := c.data(0)
	var shape []int
	n := c.tensor(1)
	if n != absent && (c.plan.values[n].state != undefined || c.plan.graph.tensors[n].data.Size != 0) {
		shape = c.integers(1)
	} else {
		shape = ints(c.op.options.Int32s(reshapeNewShape))
	}
	c.sameTypes(in)
	shape = c.newShape(in.shape, shape)
	c.reshape(shape)
}

// newShape returns the shape of which one dimension may be -1, for as many elements as an old shape has.
func (c *call) newShape(old, shape []int) []int {
	shape = slices.Clone(shape)
	if len(shape) == 1 && shape[0] == 0 { // how old converters write a scalar
		shape = nil
	}
	total, _ := elements(old)
	known, free := 1, absent
	for i, d := range shape {
		if d == -1 && free == absent {
			free = i
			continue
		}
		var err error
		if known, err = checkedMul(known, d); err != nil || d <= 0 {
			malformed("the new shape %v", shape)
		}
	}
	if free != absent && total%known == 0 {
		shape[free], known = total/known, total
	}
	if known != total {
		malformed("shape %v cannot become %v", old, shape)
	}
	return shape
}

// reshape plans an operator that gives operand 0 another shape.
func (c *call) reshape(shape []int) {
	c.moves(shape...)
	c.shaped(c.in(0), c.out(0), shape)
}

// moves gives output 0 a shape, of elements of operand 0.
func (c *call) moves(shape ...int) {
	c.define(0, shape...)
	c.keepsScale(0)
}

// keepsScale has an operator that moves elements computed in single precision where they get another scale on the way.
func (c *call) keepsScale(input int) {
	if tensors := c.plan.graph.tensors; tensors[c.op.inputs[input]].inGo() {
		for _, n := range c.op.outputs {
			if tensors[n].dtype != c.declared(input) || !tensors[n].inGo() {
				malformed("values of type %v become %v", c.declared(input), tensors[n].dtype)
			}
		}
		return
	}
	in := c.describe(c.op.inputs[input])
	for _, n := range c.op.outputs {
		out := c.describe(n)
		if in.Type != out.Type || in.Quantization.Scale != out.Quantization.Scale ||
			in.Quantization.ZeroPoint != out.Quantization.ZeroPoint {
			c.wide = true
		}
	}
}

// EXPAND_DIMS: a new dimension at a constant place.
func planExpandDims(c *call) {
	c.arity(2, 2)
	in := c.data(0)
	axis := c.axis(1, len(in.shape)+1)
	c.reshape(slices.Insert(slices.Clone(in.shape), axis, 1))
}

// SQUEEZE drops some dimensions of length 1, or all.
func planSqueeze(c *call) {
	c.arity(1, 1)
	in, dims := c.data(0), ints(c.op.options.Int32s(squeezeDims))
	for i, d := range dims {
		if dims[i] = dimension(d, len(in.shape)); in.shape[dims[i]] != 1 {
			malformed("dimensions %v of shape %v", dims, in.shape)
		}
	}
	var shape []int
	for i, d := range in.shape {
		if d != 1 || len(dims) > 0 && !slices.Contains(dims, i) {
			shape = append(shape, d)
		}
	}
	c.reshape(shape)
}

// TRANSPOSE with a constant permutation.
func planTranspose(c *call) {
	c.arity(2, 2)
	in := c.data(0)
	rank := len(in.shape)
	permutation, shape, seen := c.axes(1, rank), make([]int, rank), make([]bool, rank)
	if len(permutation) != rank {
		malformed("the permutation %v of shape %v", permutation, in.shape)
	}
	for i, d := range permutation {
		if seen[d] {
			malformed("the permutation %v of shape %v", permutation, in.shape)
		}
		shape[i], seen[d] = in.shape[d], true
	}
	c.moves(shape...)
	if rank == 0 {
		c.shaped(c.in(0), c.out(0), nil)
		return
	}
	c.add(flow.StaticTranspose(xnnpack.StaticTranspose{Permutation: permutation, Input: c.in(0),
		Output: c.out(0)}))
}

// transposed returns a value with its dimensions in another order; it is of the kind of a tensor.
func (c *call) transposed(id xnnpack.ValueID, like int, shape, permutation []int) xnnpack.ValueID {
	to := make([]int, len(shape))
	for i, d := range permutation {
		to[i] = shape[d]
	}
	out := c.inside(c.like(like, to...))
	c.add(flow.StaticTranspose(xnnpack.StaticTranspose{Permutation: permutation, Input: id, Output: out}))
	return out
}

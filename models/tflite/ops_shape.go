package tflite

import (
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// paddings returns operand 1, a constant [rank, 2]: how many elements are before and after each dimension.
func (c *call) paddings(rank int) (pre, post []int) {
	paddings := c.integers(1)
	if len(paddings) != 2*rank || slices.Min(append(paddings, 0)) < 0 {
		malformed("paddings %v of %d dimensions", paddings, rank)
	}
	for i := 0; i < len(paddings); i += 2 {
		pre, post = append(pre, paddings[i]), append(post, paddings[i+1])
	}
	return pre, post
}

// PAD with zeros, and PADV2 with a constant.
func planPad(c *call) {
	in := c.data(0)
	pre, post := c.paddings(len(in.shape))
	if c.inGo {
		operands := []int{0}
		if len(c.op.inputs) == 3 {
			operands = append(operands, 2)
			if v := c.data(2); v.dtype != in.dtype || len(v.shape) > 0 {
				malformed("an element of %v%v for %v", v.dtype, v.shape, in.dtype)
			}
		}
		c.host(operators.Pad(pre, post), operands...)
		return
	}
	var fill float32
	if c.op.code == "PADV2" {
		if fill = float32(c.number(2)); c.resolve(2).dtype != typeFloat32 {
			unsupported("padding with %v", c.declared(2))
		}
	}
	c.Add(flow.StaticConstantPad(xnnpack.StaticConstantPad{Input: c.in(0), Output: c.out(0), Pre: pre, Post: post,
		Value: fill}))
}

// RESHAPE to the shape that the second input or else the options give, where one dimension may be -1: what is left.
func planReshape(c *call) {
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
	if len(shape) == 1 && shape[0] == 0 { // how old converters write a scalar
		return c.newShape(old, nil)
	}
	shape = slices.Clone(shape)
	for i, d := range shape {
		if d == 0 {
			malformed("the new shape %v", shape)
		}
		shape[i] = max(d, 0) // package flow has 0 for what is left
	}
	checked(func() { shape = flow.StaticReshape(xnnpack.StaticReshape{Shape: shape}).Shape([][]int{old}) })
	return shape
}

// reshape plans an operator that gives operand 0 another shape.
func (c *call) reshape(shape []int) {
	c.shaped(c.in(0), c.out(0), shape)
}

// moves gives output 0 a shape, of elements of operand 0.
func (c *call) moves(shape ...int) {
	c.define(0, shape...)
	c.keepsScale(c.in(0))
}

// keepsScale has an operator that moves elements of a tensor computed in single precision where they get another scale
// on the way. One whose nodes all move elements is asked about these when it is planned.
func (c *call) keepsScale(input flow.ID) {
	if from := &c.plan.graph.tensors[input]; from.inGo() {
		for _, n := range c.op.outputs {
			if to := &c.plan.graph.tensors[n]; to.dtype != from.dtype || !to.inGo() {
				malformed("values of type %v become %v", from.dtype, to.dtype)
			}
		}
		return
	}
	in := c.plan.describe(int(input))
	for _, n := range c.op.outputs {
		out := c.plan.describe(n)
		if in.Type != out.Type || in.Quantization.Scale != out.Quantization.Scale ||
			in.Quantization.ZeroPoint != out.Quantization.ZeroPoint {
			c.wide = true
		}
	}
}

// EXPAND_DIMS: a new dimension at a constant place.
func planExpandDims(c *call) {
	in := c.data(0)
	axis := c.axis(1, len(in.shape)+1)
	c.reshape(slices.Insert(slices.Clone(in.shape), axis, 1))
}

// SQUEEZE drops some dimensions of length 1, or all.
func planSqueeze(c *call) {
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
	in := c.data(0)
	permutation := c.axes(1, len(in.shape))
	if len(in.shape) == 0 {
		c.reshape(nil)
		return
	}
	c.Add(flow.StaticTranspose(xnnpack.StaticTranspose{Permutation: permutation, Input: c.in(0), Output: c.out(0)}))
}

package tflite

import (
	"math"
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// planUnary plans an operator that computes each element from one.
func planUnary(node xnnpack.Unary) func(*call) {
	return func(c *call) {
		in := c.data(0)
		c.define(0, in.shape...)
		c.unary(node, c.in(0), c.out(0))
	}
}

func planOne(op xnnpack.UnaryOperator) func(*call) {
	return planUnary(xnnpack.Unary{Op: op})
}

func clamp(low, high float64) xnnpack.Unary {
	return xnnpack.Unary{Op: xnnpack.Clamp, Limits: xnnpack.Range{Min: float32(low), Max: float32(high)}}
}

// GELU. XNNPACK's is the exact one.
func planGELU(c *call) {
	if !c.op.options.Bool(geluApproximate) {
		planOne(xnnpack.GELU)(c)
		return
	}
	c.data(0)
	c.binary(xnnpack.Multiply, flow.GELUFactor(c, c.in(0)), c.in(0), c.out(0), xnnpack.Range{})
}

// LEAKY_RELU.
func planLeakyReLU(c *call) {
	planUnary(xnnpack.Unary{Op: xnnpack.LeakyReLU, NegativeSlope: c.op.options.Float32(leakyReluAlpha, 0)})(c)
}

// SOFTMAX over the last dimension.
func planSoftmax(c *call) {
	in := c.data(0)
	beta := c.op.options.Float32(softmaxBeta, 0)
	if !(beta > 0 && beta <= math.MaxFloat32) {
		unsupported("a beta of %v", beta)
	}
	if len(in.shape) == 0 {
		malformed("a scalar")
	}
	id := c.in(0)
	if beta != 1 {
		id = flow.Both(c, xnnpack.Multiply, id, c.Number(float64(beta), id))
	}
	c.Add(flow.Softmax(xnnpack.Softmax{Input: id, Output: c.out(0)}))
}

func (c *call) binary(op xnnpack.BinaryOperator, a, b, out xnnpack.ValueID, limits xnnpack.Range) {
	c.Add(flow.Binary(xnnpack.Binary{Op: op, A: a, B: b, Output: out, Activation: limits}))
}

// L2_NORMALIZATION divides by the root of the sum of the squares over the last dimension.
func planL2Normalization(c *call) {
	in := c.data(0)
	limits := c.activation(l2Activation)
	if len(in.shape) == 0 {
		malformed("a scalar")
	}
	x := c.in(0)
	squares := flow.Each(c, xnnpack.Unary{Op: xnnpack.Square}, x)
	sum := flow.Reduced(c, xnnpack.ReduceSum, []int{len(in.shape) - 1}, squares)
	root := flow.Each(c, xnnpack.Unary{Op: xnnpack.SquareRoot}, sum)
	norm := flow.Both(c, xnnpack.Maximum, root, c.Number(1e-6, x))
	c.binary(xnnpack.Divide, x, norm, c.out(0), limits)
}

// ADD_N.
func planAddN(c *call) {
	values := c.all()
	for _, v := range values {
		if !slices.Equal(v.shape, values[0].shape) {
			malformed("shapes %v and %v", values[0].shape, v.shape)
		}
	}
	c.sameTypes(values[0])
	sum, last := c.in(0), len(values)-1
	for i := 1; i < last; i++ {
		sum = flow.Both(c, xnnpack.Add, sum, c.in(i))
	}
	if last == 0 {
		c.copies()
		return
	}
	c.binary(xnnpack.Add, sum, c.in(last), c.out(0), xnnpack.Range{})
}

// broadcast returns the shape of an operation on elements of a and b, whose dimensions are matched from the last and
// are equal or 1.
func (c *call) broadcast(a, b []int) []int {
	shape, ok := operators.Broadcast(a, b)
	if !ok {
		malformed("shapes %v and %v do not go together", a, b)
	}
	return shape
}

// planBinary plans an operator that computes each element from two. The slot is its fused activation's, if it can
// have one.
func planBinary(operator xnnpack.BinaryOperator, slot int) func(*call) {
	return func(c *call) {
		a, b := c.data(0), c.data(1)
		if a.dtype != b.dtype {
			unsupported("inputs of types %v and %v", c.declared(0), c.declared(1))
		}
		c.sameTypes(a)
		var limits xnnpack.Range
		if slot >= 0 {
			limits = c.activation(slot)
		}
		c.binary(operator, c.in(0), c.in(1), c.out(0), limits)
		if a.dtype.isBytes() && !c.requantizes(operator) {
			c.wide = true
		}
	}
}

// requantizes reports whether XNNPACK's kernels for bytes can compute an operator: the scales of the operands must not
// differ too much from the output's.
func (c *call) requantizes(operator xnnpack.BinaryOperator) bool {
	a, b := c.plan.describe(c.op.inputs[0]).Quantization.Scale, c.plan.describe(c.op.inputs[1]).Quantization.Scale
	out := c.plan.describe(c.op.outputs[0]).Quantization.Scale
	within := func(ratio, least float32) bool { return ratio >= least && ratio < 0x1p8 }
	switch operator {
	case xnnpack.Add, xnnpack.Subtract:
		return within(a/out, 0x1p-10) && within(b/out, 0x1p-10)
	case xnnpack.Multiply:
		return within(a*b/out, 0x1p-16)
	}
	return false
}

// PRELU: the slopes of negative elements go with the elements as those of any other operator on two values.
func planPReLU(c *call) {
	c.data(0)
	c.data(1)
	c.binary(xnnpack.PReLUOperator, c.in(0), c.in(1), c.out(0), xnnpack.Range{})
}

// DEQUANTIZE of a constant in half precision is the same constant widened: no node, and nothing is computed before
// its content is asked for. Of quantized values it is a conversion.
func planDequantize(c *call) {
	in := c.resolve(0)
	if out := c.output(0); out.dtype != typeFloat32 {
		unsupported("an output of type %v", out.dtype)
	}
	if in.state == static && in.dtype != typeFloat32 {
		if in.dtype != typeFloat16 {
			in.constant.describe()
		}
		c.alias(0, in.constant.dequantized())
		return
	}
	c.convert()
}

// convert plans QUANTIZE, of single precision or from one quantization to another, and DEQUANTIZE of what is computed.
func (c *call) convert() {
	in, node := c.data(0), xnnpack.Unary{Op: xnnpack.ConvertElements}
	if in.dtype == typeFloat32 && c.output(0).element() == typeFloat32 {
		node = c.withinInt16()
	}
	c.unary(node, c.in(0), c.out(0))
}

// DENSIFY: the same constant, dense. As with DEQUANTIZE, its content is computed when it is asked for.
func planDensify(c *call) {
	in := c.resolve(0)
	if in.state != static {
		unsupported("an input that is not constant")
	}
	if out := c.output(0); out.dtype != in.dtype {
		malformed("an output of type %v for an input of type %v", out.dtype, in.dtype)
	}
	c.alias(0, in.constant)
}

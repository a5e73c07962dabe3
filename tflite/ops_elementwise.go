package tflite

import (
	"xpwc/xnnpack"
)

// planUnary plans an operator that computes each element from one.
func planUnary(node xnnpack.Unary) func(*call) func(*emitter) error {
	return func(c *call) func(*emitter) error {
		if !c.arity(1, 1) {
			return nil
		}
		in := c.data(0)
		c.float32s(in)
		c.define(0, in.shape...)
		return func(e *emitter) error { return e.unary(node, e.input(c, 0), e.output(c, 0)) }
	}
}

func (e *emitter) unary(node xnnpack.Unary, in, out xnnpack.ValueID) error {
	node.Input, node.Output = in, out
	return e.s.Unary(node)
}

func clamp(low, high float64) xnnpack.Unary {
	return xnnpack.Unary{Op: xnnpack.Clamp, Limits: xnnpack.Range{Min: float32(low), Max: float32(high)}}
}

// LEAKY_RELU.
func planLeakyReLU(c *call) func(*emitter) error {
	return planUnary(xnnpack.Unary{Op: xnnpack.LeakyReLU, NegativeSlope: c.op.options.Float32(leakyReluAlpha, 0)})(c)
}

// SOFTMAX over the last dimension.
func planSoftmax(c *call) func(*emitter) error {
	if !c.arity(1, 1) {
		return nil
	}
	in := c.data(0)
	c.float32s(in)
	if beta := c.op.options.Float32(softmaxBeta, 0); beta != 1 {
		c.unsupported("a beta of %v", beta)
	}
	if c.err == nil && len(in.shape) == 0 {
		c.malformed("a scalar")
	}
	c.define(0, in.shape...)
	return func(e *emitter) error {
		return e.s.Softmax(xnnpack.Softmax{Input: e.input(c, 0), Output: e.output(c, 0)})
	}
}

// broadcast returns the shape of an operation on elements of a and b, whose dimensions are matched from the last and
// are equal or 1.
func (c *call) broadcast(a, b []int) []int {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := append([]int(nil), a...)
	for i := range b {
		d := &out[len(a)-len(b)+i]
		switch {
		case *d == 1:
			*d = b[i]
		case b[i] != 1 && b[i] != *d:
			c.malformed("shapes %v and %v do not go together", a, b)
		}
	}
	return out
}

// planBinary plans an operator that computes each element from two. The slot is its fused activation's, if it can
// have one.
func planBinary(operator xnnpack.BinaryOperator, quantized bool, slot int) func(*call) func(*emitter) error {
	return func(c *call) func(*emitter) error {
		if !c.arity(2, 2) {
			return nil
		}
		a, b := c.data(0), c.data(1)
		if c.err == nil && a.dtype != b.dtype {
			c.unsupported("inputs of types %v and %v", a.dtype, b.dtype)
		}
		if c.sameTypes(a); c.err == nil && a.dtype != typeFloat32 && (!quantized || a.dtype == typeInt32) {
			c.unsupported("values of type %v", a.dtype)
		}
		var limits xnnpack.Range
		if slot >= 0 {
			limits = c.activation(slot)
		}
		c.define(0, c.broadcast(a.shape, b.shape)...)
		return func(e *emitter) error {
			return e.s.Binary(xnnpack.Binary{
				Op: operator, A: e.input(c, 0), B: e.input(c, 1), Output: e.output(c, 0), Activation: limits,
			})
		}
	}
}

// PRELU: the slope of negative elements is a constant that has one value for each channel.
func planPReLU(c *call) func(*emitter) error {
	if !c.arity(2, 2) {
		return nil
	}
	in, slope := c.data(0), c.data(1)
	c.float32s(in)
	if c.err != nil {
		return nil
	}
	n, err := elements(slope.shape)
	rank := len(in.shape)
	if slope.state != static || slope.dtype != typeFloat32 || err != nil || rank == 0 || n != in.shape[rank-1] ||
		slope.shape[len(slope.shape)-1] != n {
		c.unsupported("slopes of shape %v and type %v for an input of %v: they must be constant, one a channel",
			slope.shape, slope.dtype, in.shape)
	}
	c.define(0, in.shape...)
	return func(e *emitter) error {
		return e.s.PReLU(xnnpack.PReLU{Input: e.input(c, 0), Slope: e.input(c, 1), Output: e.output(c, 0)})
	}
}

// DEQUANTIZE of a constant in half precision is the same constant widened: no node, and nothing is computed before
// its content is asked for. Of quantized values it is a conversion.
func planDequantize(c *call) func(*emitter) error {
	if !c.arity(1, 1) {
		return nil
	}
	in := c.resolve(0)
	if out := c.output(0); out != nil && out.dtype != typeFloat32 {
		c.unsupported("an output of type %v", out.dtype)
	}
	if c.err != nil {
		return nil
	}
	if in.dtype == typeFloat16 && in.state == static {
		k := *in.constant
		k.dtype, k.size = typeFloat32, 2*k.size
		c.alias(0, k)
		return nil
	}
	return c.convert()
}

// QUANTIZE, of single precision or from one quantization to another.
func planQuantize(c *call) func(*emitter) error {
	if !c.arity(1, 1) {
		return nil
	}
	return c.convert()
}

func (c *call) convert() func(*emitter) error {
	in := c.data(0)
	if c.err == nil && in.dtype != typeFloat32 && in.dtype != typeInt8 && in.dtype != typeUint8 {
		c.unsupported("values of type %v", in.dtype)
	}
	if out := c.output(0); out != nil && out.dtype == typeInt32 {
		c.unsupported("an output of type %v", out.dtype)
	}
	c.define(0, in.shape...)
	return func(e *emitter) error {
		return e.unary(xnnpack.Unary{Op: xnnpack.ConvertElements}, e.input(c, 0), e.output(c, 0))
	}
}

// DENSIFY: the same constant, dense. As with DEQUANTIZE, its content is computed when it is asked for.
func planDensify(c *call) func(*emitter) error {
	if !c.arity(1, 1) {
		return nil
	}
	in := c.resolve(0)
	if c.err == nil && in.state != static {
		c.unsupported("an input that is not constant")
	}
	if out := c.output(0); out != nil && out.dtype != in.dtype {
		c.malformed("an output of type %v for an input of type %v", out.dtype, in.dtype)
	}
	if c.err == nil {
		c.alias(0, *in.constant)
	}
	return nil
}

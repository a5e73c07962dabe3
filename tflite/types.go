package tflite

import (
	"fmt"
	"slices"

	"xpwc/packing"
	"xpwc/xnnpack"
)

// datatype returns how XNNPACK names the type of a tensor, and its quantization.
func datatype(t elementType, q quantization, shape []int) (xnnpack.Datatype, xnnpack.Quantization, error) {
	none := xnnpack.Quantization{}
	if t == typeFloat32 {
		return xnnpack.Float32, none, nil
	}
	perTensor, perChannel := xnnpack.Datatype(0), xnnpack.Datatype(0)
	switch t {
	case typeInt8:
		perTensor, perChannel = xnnpack.QInt8, xnnpack.ChannelQInt8
	case typeUint8:
		perTensor = xnnpack.QUint8
	case typeInt32:
		perTensor, perChannel = xnnpack.QInt32, xnnpack.ChannelQInt32
	default:
		return 0, none, fmt.Errorf("%w: values of type %v", ErrUnsupported, t)
	}
	if q.custom || len(q.scales) == 0 {
		return 0, none, fmt.Errorf("%w: values of type %v without a scale", ErrUnsupported, t)
	}
	if len(q.zeroPoints) > len(q.scales) {
		return 0, none, fmt.Errorf("%w: %d zero points for %d scales", ErrMalformed, len(q.zeroPoints), len(q.scales))
	}
	for _, s := range q.scales {
		if !(s > 0) { // also if it is no number
			return 0, none, fmt.Errorf("%w: the scale %v", ErrMalformed, s)
		}
	}
	for _, z := range q.zeroPoints {
		if low, high := zeroPoints(t); z < low || z > high {
			return 0, none, fmt.Errorf("%w: the zero point %d of type %v", ErrMalformed, z, t)
		}
	}
	if len(q.scales) == 1 {
		out := xnnpack.Quantization{Scale: q.scales[0]}
		if len(q.zeroPoints) == 1 {
			out.ZeroPoint = int32(q.zeroPoints[0])
		}
		return perTensor, out, nil
	}
	if q.dimension < 0 || q.dimension >= len(shape) || len(q.scales) != shape[q.dimension] {
		return 0, none, fmt.Errorf("%w: %d scales along dimension %d of shape %v", ErrMalformed, len(q.scales),
			q.dimension, shape)
	}
	nonzero := func(z int64) bool { return z != 0 }
	if perChannel == 0 || slices.ContainsFunc(q.zeroPoints, nonzero) {
		return 0, none, fmt.Errorf("%w: channelwise zero points, or channelwise %v", ErrUnsupported, t)
	}
	return perChannel, xnnpack.Quantization{Scales: q.scales, ChannelDim: q.dimension}, nil
}

func zeroPoints(t elementType) (low, high int64) {
	switch t {
	case typeInt8:
		return -128, 127
	case typeUint8:
		return 0, 255
	default:
		return 0, 0
	}
}

// weightTypes checks that an operator computes in one of the combinations of types that TensorFlow Lite defines without
// quantizing at inference: single precision throughout, or int8 or uint8 with a bias of int32.
func (c *call) weightTypes(in, filter *value, weights, bias int) {
	c.sameTypes(in)
	if c.err == nil && len(c.op.outputs) != 1 {
		c.malformed("%d outputs", len(c.op.outputs))
	}
	if c.err != nil {
		return
	}
	biasType := typeInt32
	if in.dtype == typeFloat32 {
		biasType = typeFloat32
	}
	if filter.dtype != in.dtype {
		c.unsupported("weights of type %v for an input of type %v", filter.dtype, in.dtype)
	}
	if n := c.tensor(bias); n != absent {
		if t := c.resolve(bias).dtype; t != biasType {
			c.unsupported("a bias of type %v for an input of type %v", t, in.dtype)
		}
	}
	if t := c.describe(c.op.inputs[weights]); t.Type == xnnpack.QInt8 && t.Quantization.ZeroPoint != 0 {
		c.unsupported("int8 weights with the zero point %d", t.Quantization.ZeroPoint)
	}
}

// describe returns the description for XNNPACK of a tensor that has a shape.
func (c *call) describe(tensor int) xnnpack.Tensor {
	if c.err != nil {
		return xnnpack.Tensor{}
	}
	t, err := c.plan.describe(tensor)
	c.err = err
	return t
}

// A packer is the Packing method of a node.
type packer func(filter, bias, input, output xnnpack.Tensor) packing.Identity

// packs notes what XNNPACK makes of the weights, once the output is defined. The arguments are operands; there may be
// no bias.
func (c *call) packs(node packer, input, weights, bias int) {
	if c.err != nil {
		return
	}
	in, filter, out := c.describe(c.op.inputs[input]), c.describe(c.op.inputs[weights]), c.describe(c.op.outputs[0])
	var b xnnpack.Tensor
	if n := c.tensor(bias); n != absent {
		b = c.describe(n)
	}
	for i, u := range c.uses {
		if u.constant.tensor == c.op.inputs[weights] && u.how&(usePacked|usePackedBlind) != 0 {
			packed := node(filter, b, in, out)
			c.uses[i].packing = &packed
		}
	}
}

// sameTypes checks that every output has the type of the input.
func (c *call) sameTypes(in *value) {
	for i, n := range c.op.outputs {
		if t := c.plan.graph.tensors[n].dtype; c.err == nil && t != in.dtype {
			c.unsupported("output %d of type %v for an input of type %v", i, t, in.dtype)
		}
	}
}

// float32s checks that an operator's input and output are single precision, for those that this package runs in no
// other type.
func (c *call) float32s(in *value) {
	c.sameTypes(in)
	if c.err == nil && in.dtype != typeFloat32 {
		c.unsupported("values of type %v", in.dtype)
	}
}

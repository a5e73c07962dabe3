package tflite

import (
	"slices"

	"xpwc/internal/fault"
	"xpwc/models"
	"xpwc/xnnpack"
)

// elementTypes are the types that Go computes with. XNNPACK has single precision, and integers with a scale. Complex
// numbers are moved as what has as many bytes; only operators that take complexes have them.
var elementTypes = map[elementType]models.Element{
	typeFloat32: models.Float32, typeInt8: models.Int8, typeUint8: models.Uint8, typeInt16: models.Int16,
	typeInt32: models.Int32, typeInt64: models.Int64, typeBool: models.Bool,
	typeComplex64: models.Int64,
}

// inGo reports whether XNNPACK has no such values: integers without a scale, and booleans.
func (t *tensor) inGo() bool {
	return elementTypes[t.dtype] != 0 && t.dtype != typeFloat32 && len(t.quantization.scales) == 0
}

// computable checks that XNNPACK or Go has values of the tensor's type, in a shape.
func (t *tensor) computable(shape []int) {
	if !t.inGo() {
		datatype(t.element(), t.quantization, shape)
	}
}

// element is the type that values of the tensor are computed in: int16 with a scale, of which XNNPACK has no kernels,
// is single precision.
func (t *tensor) element() elementType {
	if t.dtype == typeInt16 && len(t.quantization.scales) > 0 {
		return typeFloat32
	}
	return t.dtype
}

func (t elementType) isBytes() bool { return t == typeInt8 || t == typeUint8 }

// describe returns the description for XNNPACK of a tensor of this name, type and shape.
func describe(name string, t elementType, q quantization, shape []int) (out xnnpack.Tensor) {
	out.Name, out.Shape = name, shape
	if t == typeFloat32 {
		out.Type = xnnpack.Float32
		return out
	}
	fault.Wrap(func() { out.Type, out.Quantization = datatype(t, q, shape) }, "%q", name)
	return out
}

// datatype returns how XNNPACK names the type of a tensor, and its quantization.
func datatype(t elementType, q quantization, shape []int) (xnnpack.Datatype, xnnpack.Quantization) {
	if t == typeFloat32 {
		return xnnpack.Float32, xnnpack.Quantization{}
	}
	types, ok := quantizedTypes[t]
	if !ok {
		unsupported("values of type %v", t)
	}
	if q.block > 0 {
		unsupported("values of type %v with scales of blocks", t)
	}
	if q.custom || len(q.scales) == 0 {
		unsupported("values of type %v without a scale", t)
	}
	if len(q.zeroPoints) > len(q.scales) {
		malformed("%d zero points for %d scales", len(q.zeroPoints), len(q.scales))
	}
	for _, s := range q.scales {
		if !(s > 0) { // also if it is no number
			malformed("the scale %v", s)
		}
	}
	for _, z := range q.zeroPoints {
		if z < types.low || z > types.high {
			malformed("the zero point %d of type %v", z, t)
		}
	}
	if len(q.scales) == 1 {
		out := xnnpack.Quantization{Scale: q.scales[0]}
		if len(q.zeroPoints) == 1 {
			out.ZeroPoint = int32(q.zeroPoints[0])
		}
		return types.perTensor, out
	}
	if q.dimension < 0 || q.dimension >= len(shape) || len(q.scales) != shape[q.dimension] {
		malformed("%d scales along dimension %d of shape %v", len(q.scales), q.dimension, shape)
	}
	nonzero := func(z int64) bool { return z != 0 }
	if types.perChannel == 0 || slices.ContainsFunc(q.zeroPoints, nonzero) {
		unsupported("channelwise zero points, or channelwise %v", t)
	}
	return types.perChannel, xnnpack.Quantization{Scales: q.scales, ChannelDim: q.dimension}
}

// quantizedTypes are how XNNPACK names the types of values with a scale, or with one for each channel, and which zero
// points they have.
var quantizedTypes = map[elementType]struct {
	perTensor, perChannel xnnpack.Datatype
	low, high             int64
}{
	typeInt8:  {xnnpack.QInt8, xnnpack.ChannelQInt8, -128, 127},
	typeUint8: {xnnpack.QUint8, 0, 0, 255},
	typeInt32: {xnnpack.QInt32, xnnpack.ChannelQInt32, 0, 0},
}

// sameTypes checks that every output has the type of the input.
func (c *call) sameTypes(in *value) {
	for i, n := range c.op.outputs {
		if t := c.plan.graph.tensors[n].element(); t != in.dtype {
			unsupported("output %d of type %v for an input of type %v", i, t, in.dtype)
		}
	}
}

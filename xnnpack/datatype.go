package xnnpack

import (
	"fmt"
	"slices"

	"xpwc/xnnpack/packing"
)

// Datatype is the type of a tensor's elements (enum xnn_datatype).
type Datatype int

// The datatypes of xnnpack.h, each with the storage of an element and the fields of Quantization that it uses.
const (
	Float32       Datatype = 1  // IEEE 754 single precision
	Float16       Datatype = 2  // IEEE 754 half precision
	QInt8         Datatype = 3  // int8; Scale, ZeroPoint
	QUint8        Datatype = 4  // uint8; Scale, ZeroPoint
	QInt32        Datatype = 5  // int32; Scale
	ChannelQInt8  Datatype = 6  // int8; Scales, ChannelDim
	ChannelQInt32 Datatype = 7  // int32; Scales, ChannelDim
	ChannelQInt4  Datatype = 8  // 4 bits, two to a byte, low half first; Scales, ChannelDim, ZeroPoint
	DynamicQInt8  Datatype = 9  // int8, quantised at inference, only ever an internal value; NonBatchDims
	PackedQInt8   Datatype = 10 // as DynamicQInt8, packed for the kernel
	Int32         Datatype = 11 // int32
	BlockQInt4    Datatype = 12 // 4 bits, two to a byte, low half first; BlockSize, BlockScales, ChannelDim, ZeroPoint
	PackedFloat32 Datatype = 13 // packed for the kernel, only ever an internal value
	BFloat16      Datatype = 14 // the upper half of an IEEE 754 single
)

// String returns XNNPACK's own short name, e.g. "qcint8".
func (d Datatype) String() string {
	if d.Size() == 0 {
		return fmt.Sprintf("datatype %d", int(d))
	}
	return packing.Datatype(d).String()
}

// Size returns the size of one element in bits, 0 for a value that is none of the datatypes above.
func (d Datatype) Size() int {
	if d < Float32 || d > BFloat16 {
		return 0
	}
	return packing.Datatype(d).Size()
}

// dynamic reports whether elements are quantised at inference.
func (d Datatype) dynamic() bool { return d == DynamicQInt8 || d == PackedQInt8 }

// internalOnly reports whether only XNNPACK writes the bytes.
func (d Datatype) internalOnly() bool {
	return d.dynamic() || d == PackedFloat32
}

// ByteSize returns how many bytes a tensor of type d and of the given shape takes. Elements are packed without gaps,
// except that a row (the last dimension) of 4-bit elements is rounded up to a whole byte. No shape at all is one
// element. The error matches UnsupportedParameter if there are more than MaxTensorDims dimensions, and
// InvalidParameter if one is negative, the size does not fit an int, or d is no datatype.
func (d Datatype) ByteSize(shape []int) (int, error) {
	bits := d.Size()
	if bits == 0 {
		return 0, fmt.Errorf("%v is not a datatype: %w", d, InvalidParameter)
	}
	if len(shape) > MaxTensorDims {
		return 0, fmt.Errorf("shape %v has %d dimensions, at most %d are supported: %w", shape, len(shape),
			MaxTensorDims, UnsupportedParameter)
	}
	for _, dim := range shape {
		if dim < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension: %w", shape, InvalidParameter)
		}
	}
	if slices.Contains(shape, 0) {
		return 0, nil
	}
	n := max(bits/8, 1)
	if bits < 8 && len(shape) == 0 {
		return n, nil
	}
	for i, dim := range shape {
		if bits < 8 && i == len(shape)-1 {
			dim = dim/2 + dim%2
		}
		var ok bool
		if n, ok = multiply(n, dim); !ok {
			return 0, fmt.Errorf("shape %v is too large: %w", shape, InvalidParameter)
		}
	}
	return n, nil
}

// multiply multiplies two numbers that are not negative; false if the product does not fit.
func multiply(a, b int) (int, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	p := a * b
	return p, p/b == a && p >= 0
}

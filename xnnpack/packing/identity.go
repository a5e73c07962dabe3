// Package packing describes how XNNPACK packs a kernel.
//
// XNNPACK's own key for packed weights is an address of the kernel, one of the bias, and a seed that is an exclusive or
// of small numbers: [32, 512] has the seed of [512, 32], 2 groups that of 6, and scales, zero points, block sizes and
// the bias of dynamically quantised operators are not in it. An [Identity] is all of that. It has a [Digest], which a
// cache keys packed weights by, a [Geometry], from which XNNPACK can be asked how many bytes it packs, and a [Family].
//
// Package xnnpack makes the identity of a node. The package needs neither cgo nor XNNPACK.
package packing

import "cmp"

// Quantization maps the stored integers of a quantised tensor to numbers: real = scale * (stored - ZeroPoint). Which
// fields count depends on the datatype; the others are ignored. Scales are positive normal numbers.
type Quantization struct {
	// Scale is the one scale of qint8, quint8 and qint32.
	Scale float32
	// ZeroPoint is the stored value of real zero: of qint8 and quint8 any; of qcint4 and qbint4 8 if the stored values
	// are unsigned, 0 if they are signed; of all others 0.
	ZeroPoint int32
	// Scales holds one scale for each index of dimension ChannelDim: qcint8, qcint32, qcint4. The factor B of a batch
	// matrix multiplication has as many again for each matrix of its batch.
	Scales []float32
	// ChannelDim is the dimension that Scales and BlockScales run along: 0 for [output channels, ...].
	ChannelDim int
	// BlockSize is how many elements of a channel share a scale of BlockScales: qbint4.
	BlockSize int
	// BlockScales holds the scales of qbint4 as the bits of bfloat16 numbers, channel by channel. The tensor is
	// [channels, elements], or the reverse by ChannelDim, and has elements/BlockSize scales for each channel.
	BlockScales []uint16
	// NonBatchDims is how many trailing dimensions of qdint8 and qpint8 share one scale and zero point, which XNNPACK
	// computes at inference: 1 for each row its own.
	NonBatchDims int
}

// An Operand is a tensor of the node: its type and quantisation. The zero Operand means that there is none.
type Operand struct {
	Type Datatype
	Quantization
}

// Size is a height and a width. As a stride or a dilation, the zero Size stands for 1 by 1.
type Size struct{ Height, Width int }

var pixel = Size{1, 1}

// Flags are what else changes packing.
type Flags uint32

const (
	// Transposed: the kernel is transposed (XNN_FLAG_TRANSPOSE_WEIGHTS, XNN_FLAG_TRANSPOSE_B).
	Transposed Flags = 1 << iota
	// Padded: pixels are added around the images of a convolution, by numbers (not XNN_FLAG_TENSORFLOW_SAME_PADDING,
	// which adds none to the 1x1 kernels where XNNPACK's choice of a micro-kernel depends on it).
	Padded
	// HalfPrecision: the runtime is created with XNN_FLAG_HINT_FP16_INFERENCE or XNN_FLAG_FORCE_FP16_INFERENCE.
	HalfPrecision
	// SparseInference: the runtime is created with XNN_FLAG_HINT_SPARSE_INFERENCE.
	SparseInference
	// ConsistentArithmetic: the node or the runtime has XNN_FLAG_SLOW_CONSISTENT_ARITHMETIC.
	ConsistentArithmetic
)

// An Identity has all that decides the bytes that XNNPACK packs from a kernel, except the kernel's own content, the
// content of a bias that is in XNNPACK's key, and the layout. Its slices are not copied. The zero Identity describes
// no packing.
type Identity struct {
	Operator Operator
	Flags    Flags

	// Shape is the kernel's, as XNNPACK is given it, outermost dimension first: [output channels, input channels], or
	// the reverse with Transposed, of FullyConnected; [output channels, height, width, input channels of a group] of
	// Convolution2D and Deconvolution2D; [1, height, width, input channels * multiplier] of DepthwiseConvolution2D;
	// [batch..., k, n], or [batch..., n, k] with Transposed, of BatchMatrixMultiply. At most MaxDims.
	Shape []int
	// Groups is the number of groups of Convolution2D and Deconvolution2D, and the depth multiplier of
	// DepthwiseConvolution2D; 0 stands for 1.
	Groups int
	// Stride and Dilation belong to the operators on images: XNNPACK cuts the kernel of a deconvolution by its stride.
	Stride, Dilation Size

	Input, Kernel, Bias, Output Operand

	// HiddenBias is the content of a bias that is packed in, but that XNNPACK leaves out of its key: where Input is
	// dynamically quantised. nil if there is none.
	HiddenBias []byte

	opaque []byte // of an identity that nothing is known of but these bytes; nil otherwise
}

// MaxDims is how many dimensions a kernel has at most: XNN_MAX_TENSOR_DIMS of xnnpack.h.
const MaxDims = 6

// Opaque returns an identity that has a digest, of the bytes given, and neither family nor geometry: for a host that
// has a way of its own to distinguish packings. A kernel with it is compared at each start, unless the host vouches for
// it (xpwc.Believe). No bytes are an identity too. The bytes are not copied.
func Opaque(b []byte) Identity {
	if b == nil {
		b = []byte{}
	}
	return Identity{opaque: b}
}

// Zero reports whether the identity is the zero Identity.
func (id *Identity) Zero() bool { return id.opaque == nil && id.Operator == 0 }

// A Family is what packings of one kind have in common: the operator and the datatypes. The zero Family is an unknown
// one.
type Family struct {
	Operator                    Operator
	Input, Kernel, Bias, Output Datatype
}

// Family returns the identity's family, zero if it is opaque or zero.
func (id *Identity) Family() Family {
	if id.opaque != nil || id.Operator == 0 {
		return Family{}
	}
	return Family{id.Operator, id.Input.Type, id.Kernel.Type, id.Bias.Type, id.Output.Type}
}

// FamilySize is the size of an encoded Family.
const FamilySize = 5

// Encode returns the family as the cache file has it: operator, input, kernel, bias, output.
func (f Family) Encode() [FamilySize]byte {
	return [FamilySize]byte{byte(f.Operator), byte(f.Input), byte(f.Kernel), byte(f.Bias), byte(f.Output)}
}

// DecodeFamily is the reverse of Encode. Any bytes are some family.
func DecodeFamily(b [FamilySize]byte) Family {
	return Family{Operator(b[0]), Datatype(b[1]), Datatype(b[2]), Datatype(b[3]), Datatype(b[4])}
}

// String returns for instance "fully-connected qdint8 qcint8 fp32 fp32": the operator, and the datatypes of input,
// kernel, bias ("none" if there is none) and output; "" for the zero Family.
func (f Family) String() string {
	if f == (Family{}) {
		return ""
	}
	return f.Operator.String() + " " + f.Input.String() + " " + f.Kernel.String() + " " + f.Bias.String() + " " +
		f.Output.String()
}

// A Geometry is the part of an identity that decides how many bytes XNNPACK packs. It is comparable. The zero Geometry
// is an unknown one.
type Geometry struct {
	Family           Family
	Flags            Flags
	Dims             int // of Shape that count
	Shape            [MaxDims]int
	Groups           int
	Stride, Dilation Size
	ChannelDim       int // of a channelwise or blockwise quantised kernel
	BlockSize        int // of a blockwise quantised one
}

// Geometry returns the identity's geometry, zero if it is opaque or zero, or its kernel has more than MaxDims
// dimensions.
func (id *Identity) Geometry() Geometry {
	family := id.Family()
	if family == (Family{}) || len(id.Shape) > MaxDims {
		return Geometry{}
	}
	g := Geometry{
		Family: family, Flags: id.Flags, Dims: len(id.Shape), Groups: cmp.Or(id.Groups, 1),
		Stride: cmp.Or(id.Stride, pixel), Dilation: cmp.Or(id.Dilation, pixel),
	}
	copy(g.Shape[:], id.Shape)
	switch id.Kernel.Type.quantization() {
	case channelwise:
		g.ChannelDim = id.Kernel.ChannelDim
	case blockwise, unknown:
		g.ChannelDim, g.BlockSize = id.Kernel.ChannelDim, id.Kernel.BlockSize
	}
	return g
}

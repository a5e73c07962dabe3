package xnnpack

import (
	"fmt"
	"math"
	"slices"

	"xpwc/xnnpack/packing"
)

// ValueID names a value (a tensor) of a subgraph.
type ValueID uint32

// InvalidValue is the ID that no value has (XNN_INVALID_VALUE_ID); as a bias it means that there is none.
const InvalidValue ValueID = math.MaxUint32

const (
	// MaxTensorDims is the largest number of dimensions of a tensor (XNN_MAX_TENSOR_DIMS).
	MaxTensorDims = 6
	// MinBlockSize is the smallest block of a BlockQInt4 tensor, in elements; larger ones are multiples of it
	// (XNN_MIN_BLOCKSIZE).
	MinBlockSize = 32
)

// Quantization maps the stored integers of a quantised tensor to numbers. BlockSize must be a multiple of MinBlockSize.
type Quantization = packing.Quantization

// Tensor describes a value.
type Tensor struct {
	// Name is for error messages only.
	Name string
	Type Datatype
	// Shape gives the dimensions, outermost first. Nodes are checked against it when they are defined; Runtime.Reshape
	// recomputes the shapes of internal values and outputs.
	Shape []int
	// Data is the content of a static tensor, little-endian, dense, row by row; nil makes the tensor dynamic (computed,
	// or given to Runtime.Setup). The memory belongs to the caller and is not copied: the package documentation defines
	// where it must lie and how long it must stay readable.
	Data []byte
	// Quantization is ignored for the types that are not quantised. Its slices are not copied: they must not be
	// changed until the subgraph and all runtimes made of it are deleted. But the Scales of a filter of
	// FullyConnected may be set, from other valid ones, when its content is computed (xpwc.Tensor.Fill).
	Quantization Quantization
}

// validate checks what XNNPACK does not check itself.
func (t *Tensor) validate(external bool) error {
	n, err := t.Type.ByteSize(t.Shape)
	if err != nil {
		return err
	}
	if t.Data != nil && len(t.Data) < n {
		return fmt.Errorf("data has %d bytes, %v %v takes %d", len(t.Data), t.Type, t.Shape, n)
	}
	if t.Data != nil && n == 0 {
		return fmt.Errorf("static tensor of shape %v is empty", t.Shape)
	}
	if t.Data != nil && external {
		return fmt.Errorf("an external value has no static data")
	}
	if bits := t.Type.Size(); t.Data != nil && bits < 8 && Elements(t.Shape) == 1 {
		return fmt.Errorf("XNNPACK of 2026 crashes on a static tensor of one element of %d bits: %w",
			bits, UnsupportedParameter)
	}
	if t.Type.internalOnly() && (external || t.Data != nil) {
		return fmt.Errorf("%v can only be an internal value: %w", t.Type, UnsupportedParameter)
	}
	return t.validateQuantization()
}

func (t *Tensor) validateQuantization() error {
	q := &t.Quantization
	switch t.Type {
	case QInt8, QUint8, QInt32:
		if !validScale(q.Scale) {
			return fmt.Errorf("scale %g is not a positive normal number", q.Scale)
		}
	case ChannelQInt8, ChannelQInt32, ChannelQInt4:
		if err := t.validateChannelDim(); err != nil {
			return err
		}
		switch channels := t.Shape[q.ChannelDim]; len(q.Scales) {
		case channels: // XNNPACK checks them itself
		case channels * matrices(t.Shape):
			return t.validateScales()
		default:
			return fmt.Errorf("%d scales for %d channels", len(q.Scales), channels)
		}
	case BlockQInt4:
		return t.validateBlocks()
	case DynamicQInt8, PackedQInt8:
		if q.NonBatchDims < 0 || q.NonBatchDims > len(t.Shape) {
			return fmt.Errorf("%d non-batch dimensions of %d", q.NonBatchDims, len(t.Shape))
		}
		if len(t.Shape) == 0 {
			return fmt.Errorf("%v needs a dimension", t.Type)
		}
	}
	return nil
}

func (t *Tensor) validateScales() error {
	for i, s := range t.Quantization.Scales {
		if !validScale(s) {
			return fmt.Errorf("scale %g of channel %d is not a positive normal number", s, i)
		}
	}
	return nil
}

// matrices is how many matrices a tensor of the shape is a batch of.
func matrices(shape []int) int { return Elements(shape[:max(len(shape)-2, 0)]) }

// Elements returns how many elements a shape has, which an int must hold. A scalar's shape is empty.
func Elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func (t *Tensor) validateChannelDim() error {
	if d := t.Quantization.ChannelDim; d < 0 || d >= len(t.Shape) {
		return fmt.Errorf("channel dimension %d of a tensor of %d dimensions", d, len(t.Shape))
	}
	return nil
}

func (t *Tensor) validateBlocks() error {
	q := &t.Quantization
	if len(t.Shape) != 2 {
		return fmt.Errorf("%v needs 2 dimensions, not %v", t.Type, t.Shape)
	}
	if err := t.validateChannelDim(); err != nil {
		return err
	}
	along := t.Shape[1-q.ChannelDim]
	if q.BlockSize < MinBlockSize || q.BlockSize%MinBlockSize != 0 || along%q.BlockSize != 0 {
		return fmt.Errorf("block size %d must be a multiple of %d and divide %d", q.BlockSize, MinBlockSize, along)
	}
	if blocks := t.Shape[q.ChannelDim] * (along / q.BlockSize); len(q.BlockScales) != blocks {
		return fmt.Errorf("%d block scales for %d blocks", len(q.BlockScales), blocks)
	}
	for i, s := range q.BlockScales {
		if !validBlockScale(s) {
			return fmt.Errorf("scale of block %d is not a positive normal number", i)
		}
	}
	return nil
}

// validScale is XNNPACK's own condition: positive and normal.
func validScale(s float32) bool {
	const smallestNormal = 0x1p-126
	return s >= smallestNormal && s <= math.MaxFloat32
}

// validBlockScale is validScale of a number in bfloat16, whose bits have the order of the positive numbers. A language
// model has millions.
func validBlockScale(bits uint16) bool {
	const smallestNormal, largest = 0x0080, 0x7f7f
	return bits-smallestNormal <= largest-smallestNormal
}

// pinScales keeps the scales where they are, for XNNPACK to keep a pointer to them.
func (t *Tensor) pinScales(p pinned) {
	if q := &t.Quantization; len(q.Scales) > 0 {
		p.pinner.Pin(&q.Scales[0])
	}
	if q := &t.Quantization; len(q.BlockScales) > 0 {
		p.pinner.Pin(&q.BlockScales[0])
	}
}

// value is what the binding remembers of a defined tensor, to check nodes and buffers against.
type value struct {
	Tensor
	external bool
	row      int // how many elementwise nodes compute it, one after the other, from an 8-bit quantised value
}

func (t *Tensor) remember(external bool) *value {
	v := &value{Tensor: *t, external: external}
	v.Shape, v.Data = slices.Clone(t.Shape), nil
	return v
}

package models

import "xpwc/xnnpack"

// A Value is an input or an output of a model.
type Value struct {
	// ID is the value's external ID in every subgraph made of the model: the key of its memory in
	// [xnnpack.Runtime.Setup].
	ID xnnpack.ValueID
	// Name is unique among the model's inputs, and among its outputs unless one of them is given twice.
	Name string
	Type xnnpack.Datatype
	// Shape gives the dimensions, outermost first; images are [batch, height, width, channels]. Elements lie row by
	// row.
	Shape []int
	// Dynamic reports that Shape is the largest one, of a [Resizable] model: [Resizable.DynamicDims] are the dimensions
	// of an input that may be smaller.
	Dynamic bool
	// Quantization has the meaning of integers. It is zero for floats.
	Quantization xnnpack.Quantization
	// Declared is the type that programs give an input in, where the model only converts it to Float32, which is then
	// Type, and XNNPACK has no such conversion: whoever gives the input converts each number, and booleans to 0 and 1.
	// It is also that of an input or output that XNNPACK does not see, of a [Staged] model: Type is 0 then. Otherwise
	// it is 0.
	Declared Element
}

// Widened reports whether who gives an input converts its numbers to Float32.
func (v Value) Widened() bool { return v.Declared != 0 && v.Type != 0 }

// Element returns the type of the numbers that programs give of an input, or take of an output: Declared, or else that
// of Type. Quantized values are the integers themselves. It is 0 if there is none, see [CheckElements].
func (v Value) Element() Element {
	if v.Declared != 0 {
		return v.Declared
	}
	return stored[v.Type]
}

// ByteSize returns the size of the value's content.
func (v Value) ByteSize() (int, error) { return v.SizeAs(v.Shape) }

// SizeAs returns the size of the value's content in another shape.
func (v Value) SizeAs(shape []int) (int, error) {
	if v.Type != 0 || v.Declared == 0 {
		return v.Type.ByteSize(shape)
	}
	n, err := xnnpack.QInt8.ByteSize(shape)
	return n * v.Declared.Size(), err
}

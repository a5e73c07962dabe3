package xnnpack

import (
	"fmt"
	"slices"
)

// UnaryOperator is an elementwise operator of one operand (enum xnn_unary_operator). The numbers are this package's
// own.
type UnaryOperator int

// The unary operators that models use. XNNPACK calls Cosine, Sine and Sign experimental.
const (
	Abs             UnaryOperator = iota
	ApproximateGELU               // x/2 * (1 + tanh(√(2/π) * (x + 0.044715*x³))), see HasApproximateGELU
	BankersRounding               // to the nearest integer, halves to the even one
	Ceiling
	Clamp // to Unary.Limits
	// ConvertElements changes the type of the elements: between float types, to and from quantised ones, and from a
	// float type to DynamicQInt8, which is how the input of a node with dynamically quantised weights is made.
	ConvertElements
	ELU // x, and Alpha*(exp(x)-1) where x is negative
	Exp
	Floor
	GELU      // x/2 * (1+erf(x/√2))
	HardSwish // x/6 * min(max(x+3, 0), 6)
	LeakyReLU // x, and NegativeSlope*x where x is negative
	Log
	Negate
	Sigmoid
	Square
	SquareRoot
	ReciprocalSquareRoot
	Tanh
	Cosine
	Sine
	Sign
)

// HasApproximateGELU reports whether this XNNPACK computes ApproximateGELU. That of 2024 does not.
func HasApproximateGELU() bool { return cHasApproximateGELU() }

// Unary is xnn_define_unary: Output = Op(Input), element by element.
type Unary struct {
	Op     UnaryOperator
	Input  ValueID // of any shape
	Output ValueID // of the same shape

	Limits        Range   // for Clamp
	Alpha         float32 // for ELU
	NegativeSlope float32 // for LeakyReLU
}

func (n Unary) node() node {
	return node{self: n, op: "unary", operands: inOut(n.Input, n.Output), check: operator(n.Op, Sign),
		elementwise: true}
}

// BinaryOperator is an elementwise operator of two operands (enum xnn_binary_operator). The numbers are this
// package's own.
type BinaryOperator int

// The binary operators that models use. XNNPACK calls Pow experimental.
const (
	Add BinaryOperator = iota
	Subtract
	Multiply
	Divide
	Maximum
	Minimum
	SquaredDifference // (A-B)²
	PReLUOperator     // A, and A*B where A is negative
	Pow
)

// Binary is xnn_define_binary: Output = Op(A, B), element by element, limited to Activation. Shapes are aligned at
// their last dimensions; a dimension that is missing or 1 is repeated. The types are the same. A static operand is
// read at inference.
type Binary struct {
	Op         BinaryOperator
	A, B       ValueID
	Output     ValueID
	Activation Range
}

func (n Binary) node() node {
	return node{self: n, op: "binary", operands: factors(n.A, n.B, n.Output), check: operator(n.Op, Pow),
		elementwise: true}
}

// MaxPooling2D is xnn_define_max_pooling_2d: each pixel of Output is the maximum of those under a window, channel by
// channel. Padded pixels do not count.
type MaxPooling2D struct {
	Input, Output ValueID // [batch, height, width, channels]
	Padding       Padding // zero with SamePadding
	SamePadding   bool    // TensorFlow's SAME padding (XNN_FLAG_TENSORFLOW_SAME_PADDING)
	Pooling       Size    // of the window, more than one pixel
	Stride        Size    // not larger than Pooling
	Dilation      Size
	Activation    Range
}

func (n MaxPooling2D) node() node {
	orOne(&n.Stride, &n.Dilation)
	return node{self: n, op: "max pooling 2d", operands: inOut(n.Input, n.Output),
		check: pooling(n.Padding, n.SamePadding, n.Pooling, n.Stride, n.Dilation)}
}

// AveragePooling2D is xnn_define_average_pooling_2d: each pixel of Output is the mean of those under a window,
// channel by channel. Padded pixels do not count.
type AveragePooling2D struct {
	Input, Output ValueID // [batch, height, width, channels], Float32 or Float16
	Padding       Padding // zero with SamePadding
	SamePadding   bool    // TensorFlow's SAME padding (XNN_FLAG_TENSORFLOW_SAME_PADDING)
	Pooling       Size    // of the window
	Stride        Size
	Activation    Range
}

func (n AveragePooling2D) node() node {
	orOne(&n.Stride)
	return node{self: n, op: "average pooling 2d", operands: inOut(n.Input, n.Output),
		check: pooling(n.Padding, n.SamePadding, n.Pooling, n.Stride, Size{1, 1})}
}

// ReduceOperator is what StaticReduce does with the elements of an axis.
type ReduceOperator int

// The reduce operators that every supported version of XNNPACK has.
const (
	ReduceSum ReduceOperator = iota
	ReduceMean
)

// StaticReduce is xnn_define_static_reduce: the sum or mean over some dimensions. Output has the other ones, in
// Input's order.
type StaticReduce struct {
	Op            ReduceOperator
	Axes          []int // at least one, all different; a negative one counts from the last
	KeepDims      bool  // Output has the dimensions of Axes too, with length 1 (XNN_FLAG_KEEP_DIMS)
	Input, Output ValueID
}

func (n StaticReduce) node() node {
	return node{self: n, op: "static reduce", operands: inOut(n.Input, n.Output), check: func(v []*value) error {
		if err := operator(n.Op, ReduceMean)(v); err != nil {
			return err
		}
		seen := map[int]bool{}
		for _, axis := range n.Axes {
			dim, err := resolveAxis(axis, v[0].Shape)
			if err != nil {
				return err
			}
			if seen[dim] {
				return fmt.Errorf("axes %v are not distinct", n.Axes)
			}
			seen[dim] = true
		}
		return nil
	}}
}

// StaticConstantPad is xnn_define_static_constant_pad: Input with more elements around it.
type StaticConstantPad struct {
	Pre, Post     []int   // elements added on both sides of each dimension of Input
	Value         float32 // of the new elements
	Input, Output ValueID
}

func (n StaticConstantPad) node() node {
	return node{self: n, op: "static constant pad", operands: inOut(n.Input, n.Output), check: paired(n.Pre, n.Post)}
}

// StaticReshape is xnn_define_static_reshape: the same elements in another shape.
type StaticReshape struct {
	Shape         []int // of Output; one dimension may be 0: it takes what is left
	Input, Output ValueID
}

func (n StaticReshape) node() node {
	return node{self: n, op: "static reshape", operands: inOut(n.Input, n.Output), check: listed(n.Shape)}
}

// StaticTranspose is xnn_define_static_transpose: Input with its dimensions in another order.
type StaticTranspose struct {
	Permutation   []int // dimension i of Output is dimension Permutation[i] of Input
	Input, Output ValueID
}

func (n StaticTranspose) node() node {
	return node{self: n, op: "static transpose", operands: inOut(n.Input, n.Output), check: func(v []*value) error {
		if rank := len(v[0].Shape); len(n.Permutation) != rank {
			return fmt.Errorf("%v is no permutation of %d dimensions", n.Permutation, rank)
		}
		return checkNumbers(n.Permutation...)
	}}
}

// StaticSlice is xnn_define_static_slice: a part of Input.
type StaticSlice struct {
	Offsets       []int // where it begins, for each dimension
	Sizes         []int // how many elements it has, for each dimension; none is 0
	Input, Output ValueID
}

func (n StaticSlice) node() node {
	return node{self: n, op: "static slice", operands: inOut(n.Input, n.Output), check: func(v []*value) error {
		// XNNPACK would take 0 for Input's whole length, whatever the offset is.
		if slices.Contains(n.Sizes, 0) {
			return fmt.Errorf("sizes %v, none can be 0", n.Sizes)
		}
		return paired(n.Offsets, n.Sizes)(v)
	}}
}

// Concatenate joins 2 to 5 values (xnn_define_concatenate2 to 5). The caller joins more of them step by step, by
// several nodes.
type Concatenate struct {
	Axis   int       // the dimension along which they are joined; a negative one counts from the last
	Inputs []ValueID // their other dimensions and their types are the same
	Output ValueID
}

func (n Concatenate) node() node {
	operands := append(numbered("input", n.Inputs), operand{role: "output", id: n.Output})
	return node{self: n, op: "concatenate", operands: operands, check: func(v []*value) error {
		if len(n.Inputs) < 2 || len(n.Inputs) > 5 {
			return fmt.Errorf("%d inputs, 2 to 5 are possible", len(n.Inputs))
		}
		first := v[0].Shape
		axis, err := resolveAxis(n.Axis, first)
		if err != nil {
			return err
		}
		for _, in := range v[1 : len(v)-1] {
			for i := range max(len(in.Shape), len(first)) {
				if len(in.Shape) != len(first) || i != axis && in.Shape[i] != first[i] {
					return fmt.Errorf("shapes %v and %v cannot be joined along dimension %d", first, in.Shape, axis)
				}
			}
		}
		return nil
	}}
}

// EvenSplit cuts a value into 2 to 4 of equal size (xnn_define_even_split2 to 4).
type EvenSplit struct {
	Axis    int // the dimension that is cut, a multiple of the number of outputs; a negative one counts from the last
	Input   ValueID
	Outputs []ValueID
}

func (n EvenSplit) node() node {
	operands := append([]operand{{role: "input", id: n.Input}}, numbered("output", n.Outputs)...)
	return node{self: n, op: "even split", operands: operands, check: func(v []*value) error {
		if len(n.Outputs) < 2 || len(n.Outputs) > 4 {
			return fmt.Errorf("%d outputs, 2 to 4 are possible", len(n.Outputs))
		}
		axis, err := resolveAxis(n.Axis, v[0].Shape)
		if err != nil {
			return err
		}
		if length := v[0].Shape[axis]; length%len(n.Outputs) != 0 {
			return fmt.Errorf("%d elements cannot be cut into %d equal parts", length, len(n.Outputs))
		}
		return nil
	}}
}

// StaticResizeBilinear2D is xnn_define_static_resize_bilinear_2d: an image in another size, interpolated. Without
// AlignCorners and LegacyMode a pixel's centre is at half its width and height.
type StaticResizeBilinear2D struct {
	NewSize Size // of Output, in pixels
	// AlignCorners: the centres of the corner pixels stay where they are (XNN_FLAG_ALIGN_CORNERS).
	AlignCorners bool
	// LegacyMode: a pixel's centre is its top left corner, as in TensorFlow 1.x (XNN_FLAG_TENSORFLOW_LEGACY_MODE).
	LegacyMode    bool
	Input, Output ValueID // [batch, height, width, channels]
}

func (n StaticResizeBilinear2D) node() node {
	return node{self: n, op: "static resize bilinear 2d", operands: inOut(n.Input, n.Output),
		check: resized(func(*value) error { return checkNumbers(n.NewSize.Height, n.NewSize.Width) })}
}

// Softmax is xnn_define_softmax: exp(x) divided by the sum of all exp(x) along the last dimension. The shapes are the
// same.
type Softmax struct{ Input, Output ValueID }

func (n Softmax) node() node {
	return node{self: n, op: "softmax", operands: inOut(n.Input, n.Output), check: func(v []*value) error {
		if len(v[0].Shape) == 0 {
			return fmt.Errorf("the input needs a dimension")
		}
		return nil
	}}
}

// Copy is xnn_define_copy: Output has the type, shape and elements of Input.
type Copy struct{ Input, Output ValueID }

func (n Copy) node() node {
	return node{self: n, op: "copy", operands: inOut(n.Input, n.Output), elementwise: true}
}

// DepthToSpace2D is xnn_define_depth_to_space_2d: the channels of a pixel become a block of pixels, row by row.
type DepthToSpace2D struct {
	BlockSize int     // height and width of a block in pixels, at least 2
	Input     ValueID // [batch, height, width, BlockSize * BlockSize * channels]
	Output    ValueID // [batch, height * BlockSize, width * BlockSize, channels]
}

func (n DepthToSpace2D) node() node {
	return node{self: n, op: "depth to space 2d", operands: inOut(n.Input, n.Output), check: listed([]int{n.BlockSize})}
}

// SpaceToDepth2D is xnn_define_space_to_depth_2d, the inverse of DepthToSpace2D.
type SpaceToDepth2D struct {
	BlockSize int     // height and width of a block in pixels, at least 2
	Input     ValueID // [batch, height * BlockSize, width * BlockSize, channels]
	Output    ValueID // [batch, height, width, BlockSize * BlockSize * channels]
}

func (n SpaceToDepth2D) node() node {
	return node{self: n, op: "space to depth 2d", operands: inOut(n.Input, n.Output), check: listed([]int{n.BlockSize})}
}

func inOut(in, out ValueID) []operand {
	return []operand{{role: "input", id: in}, {role: "output", id: out}}
}

func factors(a, b, output ValueID) []operand {
	return []operand{{role: "a", id: a}, {role: "b", id: b}, {role: "output", id: output}}
}

func numbered(role string, ids []ValueID) (operands []operand) {
	for i, id := range ids {
		operands = append(operands, operand{role: fmt.Sprint(role, " ", i), id: id})
	}
	return operands
}

// operator checks the number of an operator, of which there are those up to last.
func operator[T ~int](op, last T) func([]*value) error {
	return func([]*value) error {
		if op < 0 || op > last {
			return fmt.Errorf("operator %d: no such operator", op)
		}
		return nil
	}
}

// listed checks a list of at most MaxTensorDims numbers.
func listed(list []int) func([]*value) error {
	return func([]*value) error {
		if len(list) > MaxTensorDims {
			return fmt.Errorf("%v has more than %d dimensions: %w", list, MaxTensorDims, UnsupportedParameter)
		}
		return checkNumbers(list...)
	}
}

// paired checks two numbers for each dimension of the input.
func paired(a, b []int) func([]*value) error {
	return func(v []*value) error {
		if rank := len(v[0].Shape); len(a) != rank || len(b) != rank {
			return fmt.Errorf("%v and %v do not have a number for each of %d dimensions", a, b, rank)
		}
		return checkNumbers(slices.Concat(a, b)...)
	}
}

// resized checks a node that makes images of another height and width. settings is given the input.
func resized(settings func(in *value) error) func([]*value) error {
	return func(v []*value) error {
		x, y := v[0].Shape, v[1].Shape
		if len(x) != 4 || len(y) != 4 || x[3] != y[3] {
			return fmt.Errorf("input and output must have the shape [batch, height, width, channels]")
		}
		return settings(v[0])
	}
}

func pooling(p Padding, samePadding bool, window, stride, dilation Size) func([]*value) error {
	return resized(func(in *value) error {
		if err := checkSettings(p, window, stride, dilation); err != nil {
			return err
		}
		return checkWindow(in, p, samePadding, window, dilation)
	})
}

// resolveAxis returns which dimension of the shape an axis is that may be negative to count from the last.
func resolveAxis(axis int, shape []int) (int, error) {
	dim := axis
	if dim < 0 {
		dim += len(shape)
	}
	if dim < 0 || dim >= len(shape) {
		return 0, fmt.Errorf("%d is no axis of shape %v", axis, shape)
	}
	return dim, nil
}

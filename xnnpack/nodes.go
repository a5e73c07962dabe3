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
	BankersRounding               // to the nearest integer, halves to the even one
	Ceiling
	Clamp           // to Unary.Limits
	ConvertElements // see Convert
	ELU             // x, and Alpha*(exp(x)-1) where x is negative
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

// Unary is xnn_define_unary: Output = Op(Input), element by element.
type Unary struct {
	Op     UnaryOperator
	Input  ValueID // of any shape
	Output ValueID // of the same shape

	Limits        Range   // for Clamp
	Alpha         float32 // for ELU
	NegativeSlope float32 // for LeakyReLU
}

// Unary adds the node.
func (s *Subgraph) Unary(n Unary) error {
	const op = "define unary"
	if n.Op < 0 || n.Op > Sign {
		return noOperator(op, int(n.Op))
	}
	return s.oneToOne(op, &n, n.Input, n.Output)
}

// Convert changes the type of the elements: between float types, to and from quantised ones, and from a float type to
// DynamicQInt8, which is how the input of a node with dynamically quantised weights is made. The shapes are the same.
type Convert struct{ Input, Output ValueID }

// Convert adds the node.
func (s *Subgraph) Convert(n Convert) error {
	unary := Unary{Op: ConvertElements, Input: n.Input, Output: n.Output}
	return s.oneToOne("define convert", &unary, n.Input, n.Output)
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

// Binary adds the node.
func (s *Subgraph) Binary(n Binary) error {
	const op = "define binary"
	if n.Op < 0 || n.Op > Pow {
		return noOperator(op, int(n.Op))
	}
	operands := []operand{{role: "a", id: n.A}, {role: "b", id: n.B}, {role: "output", id: n.Output}}
	if err := s.node(op, &n, operands, nil); err != nil {
		return err
	}
	s.follows(n.A, n.Output)
	s.follows(n.B, n.Output)
	return nil
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

// MaxPooling2D adds the node.
func (s *Subgraph) MaxPooling2D(n MaxPooling2D) error {
	orOne(&n.Stride, &n.Dilation)
	return s.resized("define max pooling 2d", &n, n.Input, n.Output, func(in *value) error {
		if err := checkSettings(n.Padding, n.Pooling, n.Stride, n.Dilation); err != nil {
			return err
		}
		return checkWindow(in, n.Padding, n.SamePadding, n.Pooling, n.Dilation)
	})
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

// AveragePooling2D adds the node.
func (s *Subgraph) AveragePooling2D(n AveragePooling2D) error {
	orOne(&n.Stride)
	return s.resized("define average pooling 2d", &n, n.Input, n.Output, func(in *value) error {
		if err := checkSettings(n.Padding, n.Pooling, n.Stride); err != nil {
			return err
		}
		return checkWindow(in, n.Padding, n.SamePadding, n.Pooling, Size{1, 1})
	})
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

// StaticReduce adds the node.
func (s *Subgraph) StaticReduce(n StaticReduce) error {
	const op = "define static reduce"
	if n.Op < 0 || n.Op > ReduceMean {
		return noOperator(op, int(n.Op))
	}
	return s.node(op, &n, inOut(n.Input, n.Output), func(v []*value) error {
		seen := map[int]bool{}
		for _, axis := range n.Axes {
			at, err := resolveAxis(axis, v[0].Shape)
			if err != nil {
				return err
			}
			if seen[at] {
				return fmt.Errorf("axes %v are not distinct", n.Axes)
			}
			seen[at] = true
		}
		return nil
	})
}

// StaticConstantPad is xnn_define_static_constant_pad: Input with more elements around it.
type StaticConstantPad struct {
	Pre, Post     []int   // how many come before and after those of Input, for each dimension
	Value         float32 // of the new elements
	Input, Output ValueID
}

// StaticConstantPad adds the node.
func (s *Subgraph) StaticConstantPad(n StaticConstantPad) error {
	return s.paired("define static constant pad", &n, n.Pre, n.Post, n.Input, n.Output)
}

// StaticReshape is xnn_define_static_reshape: the same elements in another shape.
type StaticReshape struct {
	Shape         []int // of Output; one dimension may be 0: it takes what is left
	Input, Output ValueID
}

// StaticReshape adds the node.
func (s *Subgraph) StaticReshape(n StaticReshape) error {
	return s.listed("define static reshape", &n, n.Shape, n.Input, n.Output, nil)
}

// StaticTranspose is xnn_define_static_transpose: Input with its dimensions in another order.
type StaticTranspose struct {
	Permutation   []int // dimension i of Output is dimension Permutation[i] of Input
	Input, Output ValueID
}

// StaticTranspose adds the node.
func (s *Subgraph) StaticTranspose(n StaticTranspose) error {
	return s.listed("define static transpose", &n, n.Permutation, n.Input, n.Output, func(rank int) error {
		if len(n.Permutation) != rank {
			return fmt.Errorf("%v is no permutation of %d dimensions", n.Permutation, rank)
		}
		return nil
	})
}

// StaticSlice is xnn_define_static_slice: a part of Input.
type StaticSlice struct {
	Offsets       []int // where it begins, for each dimension
	Sizes         []int // how many elements it has, for each dimension; none is 0
	Input, Output ValueID
}

// StaticSlice adds the node.
func (s *Subgraph) StaticSlice(n StaticSlice) error {
	const op = "define static slice"
	// XNNPACK would take 0 for Input's whole length, whatever the offset is.
	if slices.Contains(n.Sizes, 0) {
		return reject(InvalidParameter, op, "", "sizes %v, none can be 0", n.Sizes)
	}
	return s.paired(op, &n, n.Offsets, n.Sizes, n.Input, n.Output)
}

// Concatenate joins 2 to 5 values (xnn_define_concatenate2 to 5). The caller joins more of them step by step, by
// several nodes.
type Concatenate struct {
	Axis   int       // the dimension along which they are joined; a negative one counts from the last
	Inputs []ValueID // their other dimensions and their types are the same
	Output ValueID
}

// Concatenate adds the node.
func (s *Subgraph) Concatenate(n Concatenate) error {
	const op = "define concatenate"
	if len(n.Inputs) < 2 || len(n.Inputs) > 5 {
		return reject(InvalidParameter, op, "", "%d inputs, 2 to 5 are possible", len(n.Inputs))
	}
	var operands []operand
	for i, id := range n.Inputs {
		operands = append(operands, operand{role: fmt.Sprint("input ", i), id: id})
	}
	operands = append(operands, operand{role: "output", id: n.Output})
	return s.node(op, &n, operands, func(v []*value) error {
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
	})
}

// EvenSplit cuts a value into 2 to 4 of equal size (xnn_define_even_split2 to 4).
type EvenSplit struct {
	Axis    int // the dimension that is cut, a multiple of the number of outputs; a negative one counts from the last
	Input   ValueID
	Outputs []ValueID
}

// EvenSplit adds the node.
func (s *Subgraph) EvenSplit(n EvenSplit) error {
	const op = "define even split"
	if len(n.Outputs) < 2 || len(n.Outputs) > 4 {
		return reject(InvalidParameter, op, "", "%d outputs, 2 to 4 are possible", len(n.Outputs))
	}
	operands := []operand{{role: "input", id: n.Input}}
	for i, id := range n.Outputs {
		operands = append(operands, operand{role: fmt.Sprint("output ", i), id: id})
	}
	return s.node(op, &n, operands, func(v []*value) error {
		axis, err := resolveAxis(n.Axis, v[0].Shape)
		if err != nil {
			return err
		}
		if length := v[0].Shape[axis]; length%len(n.Outputs) != 0 {
			return fmt.Errorf("%d elements cannot be cut into %d equal parts", length, len(n.Outputs))
		}
		return nil
	})
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

// StaticResizeBilinear2D adds the node.
func (s *Subgraph) StaticResizeBilinear2D(n StaticResizeBilinear2D) error {
	return s.resized("define static resize bilinear 2d", &n, n.Input, n.Output, func(*value) error {
		return checkNumbers(n.NewSize.Height, n.NewSize.Width)
	})
}

// Softmax is xnn_define_softmax: exp(x) divided by the sum of all exp(x) along the last dimension. The shapes are the
// same.
type Softmax struct{ Input, Output ValueID }

// Softmax adds the node.
func (s *Subgraph) Softmax(n Softmax) error {
	return s.node("define softmax", &n, inOut(n.Input, n.Output), func(v []*value) error {
		if len(v[0].Shape) == 0 {
			return fmt.Errorf("the input needs a dimension")
		}
		return nil
	})
}

// Copy is xnn_define_copy: Output has the type, shape and elements of Input.
type Copy struct{ Input, Output ValueID }

// Copy adds the node.
func (s *Subgraph) Copy(n Copy) error {
	return s.oneToOne("define copy", &n, n.Input, n.Output)
}

// DepthToSpace2D is xnn_define_depth_to_space_2d: the channels of a pixel become a block of pixels, row by row.
type DepthToSpace2D struct {
	BlockSize int     // height and width of a block in pixels, at least 2
	Input     ValueID // [batch, height, width, BlockSize * BlockSize * channels]
	Output    ValueID // [batch, height * BlockSize, width * BlockSize, channels]
}

// DepthToSpace2D adds the node.
func (s *Subgraph) DepthToSpace2D(n DepthToSpace2D) error {
	return s.node("define depth to space 2d", &n, inOut(n.Input, n.Output),
		func([]*value) error { return checkNumbers(n.BlockSize) })
}

// SpaceToDepth2D is xnn_define_space_to_depth_2d, the inverse of DepthToSpace2D.
type SpaceToDepth2D struct {
	BlockSize int     // height and width of a block in pixels, at least 2
	Input     ValueID // [batch, height * BlockSize, width * BlockSize, channels]
	Output    ValueID // [batch, height, width, BlockSize * BlockSize * channels]
}

// SpaceToDepth2D adds the node.
func (s *Subgraph) SpaceToDepth2D(n SpaceToDepth2D) error {
	return s.node("define space to depth 2d", &n, inOut(n.Input, n.Output),
		func([]*value) error { return checkNumbers(n.BlockSize) })
}

func inOut(in, out ValueID) []operand {
	return []operand{{role: "input", id: in}, {role: "output", id: out}}
}

func noOperator(op string, n int) error {
	return reject(InvalidParameter, op, fmt.Sprint("operator ", n), "no such operator")
}

func (s *Subgraph) oneToOne(op string, n any, in, out ValueID) error {
	if err := s.node(op, n, inOut(in, out), nil); err != nil {
		return err
	}
	s.follows(in, out)
	return nil
}

// listed adds a node with a list of at most MaxTensorDims numbers, which check (if not nil) compares with the rank of
// the input.
func (s *Subgraph) listed(op string, n any, list []int, in, out ValueID, check func(rank int) error) error {
	return s.node(op, n, inOut(in, out), func(v []*value) error {
		if len(list) > MaxTensorDims {
			return fmt.Errorf("%v has more than %d dimensions: %w", list, MaxTensorDims, UnsupportedParameter)
		}
		if err := checkNumbers(list...); err != nil || check == nil {
			return err
		}
		return check(len(v[0].Shape))
	})
}

// paired adds a node with two numbers for each dimension of its input.
func (s *Subgraph) paired(op string, n any, a, b []int, in, out ValueID) error {
	return s.node(op, n, inOut(in, out), func(v []*value) error {
		if rank := len(v[0].Shape); len(a) != rank || len(b) != rank {
			return fmt.Errorf("%v and %v do not have a number for each of %d dimensions", a, b, rank)
		}
		return checkNumbers(slices.Concat(a, b)...)
	})
}

// resized adds a node that makes images of another height and width. settings is given the input.
func (s *Subgraph) resized(op string, n any, in, out ValueID, settings func(in *value) error) error {
	return s.node(op, n, inOut(in, out), func(v []*value) error {
		x, y := v[0].Shape, v[1].Shape
		if len(x) != 4 || len(y) != 4 || x[3] != y[3] {
			return fmt.Errorf("input and output must have the shape [batch, height, width, channels]")
		}
		return settings(v[0])
	})
}

// resolveAxis returns which dimension of the shape an axis is that may be negative to count from the last.
func resolveAxis(axis int, shape []int) (int, error) {
	at := axis
	if at < 0 {
		at += len(shape)
	}
	if at < 0 || at >= len(shape) {
		return 0, fmt.Errorf("%d is no axis of shape %v", axis, shape)
	}
	return at, nil
}

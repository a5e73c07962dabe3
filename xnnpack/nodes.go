package xnnpack

import "fmt"

// UnaryOperator is an elementwise operator of one operand (enum xnn_unary_operator). The numbers are this package's own.
type UnaryOperator int

// The unary operators. XNNPACK calls those from CubeRoot on experimental.
const (
	Abs UnaryOperator = iota
	BankersRounding
	Ceiling
	Clamp           // to Unary.Limits
	ConvertElements // from the input's type to the output's
	ELU             // with Unary.Alpha
	Exp
	Floor
	GELU
	HardSwish
	LeakyReLU // with Unary.NegativeSlope
	Log
	Negate
	Sigmoid
	Square
	SquareRoot
	ReciprocalSquareRoot
	Tanh
	CubeRoot
	Cosine
	Sine
	CountLeadingZeros
	BitwiseNot
	PopulationCount
	Sign
)

// Unary is xnn_define_unary: Output = Op(Input), element by element.
type Unary struct {
	Op     UnaryOperator
	Input  ValueID
	Output ValueID

	Limits        Range   // of Clamp
	Alpha         float32 // of ELU: the factor of negative elements
	NegativeSlope float32 // of LeakyReLU: the factor of negative elements
}

// Unary adds the node.
func (s *Subgraph) Unary(n Unary) error {
	const op = "define unary"
	if n.Op < 0 || int(n.Op) >= len(unaryOperators) {
		return reject(InvalidParameter, op, fmt.Sprint("operator ", int(n.Op)), "no such operator")
	}
	var a, b float32
	switch n.Op {
	case Clamp:
		r := n.Limits.bounded()
		a, b = r.Min, r.Max
	case ELU:
		a = n.Alpha
	case LeakyReLU:
		a = n.NegativeSlope
	}
	return s.oneToOne(op, n.Input, n.Output, func() Status { return s.g.unary(n.Op, a, b, n.Input, n.Output) })
}

// Convert changes the type of the elements: between float types, to and from quantised ones, and to DynamicQInt8.
type Convert struct{ Input, Output ValueID }

// Convert adds the node.
func (s *Subgraph) Convert(n Convert) error {
	return s.oneToOne("define convert", n.Input, n.Output, func() Status {
		return s.g.unary(ConvertElements, 0, 0, n.Input, n.Output)
	})
}

// BinaryOperator is an elementwise operator of two operands (enum xnn_binary_operator). The numbers are this package's own.
type BinaryOperator int

// The binary operators. XNNPACK calls those from Modulus on experimental.
const (
	Add BinaryOperator = iota
	Subtract
	Multiply
	Divide
	Maximum
	Minimum
	CopySign
	SquaredDifference
	PReLUOperator // see PReLU
	Modulus
	Atan2
	Pow
	BitwiseAnd
	BitwiseOr
	BitwiseXor
	ShiftLeft
	ShiftRightLogical
	ShiftRightArithmetic
)

// Binary is xnn_define_binary: Output = Activation(Op(A, B)), element by element; shapes are broadcast. A static operand is read at
// inference.
type Binary struct {
	Op         BinaryOperator
	A, B       ValueID
	Output     ValueID
	Activation Range
}

// Binary adds the node.
func (s *Subgraph) Binary(n Binary) error {
	const op = "define binary"
	if n.Op < 0 || int(n.Op) >= len(binaryOperators) {
		return reject(InvalidParameter, op, fmt.Sprint("operator ", int(n.Op)), "no such operator")
	}
	operands := []operand{{role: "a", id: n.A}, {role: "b", id: n.B}, {role: "output", id: n.Output}}
	return s.node(op, operands, nil, func() Status { return s.g.binary(n.Op, n.Activation.bounded(), n.A, n.B, n.Output) })
}

// MaxPooling2D is xnn_define_max_pooling_2d.
type MaxPooling2D struct {
	Input, Output ValueID // [batch, height, width, channels]
	Padding       Padding // zero with SamePadding
	SamePadding   bool
	Pooling       Size
	Stride        Size
	Dilation      Size
	Activation    Range
}

// MaxPooling2D adds the node.
func (s *Subgraph) MaxPooling2D(n MaxPooling2D) error {
	n.Activation = n.Activation.bounded()
	n.Pooling.orOne()
	n.Stride.orOne()
	n.Dilation.orOne()
	return s.node("define max pooling 2d", inOut(n.Input, n.Output), func(v []*value) error {
		if err := checkPooled(v); err != nil {
			return err
		}
		return checkSettings(n.Padding, n.Pooling, n.Stride, n.Dilation)
	}, func() Status { return s.g.maxPooling(&n, samePadding(n.SamePadding)) })
}

// AveragePooling2D is xnn_define_average_pooling_2d; padded elements do not count.
type AveragePooling2D struct {
	Input, Output ValueID // [batch, height, width, channels]
	Padding       Padding // zero with SamePadding
	SamePadding   bool
	Pooling       Size
	Stride        Size
	Activation    Range
}

// AveragePooling2D adds the node.
func (s *Subgraph) AveragePooling2D(n AveragePooling2D) error {
	n.Activation = n.Activation.bounded()
	n.Pooling.orOne()
	n.Stride.orOne()
	return s.node("define average pooling 2d", inOut(n.Input, n.Output), func(v []*value) error {
		if err := checkPooled(v); err != nil {
			return err
		}
		return checkSettings(n.Padding, n.Pooling, n.Stride)
	}, func() Status { return s.g.averagePooling(&n, samePadding(n.SamePadding)) })
}

// ReduceOperator is what StaticReduce does with the elements of an axis.
type ReduceOperator int

// The reduce operators that every supported version of XNNPACK has.
const (
	ReduceSum ReduceOperator = iota
	ReduceMean
)

// StaticReduce is xnn_define_static_reduce: sum or mean over Axes, which may be negative to count from the last.
type StaticReduce struct {
	Op            ReduceOperator
	Axes          []int
	KeepDims      bool // leave reduced axes with length 1 (XNN_FLAG_KEEP_DIMS)
	Input, Output ValueID
}

// StaticReduce adds the node.
func (s *Subgraph) StaticReduce(n StaticReduce) error {
	const op = "define static reduce"
	if n.Op < 0 || int(n.Op) >= len(reduceOperators) {
		return reject(InvalidParameter, op, fmt.Sprint("operator ", int(n.Op)), "no such operator")
	}
	var flags uint32
	if n.KeepDims {
		flags |= flagKeepDims
	}
	return s.node(op, inOut(n.Input, n.Output), func(v []*value) error {
		rank := len(v[0].shape)
		seen := map[int]bool{}
		for _, axis := range n.Axes {
			at := axis
			if at < 0 {
				at += rank
			}
			if at < 0 || at >= rank || seen[at] {
				return fmt.Errorf("axes %v are not distinct axes of %d dimensions: %w", n.Axes, rank, InvalidParameter)
			}
			seen[at] = true
		}
		return nil
	}, func() Status { return s.g.reduce(n.Op, n.Axes, n.Input, n.Output, flags) })
}

// StaticConstantPad is xnn_define_static_constant_pad: Pre[i] and Post[i] elements of Value before and after dimension i.
type StaticConstantPad struct {
	Pre, Post     []int
	Value         float32
	Input, Output ValueID
}

// StaticConstantPad adds the node.
func (s *Subgraph) StaticConstantPad(n StaticConstantPad) error {
	return s.node("define static constant pad", inOut(n.Input, n.Output), func(v []*value) error {
		rank := len(v[0].shape)
		if len(n.Pre) != rank || len(n.Post) != rank {
			return fmt.Errorf("paddings %v and %v for %d dimensions: %w", n.Pre, n.Post, rank, InvalidParameter)
		}
		if err := checkNumbers(n.Pre...); err != nil {
			return err
		}
		return checkNumbers(n.Post...)
	}, func() Status { return s.g.constantPad(n.Pre, n.Post, n.Value, n.Input, n.Output) })
}

// StaticReshape is xnn_define_static_reshape: the same elements in another shape. One dimension may be 0: it takes what is left.
type StaticReshape struct {
	Shape         []int
	Input, Output ValueID
}

// StaticReshape adds the node.
func (s *Subgraph) StaticReshape(n StaticReshape) error {
	return s.listed("define static reshape", n.Shape, n.Input, n.Output, func() Status { return s.g.reshape(n.Shape, n.Input, n.Output) })
}

// StaticTranspose is xnn_define_static_transpose: dimension i of Output is dimension Permutation[i] of Input.
type StaticTranspose struct {
	Permutation   []int
	Input, Output ValueID
}

// StaticTranspose adds the node.
func (s *Subgraph) StaticTranspose(n StaticTranspose) error {
	return s.listed("define static transpose", n.Permutation, n.Input, n.Output, func() Status {
		return s.g.transpose(n.Permutation, n.Input, n.Output)
	})
}

// StaticExpandDims is xnn_define_static_expand_dims: new dimensions of length 1, at the given places of Output's shape.
type StaticExpandDims struct {
	Axes          []int
	Input, Output ValueID
}

// StaticExpandDims adds the node.
func (s *Subgraph) StaticExpandDims(n StaticExpandDims) error {
	return s.listed("define static expand dims", n.Axes, n.Input, n.Output, func() Status {
		return s.g.expandDims(n.Axes, n.Input, n.Output)
	})
}

// StaticSlice is xnn_define_static_slice: Sizes[i] elements from Offsets[i] on along dimension i.
type StaticSlice struct {
	Offsets, Sizes []int
	Input, Output  ValueID
}

// StaticSlice adds the node.
func (s *Subgraph) StaticSlice(n StaticSlice) error {
	return s.node("define static slice", inOut(n.Input, n.Output), func(v []*value) error {
		rank := len(v[0].shape)
		if len(n.Offsets) != rank || len(n.Sizes) != rank {
			return fmt.Errorf("offsets %v and sizes %v for %d dimensions: %w", n.Offsets, n.Sizes, rank, InvalidParameter)
		}
		if err := checkNumbers(n.Offsets...); err != nil {
			return err
		}
		return checkNumbers(n.Sizes...)
	}, func() Status { return s.g.slice(n.Offsets, n.Sizes, n.Input, n.Output) })
}

// Concatenate joins 2 to 5 values along Axis.
type Concatenate struct {
	Axis   int
	Inputs []ValueID
	Output ValueID
}

// Concatenate adds the node. More than 5 inputs are joined by several nodes, with internal values between them.
func (s *Subgraph) Concatenate(n Concatenate) error {
	const op = "define concatenate"
	if len(n.Inputs) < 2 || len(n.Inputs) > 5 {
		return reject(InvalidParameter, op, "", "%d inputs, 2 to 5 are possible", len(n.Inputs))
	}
	operands := make([]operand, 0, len(n.Inputs)+1)
	for i, id := range n.Inputs {
		operands = append(operands, operand{role: fmt.Sprint("input ", i), id: id})
	}
	operands = append(operands, operand{role: "output", id: n.Output})
	return s.node(op, operands, func([]*value) error { return checkAxis(n.Axis) }, func() Status {
		return s.g.concatenate(n.Axis, n.Inputs, n.Output)
	})
}

// EvenSplit cuts Input along Axis into 2 to 4 values of equal size.
type EvenSplit struct {
	Axis    int
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
	return s.node(op, operands, func([]*value) error { return checkAxis(n.Axis) }, func() Status {
		return s.g.evenSplit(n.Axis, n.Input, n.Outputs)
	})
}

// StaticResizeBilinear2D is xnn_define_static_resize_bilinear_2d. Pixel centres are at halves unless AlignCorners or LegacyMode is set.
type StaticResizeBilinear2D struct {
	NewSize       Size
	AlignCorners  bool    // XNN_FLAG_ALIGN_CORNERS
	LegacyMode    bool    // as TensorFlow 1.x (XNN_FLAG_TENSORFLOW_LEGACY_MODE)
	Input, Output ValueID // [batch, height, width, channels]
}

// StaticResizeBilinear2D adds the node.
func (s *Subgraph) StaticResizeBilinear2D(n StaticResizeBilinear2D) error {
	var flags uint32
	if n.AlignCorners {
		flags |= flagAlignCorners
	}
	if n.LegacyMode {
		flags |= flagLegacyMode
	}
	return s.node("define static resize bilinear 2d", inOut(n.Input, n.Output), func(v []*value) error {
		if err := checkPooled(v); err != nil {
			return err
		}
		return checkNumbers(n.NewSize.Height, n.NewSize.Width)
	}, func() Status { return s.g.resizeBilinear(n.NewSize, n.Input, n.Output, flags) })
}

// Softmax is xnn_define_softmax, over the last dimension.
type Softmax struct{ Input, Output ValueID }

// Softmax adds the node.
func (s *Subgraph) Softmax(n Softmax) error {
	return s.oneToOne("define softmax", n.Input, n.Output, func() Status { return s.g.softmax(n.Input, n.Output) })
}

// Copy is xnn_define_copy.
type Copy struct{ Input, Output ValueID }

// Copy adds the node.
func (s *Subgraph) Copy(n Copy) error {
	return s.oneToOne("define copy", n.Input, n.Output, func() Status { return s.g.copy(n.Input, n.Output) })
}

// DepthToSpace2D is xnn_define_depth_to_space_2d: channels become blocks of BlockSize by BlockSize pixels.
type DepthToSpace2D struct {
	BlockSize     int
	Input, Output ValueID // [batch, height, width, channels]
}

// DepthToSpace2D adds the node.
func (s *Subgraph) DepthToSpace2D(n DepthToSpace2D) error {
	return s.node("define depth to space 2d", inOut(n.Input, n.Output), func([]*value) error { return checkNumbers(n.BlockSize) },
		func() Status { return s.g.depthToSpace(n.BlockSize, n.Input, n.Output) })
}

// SpaceToDepth2D is xnn_define_space_to_depth_2d, the inverse of DepthToSpace2D.
type SpaceToDepth2D struct {
	BlockSize     int
	Input, Output ValueID // [batch, height, width, channels]
}

// SpaceToDepth2D adds the node.
func (s *Subgraph) SpaceToDepth2D(n SpaceToDepth2D) error {
	return s.node("define space to depth 2d", inOut(n.Input, n.Output), func([]*value) error { return checkNumbers(n.BlockSize) },
		func() Status { return s.g.spaceToDepth(n.BlockSize, n.Input, n.Output) })
}

func inOut(in, out ValueID) []operand {
	return []operand{{role: "input", id: in}, {role: "output", id: out}}
}

func (s *Subgraph) oneToOne(op string, in, out ValueID, define func() Status) error {
	return s.node(op, inOut(in, out), nil, define)
}

// listed adds a node with one number for each of at most MaxTensorDims dimensions.
func (s *Subgraph) listed(op string, list []int, in, out ValueID, define func() Status) error {
	return s.node(op, inOut(in, out), func([]*value) error {
		if len(list) > MaxTensorDims {
			return fmt.Errorf("%v has more than %d dimensions: %w", list, MaxTensorDims, UnsupportedParameter)
		}
		return checkNumbers(list...)
	}, define)
}

func checkPooled(v []*value) error {
	in, out := v[0].shape, v[1].shape
	if len(in) != 4 || len(out) != 4 || in[3] != out[3] {
		return fmt.Errorf("input and output must have the shape [batch, height, width, channels]: %w", InvalidParameter)
	}
	return nil
}

func checkAxis(axis int) error {
	if axis < -MaxTensorDims || axis >= MaxTensorDims {
		return fmt.Errorf("axis %d: %w", axis, InvalidParameter)
	}
	return nil
}

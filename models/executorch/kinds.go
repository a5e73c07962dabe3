package executorch

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// A kind is one of the schema's nodes, by its number in the union of nodes.
type kind struct {
	name   string
	decode func(*decoder) flow.Node // nil if package xnnpack does not have it
}

// kinds has the fields of each. In them "-" is a field that is not read, and the others are fields of package xnnpack.
var kinds = [...]kind{
	1: {"Add", binaryOf(xnnpack.Add)},
	2: {"FullyConnected", node(flow.FullyConnected, xnnpack.FullyConnected{},
		flags{flagTransposeWeights: "TransposeWeights"}, "Input Filter Bias Output Flags")},
	3: {"Softmax", node(flow.Softmax, xnnpack.Softmax{}, nil, "Input Output Flags")},
	4: {"Sigmoid", unaryOf(xnnpack.Sigmoid, "")},
	5: {"StaticTranspose", node(flow.StaticTranspose, xnnpack.StaticTranspose{}, nil,
		"- Permutation Input Output Flags")},
	6: {"Clamp", unaryOf(xnnpack.Clamp, "")},
	7: {"Conv2d", convolution},
	8: {"Div", binaryOf(xnnpack.Divide)},
	9: {"StaticResizeBilinear2D", node(flow.StaticResizeBilinear2D, xnnpack.StaticResizeBilinear2D{},
		flags{flagAlignCorners: "AlignCorners", flagLegacyMode: "LegacyMode"}, "NewSize Input Output Flags")},
	10: {"StaticConstantPad", node(flow.StaticConstantPad, xnnpack.StaticConstantPad{}, nil,
		"Pre Post Value Input Output Flags")},
	11: {"AvgPooling2d", node(flow.AveragePooling2D, xnnpack.AveragePooling2D{}, pools,
		"Padding Pooling Stride - - Input Output Flags")},
	12: {"Minimum", unlimited(binaryOf(xnnpack.Minimum))},
	13: {"DepthwiseConv2d", depthwise},
	14: {"MaxPooling2d", node(flow.MaxPooling2D, xnnpack.MaxPooling2D{}, pools,
		"Padding Pooling Stride Dilation Input Output Flags")},
	15: {"Multiply", binaryOf(xnnpack.Multiply)},
	16: {"Subtract", binaryOf(xnnpack.Subtract)},
	17: {"Floor", unaryOf(xnnpack.Floor, "")},
	18: {"Convert", unaryOf(xnnpack.ConvertElements, "")},
	19: {"GlobalAvgPooling2d", node(flow.StaticReduce, xnnpack.StaticReduce{Op: xnnpack.ReduceMean, Axes: []int{1, 2}},
		flags{flagKeepDims: "KeepDims"}, "Input Output Flags")},
	20: {"StaticReshape", node(flow.StaticReshape, xnnpack.StaticReshape{}, nil, "- Shape Input Output Flags")},
	21: {"ArgMaxPooling2d", nil},
	22: {"SquareRoot", unaryOf(xnnpack.SquareRoot, "")},
	23: {"Ceiling", unaryOf(xnnpack.Ceiling, "")},
	24: {"Hardswish", unaryOf(xnnpack.HardSwish, "")},
	25: {"LeakyReLU", unaryOf(xnnpack.LeakyReLU, "NegativeSlope ")},
	26: {"Maximum", unlimited(binaryOf(xnnpack.Maximum))},
	27: {"Negate", unaryOf(xnnpack.Negate, "")},
	28: {"Square", unaryOf(xnnpack.Square, "")},
	29: {"ELU", unaryOf(xnnpack.ELU, "Alpha ")},
	30: {"Abs", unaryOf(xnnpack.Abs, "")},
	31: {"PReLU", unlimited(binaryOf(xnnpack.PReLUOperator))},
	32: {"Concatenate2", concatenateOf(1, 2)},
	33: {"Concatenate3", concatenateOf(1, 2, 3)},
	34: {"Concatenate4", concatenateOf(1, 2, 3, 4)},
	35: {"StaticSlice", node(flow.StaticSlice, xnnpack.StaticSlice{}, nil, "- Offsets Sizes Input Output Flags")},
	36: {"ScaledDotProductAttention", nil}, // the runtimes of ExecuTorch do not have it either
	37: {"BatchMatrixMultiply", node(flow.BatchMatrixMultiply, xnnpack.BatchMatrixMultiply{},
		flags{flagTransposeWeights: "TransposeB"}, "A B Output Flags")},
	38: {"Concatenate5", concatenateOf(1, 2, 3, 4, 7)},
	39: {"ConvTranspose2d", deconvolution},
	40: {"ReciprocalSquareRoot", unaryOf(xnnpack.ReciprocalSquareRoot, "")},
	41: {"Log", unaryOf(xnnpack.Log, "")},
	42: {"Gelu", unaryOf(xnnpack.GELU, "")},
	43: {"Tanh", unaryOf(xnnpack.Tanh, "")},
	44: {"Exp", unaryOf(xnnpack.Exp, "")},
	45: {"Sin", unaryOf(xnnpack.Sine, "")},
	46: {"Copy", node(flow.Copy, xnnpack.Copy{}, nil, "Input Output Flags")},
	47: {"Cos", unaryOf(xnnpack.Cosine, "")},
}

// flags maps a node's flags to the field of package xnnpack that each sets, or none if it has no effect.
type flags map[uint32]string

var (
	padsSame = flags{flagSamePadding: "SamePadding"}
	// ExecuTorch's export gives each pooling the flag that keeps dimensions, which XNNPACK's always does.
	pools = flags{flagSamePadding: "SamePadding", flagKeepDims: ""}
)

func kindOf(n byte) kind {
	if int(n) < len(kinds) && kinds[n].name != "" {
		return kinds[n]
	}
	return kind{name: fmt.Sprint("type ", n)}
}

// decoder reads one node. The first error ends that, see package fault.
type decoder struct {
	plan         *plan
	t            flatbuf.Table
	ids          map[uint32]xnnpack.ValueID // of the plan, by IDs of the graph
	limits       xnnpack.Range              // of the output; zero if there are none
	odd          error                      // the first number that this package does not take
	unknownFlags uint32                     // flags that are not known
}

// value returns the value that a field names.
func (d *decoder) value(slot int) xnnpack.ValueID {
	id := d.t.Uint32(slot)
	v, ok := d.ids[id]
	if !ok {
		malformed("it uses the value %d, which is not there", id)
	}
	return v
}

// optional returns no value where the field names none.
func (d *decoder) optional(slot int) xnnpack.ValueID {
	if d.t.Uint32(slot) == invalidID {
		return xnnpack.InvalidValue
	}
	return d.value(slot)
}

// strange notes the first number that this package does not take.
func (d *decoder) strange(format string, args ...any) {
	d.odd = cmp.Or(d.odd, fault.Try(func() { malformed(format, args...) }))
}

func (d *decoder) number(slot int) int { return d.inRange(d.t.Uint32(slot)) }

func (d *decoder) inRange(n uint32) int {
	if n > math.MaxInt32 {
		d.strange("the number %d", n)
		return 0
	}
	return int(n)
}

func (d *decoder) numbers(slot int) []int {
	out := []int{}
	for _, n := range d.t.Uint32s(slot) {
		out = append(out, d.inRange(n))
	}
	return out
}

// size reads a height, and a width in the next field.
func (d *decoder) size(slot int) xnnpack.Size {
	return xnnpack.Size{Height: d.number(slot), Width: d.number(slot + 1)}
}

// node returns what decodes a kind of nodes. Of a node is what does not depend on its fields, which are named in the
// order of the schema's table: a Padding is four of these, and a Size two.
func node[N xnnpack.Node](make func(N) flow.Node, n N, meanings flags, fields string) func(*decoder) flow.Node {
	return func(d *decoder) flow.Node {
		n := n
		d.read(reflect.ValueOf(&n).Elem(), meanings, fields)
		return make(n)
	}
}

// read reads the fields of a node, whose output is limited where it can be.
func (d *decoder) read(n reflect.Value, meanings flags, fields string) {
	slot := 0
	for _, name := range strings.Fields(fields) {
		switch name {
		case "Flags":
			d.flags(n, meanings, slot)
		case "Bias":
			n.FieldByName(name).SetUint(uint64(d.optional(slot)))
		case "-":
		default:
			slot += d.field(n.FieldByName(name).Addr().Interface(), slot)
		}
		slot++
	}
	for _, name := range []string{"Activation", "Limits"} {
		if limited := n.FieldByName(name); limited.IsValid() {
			limited.Set(reflect.ValueOf(d.limits))
		}
	}
}

// field reads a field of a node, and returns how many of the schema's it is besides the first.
func (d *decoder) field(field any, slot int) (extra int) {
	switch field := field.(type) {
	case *xnnpack.ValueID:
		*field = d.value(slot)
	case *int:
		*field = d.number(slot)
	case *[]int:
		*field = d.numbers(slot)
	case *float32:
		*field = d.t.Float32(slot, 0)
	case *xnnpack.Size:
		*field = d.size(slot)
		return 1
	case *xnnpack.Padding:
		*field = xnnpack.Padding{Top: d.number(slot), Right: d.number(slot + 1), Bottom: d.number(slot + 2),
			Left: d.number(slot + 3)}
		return 3
	}
	return 0
}

// flags sets the fields of the flags, and keeps unknown flags.
func (d *decoder) flags(n reflect.Value, meanings flags, slot int) {
	d.unknownFlags |= d.t.Uint32(slot)
	for flag, name := range meanings {
		if name != "" && d.unknownFlags&flag != 0 {
			n.FieldByName(name).SetBool(true)
		}
		d.unknownFlags &^= flag
	}
}

// unaryOf is given the fields before the operand. A conversion has no flags: ExecuTorch's runtime for arm64 adds one,
// 0x100, where a fully connected layer reads the result: in XNNPACK of 2024 that asks for the packing of KleidiAI.
// XNNPACK of 2026 does not read it and decides by itself.
func unaryOf(op xnnpack.UnaryOperator, prefix string) func(*decoder) flow.Node {
	return node(flow.Unary, xnnpack.Unary{Op: op}, nil, prefix+"Input Output Flags")
}

func binaryOf(op xnnpack.BinaryOperator) func(*decoder) flow.Node {
	return node(flow.Binary, xnnpack.Binary{Op: op}, nil, "A B Output Flags")
}

func unlimited(decode func(*decoder) flow.Node) func(*decoder) flow.Node {
	return func(d *decoder) flow.Node {
		d.limits = xnnpack.Range{}
		return decode(d)
	}
}

// The fields of the three kinds of convolution are the same.
const (
	convKernel       = 4 // height, and width
	convGroupInputs  = 10
	convGroupOutputs = 11
	convGroups       = 12
)

func convolution(d *decoder) flow.Node {
	op := node(flow.Convolution2D, xnnpack.Convolution2D{}, padsSame,
		"Padding - - Stride Dilation - - Groups - - Input Filter Bias Output Flags")(d)
	return d.kernel(op, d.number(convGroups)*d.number(convGroupOutputs), d.number(convGroupInputs))
}

func depthwise(d *decoder) flow.Node {
	inputs, outputs := d.number(convGroupInputs), d.number(convGroupOutputs)
	if inputs == 0 || outputs%inputs != 0 {
		malformed("%d output channels for %d", outputs, inputs)
	}
	n := xnnpack.DepthwiseConvolution2D{DepthMultiplier: outputs / inputs}
	op := node(flow.DepthwiseConvolution2D, n, padsSame,
		"Padding - - Stride Dilation - - - - - Input Filter Bias Output Flags")(d)
	return d.kernel(op, 1, d.number(convGroups)*n.DepthMultiplier)
}

func deconvolution(d *decoder) flow.Node {
	op := node(flow.Deconvolution2D, xnnpack.Deconvolution2D{}, nil,
		"Padding - - Stride Dilation - - Groups Adjustment Input Filter Bias Output Flags")(d)
	return d.kernel(op, d.number(convGroups)*d.number(convGroupOutputs), d.number(convGroupInputs))
}

// kernel checks that a filter has the shape of its node, of which first and last are dimensions.
func (d *decoder) kernel(op flow.Node, first, last int) flow.Node {
	filter, _ := op.Weights()
	size, shape := d.size(convKernel), d.plan.values[filter].tensor.Shape
	if !slices.Equal(shape, []int{first, size.Height, size.Width, last}) {
		d.strange("a filter of shape %v for a kernel of %d by %d, and %d groups of %d to %d channels", shape,
			size.Height, size.Width, d.number(convGroups), d.number(convGroupInputs), d.number(convGroupOutputs))
	}
	return op
}

func concatenateOf(inputs ...int) func(*decoder) flow.Node {
	return func(d *decoder) flow.Node {
		n := xnnpack.Concatenate{Axis: d.number(0), Output: d.value(5)}
		for _, slot := range inputs {
			n.Inputs = append(n.Inputs, d.value(slot))
		}
		d.unknownFlags |= d.t.Uint32(6)
		return flow.Concatenate(n)
	}
}

// statesOf are the arguments of operators that change a tensor which the method keeps for the next inference.
var statesOf = map[string][]int{
	"aten::copy_":                   {0},
	"llama::sdpa_with_kv_cache.out": {3, 4},
	"llama::update_cache.out":       {1},
}

// copies are the operators that copy a tensor, their first argument, into another order of dimensions, which is that
// of their last.
var copies = []string{"aten::_to_copy.out", "aten::clone.out", "dim_order_ops::_clone_dim_order.out",
	"dim_order_ops::_to_dim_order_copy.out"}

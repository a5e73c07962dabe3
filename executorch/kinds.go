package executorch

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// A kind is one of the schema's nodes, by its number in the union of nodes.
type kind struct {
	name   string
	decode func(*decoder) flow.Operation // nil if package xnnpack does not have it
}

var kinds = [...]kind{
	1:  {"Add", binaryOf(xnnpack.Add)},
	2:  {"FullyConnected", (*decoder).fullyConnected},
	3:  {"Softmax", (*decoder).softmax},
	4:  {"Sigmoid", unaryOf(xnnpack.Sigmoid)},
	5:  {"StaticTranspose", (*decoder).transpose},
	6:  {"Clamp", unaryOf(xnnpack.Clamp)},
	7:  {"Conv2d", (*decoder).convolution},
	8:  {"Div", binaryOf(xnnpack.Divide)},
	9:  {"StaticResizeBilinear2D", (*decoder).resize},
	10: {"StaticConstantPad", (*decoder).pad},
	11: {"AvgPooling2d", (*decoder).averagePooling},
	12: {"Minimum", binaryOf(xnnpack.Minimum)},
	13: {"DepthwiseConv2d", (*decoder).depthwise},
	14: {"MaxPooling2d", (*decoder).maxPooling},
	15: {"Multiply", binaryOf(xnnpack.Multiply)},
	16: {"Subtract", binaryOf(xnnpack.Subtract)},
	17: {"Floor", unaryOf(xnnpack.Floor)},
	18: {"Convert", (*decoder).convert},
	19: {"GlobalAvgPooling2d", (*decoder).mean},
	20: {"StaticReshape", (*decoder).reshape},
	21: {"ArgMaxPooling2d", nil},
	22: {"SquareRoot", unaryOf(xnnpack.SquareRoot)},
	23: {"Ceiling", unaryOf(xnnpack.Ceiling)},
	24: {"Hardswish", unaryOf(xnnpack.HardSwish)},
	25: {"LeakyReLU", (*decoder).leakyReLU},
	26: {"Maximum", binaryOf(xnnpack.Maximum)},
	27: {"Negate", unaryOf(xnnpack.Negate)},
	28: {"Square", unaryOf(xnnpack.Square)},
	29: {"ELU", (*decoder).elu},
	30: {"Abs", unaryOf(xnnpack.Abs)},
	31: {"PReLU", (*decoder).prelu},
	32: {"Concatenate2", concatenateOf(1, 2)},
	33: {"Concatenate3", concatenateOf(1, 2, 3)},
	34: {"Concatenate4", concatenateOf(1, 2, 3, 4)},
	35: {"StaticSlice", (*decoder).slice},
	36: {"ScaledDotProductAttention", nil}, // the runtimes of ExecuTorch do not have it either
	37: {"BatchMatrixMultiply", (*decoder).batchMatrixMultiply},
	38: {"Concatenate5", concatenateOf(1, 2, 3, 4, 7)},
	39: {"ConvTranspose2d", (*decoder).deconvolution},
	40: {"ReciprocalSquareRoot", unaryOf(xnnpack.ReciprocalSquareRoot)},
	41: {"Log", unaryOf(xnnpack.Log)},
	42: {"Gelu", unaryOf(xnnpack.GELU)},
	43: {"Tanh", unaryOf(xnnpack.Tanh)},
	44: {"Exp", unaryOf(xnnpack.Exp)},
	45: {"Sin", unaryOf(xnnpack.Sine)},
	46: {"Copy", (*decoder).duplicate},
	47: {"Cos", unaryOf(xnnpack.Cosine)},
}

func kindOf(n byte) kind {
	if int(n) < len(kinds) && kinds[n].name != "" {
		return kinds[n]
	}
	return kind{name: fmt.Sprint("type ", n)}
}

// decoder reads one node. The first error ends that, see package fault.
type decoder struct {
	plan   *plan
	t      flatbuf.Table
	ids    map[uint32]xnnpack.ValueID // of the plan, by those of the graph
	limits xnnpack.Range              // of the output; zero if there are none
	odd    error                      // the first number that this package does not take
	other  uint32                     // flags that are not known
}

// value returns the value that a field names.
func (d *decoder) value(slot int) xnnpack.ValueID {
	id := d.t.Uint32(slot)
	v, ok := d.ids[id]
	if !ok {
		fault.Check(malformed("it uses the value %d, which is not there", id))
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

// flags returns those of the flags that are known, and keeps the others.
func (d *decoder) flags(slot int, known uint32) uint32 {
	flags := d.t.Uint32(slot)
	d.other |= flags &^ known
	return flags & known
}

func (d *decoder) number(slot int) int { return d.inRange(d.t.Uint32(slot)) }

func (d *decoder) inRange(n uint32) int {
	if n > math.MaxInt32 {
		d.odd = cmp.Or(d.odd, malformed("the number %d", n))
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

// padding reads the first four fields of a node with a window.
func (d *decoder) padding() xnnpack.Padding {
	return xnnpack.Padding{Top: d.number(0), Right: d.number(1), Bottom: d.number(2), Left: d.number(3)}
}

func unaryOf(op xnnpack.UnaryOperator) func(*decoder) flow.Operation {
	return func(d *decoder) flow.Operation {
		d.flags(2, 0)
		return flow.Unary(xnnpack.Unary{Op: op, Input: d.value(0), Output: d.value(1), Limits: d.limits})
	}
}

func (d *decoder) leakyReLU() flow.Operation {
	d.flags(3, 0)
	return flow.Unary(xnnpack.Unary{
		Op: xnnpack.LeakyReLU, NegativeSlope: d.t.Float32(0, 0), Input: d.value(1), Output: d.value(2),
	})
}

func (d *decoder) elu() flow.Operation {
	d.flags(3, 0)
	return flow.Unary(xnnpack.Unary{Op: xnnpack.ELU, Alpha: d.t.Float32(0, 0), Input: d.value(1), Output: d.value(2)})
}

// convert has no flags. ExecuTorch's runtime for arm64 adds one, 0x100, where a fully connected layer reads the result:
// in XNNPACK of 2024 that asks for the packing of KleidiAI. XNNPACK of 2026 does not read it and decides by itself.
func (d *decoder) convert() flow.Operation {
	d.flags(2, 0)
	return flow.Convert(d.value(0), d.value(1))
}

func (d *decoder) duplicate() flow.Operation {
	d.flags(2, 0)
	return flow.Copy(xnnpack.Copy{Input: d.value(0), Output: d.value(1)})
}

func (d *decoder) softmax() flow.Operation {
	d.flags(2, 0)
	return flow.Softmax(xnnpack.Softmax{Input: d.value(0), Output: d.value(1)})
}

func binaryOf(op xnnpack.BinaryOperator) func(*decoder) flow.Operation {
	return func(d *decoder) flow.Operation {
		d.flags(3, 0)
		n := xnnpack.Binary{Op: op, A: d.value(0), B: d.value(1), Output: d.value(2)}
		if op != xnnpack.Minimum && op != xnnpack.Maximum {
			n.Activation = d.limits
		}
		return flow.Binary(n)
	}
}

func (d *decoder) prelu() flow.Operation {
	d.flags(3, 0)
	return flow.Binary(xnnpack.Binary{Op: xnnpack.PReLUOperator, A: d.value(0), B: d.value(1), Output: d.value(2)})
}

func (d *decoder) fullyConnected() flow.Operation {
	return flow.FullyConnected(xnnpack.FullyConnected{
		Input: d.value(0), Filter: d.value(1), Bias: d.optional(2), Output: d.value(3), Activation: d.limits,
		TransposeWeights: d.flags(4, flagTransposeWeights) != 0,
	})
}

// The fields of the three kinds of convolution are the same.
const (
	convKernel            = 4 // height, and width
	convStride            = 6
	convDilation          = 8
	convGroupInputs       = 10
	convGroupOutputs      = 11
	convGroups            = 12
	convAdjustment        = 13
	convInput             = 15
	convFilter            = 16
	convBias              = 17
	convOutput, convFlags = 18, 19
)

func (d *decoder) convolution() flow.Operation {
	n := xnnpack.Convolution2D{
		Input: d.value(convInput), Filter: d.value(convFilter), Bias: d.optional(convBias), Output: d.value(convOutput),
		Activation: d.limits, Padding: d.padding(), Stride: d.size(convStride), Dilation: d.size(convDilation),
		Groups: d.number(convGroups), SamePadding: d.flags(convFlags, flagSamePadding) != 0,
	}
	inputs, outputs := d.number(convGroupInputs), d.number(convGroupOutputs)
	d.kernel(n.Filter, n.Groups, inputs, outputs, []int{n.Groups * outputs, inputs})
	return flow.Convolution2D(n)
}

// kernel checks that a filter has the shape that the node says, of which the ends are the first and last dimension.
func (d *decoder) kernel(filter xnnpack.ValueID, groups, inputs, outputs int, ends []int) {
	size, shape := d.size(convKernel), d.plan.values[filter].tensor.Shape
	if !slices.Equal(shape, []int{ends[0], size.Height, size.Width, ends[1]}) {
		d.odd = cmp.Or(d.odd, malformed(
			"a filter of shape %v for a kernel of %d by %d, and %d groups of %d to %d channels", shape,
			size.Height, size.Width, groups, inputs, outputs))
	}
}

func (d *decoder) depthwise() flow.Operation {
	inputs, outputs, groups := d.number(convGroupInputs), d.number(convGroupOutputs), d.number(convGroups)
	if inputs == 0 || outputs%inputs != 0 {
		fault.Check(malformed("%d output channels for %d", outputs, inputs))
	}
	n := xnnpack.DepthwiseConvolution2D{
		Input: d.value(convInput), Filter: d.value(convFilter), Bias: d.optional(convBias), Output: d.value(convOutput),
		Activation: d.limits, Padding: d.padding(), Stride: d.size(convStride), Dilation: d.size(convDilation),
		DepthMultiplier: outputs / inputs, SamePadding: d.flags(convFlags, flagSamePadding) != 0,
	}
	d.kernel(n.Filter, groups, inputs, outputs, []int{1, groups * n.DepthMultiplier})
	return flow.DepthwiseConvolution2D(n)
}

func (d *decoder) deconvolution() flow.Operation {
	d.flags(convFlags, 0)
	n := xnnpack.Deconvolution2D{
		Input: d.value(convInput), Filter: d.value(convFilter), Bias: d.optional(convBias), Output: d.value(convOutput),
		Activation: d.limits, Padding: d.padding(), Stride: d.size(convStride), Dilation: d.size(convDilation),
		Adjustment: d.size(convAdjustment), Groups: d.number(convGroups),
	}
	inputs, outputs := d.number(convGroupInputs), d.number(convGroupOutputs)
	d.kernel(n.Filter, n.Groups, inputs, outputs, []int{n.Groups * outputs, inputs})
	return flow.Deconvolution2D(n)
}

// maxPooling has no use for the flag that keeps dimensions, which ExecuTorch's export gives each: XNNPACK's pooling
// always keeps them.
func (d *decoder) maxPooling() flow.Operation {
	return flow.MaxPooling2D(xnnpack.MaxPooling2D{
		Padding: d.padding(), Pooling: d.size(4), Stride: d.size(6), Dilation: d.size(8),
		Input: d.value(10), Output: d.value(11),
		SamePadding: d.flags(12, flagSamePadding|flagKeepDims)&flagSamePadding != 0, Activation: d.limits,
	})
}

// averagePooling has no use for the dilation, nor for the flag that keeps dimensions.
func (d *decoder) averagePooling() flow.Operation {
	return flow.AveragePooling2D(xnnpack.AveragePooling2D{
		Padding: d.padding(), Pooling: d.size(4), Stride: d.size(6), Input: d.value(10), Output: d.value(11),
		SamePadding: d.flags(12, flagSamePadding|flagKeepDims)&flagSamePadding != 0, Activation: d.limits,
	})
}

// mean is a global average pooling. Whether it keeps the dimensions of images the plan sees from its output.
func (d *decoder) mean() flow.Operation {
	return flow.StaticReduce(xnnpack.StaticReduce{
		Op: xnnpack.ReduceMean, Axes: []int{1, 2}, Input: d.value(0), Output: d.value(1),
		KeepDims: d.flags(2, flagKeepDims) != 0,
	})
}

func (d *decoder) transpose() flow.Operation {
	d.flags(4, 0)
	return flow.StaticTranspose(xnnpack.StaticTranspose{
		Permutation: d.numbers(1), Input: d.value(2), Output: d.value(3),
	})
}

func (d *decoder) resize() flow.Operation {
	flags := d.flags(4, flagAlignCorners|flagLegacyMode)
	return flow.StaticResizeBilinear2D(xnnpack.StaticResizeBilinear2D{
		NewSize: d.size(0), Input: d.value(2), Output: d.value(3),
		AlignCorners: flags&flagAlignCorners != 0, LegacyMode: flags&flagLegacyMode != 0,
	})
}

func (d *decoder) pad() flow.Operation {
	d.flags(5, 0)
	return flow.StaticConstantPad(xnnpack.StaticConstantPad{
		Pre: d.numbers(0), Post: d.numbers(1), Value: d.t.Float32(2, 0), Input: d.value(3), Output: d.value(4),
	})
}

func (d *decoder) reshape() flow.Operation {
	d.flags(4, 0)
	return flow.StaticReshape(xnnpack.StaticReshape{Shape: d.numbers(1), Input: d.value(2), Output: d.value(3)})
}

func (d *decoder) slice() flow.Operation {
	d.flags(5, 0)
	return flow.StaticSlice(xnnpack.StaticSlice{
		Offsets: d.numbers(1), Sizes: d.numbers(2), Input: d.value(3), Output: d.value(4),
	})
}

func concatenateOf(inputs ...int) func(*decoder) flow.Operation {
	return func(d *decoder) flow.Operation {
		d.flags(6, 0)
		n := xnnpack.Concatenate{Axis: d.number(0), Output: d.value(5)}
		for _, slot := range inputs {
			n.Inputs = append(n.Inputs, d.value(slot))
		}
		return flow.Concatenate(n)
	}
}

func (d *decoder) batchMatrixMultiply() flow.Operation {
	return flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{
		A: d.value(0), B: d.value(1), Output: d.value(2), TransposeB: d.flags(3, flagTransposeWeights) != 0,
	})
}

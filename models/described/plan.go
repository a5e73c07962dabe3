package described

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/models/safetensors"
	"xpwc/xnnpack"
)

// A planner makes steps of an operator. The first error ends that, see package fault.
type planner struct {
	*values
	part *flow.Part
	Operator
	datatype
	title string // what errors call it
}

// add checks an operator against the tensors, and adds the steps that compute it. The error matches [ErrInvalid].
func (m *Model) add(o Operator) error {
	p := &planner{values: m.values, part: &m.part, Operator: o,
		title: fmt.Sprintf("%s of weights %q", o.Op, o.Weights)}
	err := fault.Try(p.plan)
	if err != nil && !errors.Is(err, ErrInvalid) {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return err
}

// refuse ends the work.
func refuse(format string, args ...any) { fault.Because(ErrInvalid, format, args...) }

// plan adds the operator, with the conversions of its input from float32 and its output to it.
func (p *planner) plan() {
	p.checkType()
	p.checkMembers()
	filter := p.filter()
	weights := flow.IDs{p.value(filter, true)}
	if p.Bias != "" {
		weights = append(weights, p.value(p.bias(filter), true))
	}
	node := p.node()
	shapes := [][]int{node.Least(filter.Shape)}
	for _, id := range weights {
		shapes = append(shapes, p.list[id].Shape)
	}
	inTensor := xnnpack.Tensor{Name: p.Weights + " input", Type: p.datatype.input, Shape: shapes[0]}
	outTensor := xnnpack.Tensor{Name: p.Weights + " output", Type: p.output, Shape: node.Shape(shapes)}
	if inTensor.Type == xnnpack.DynamicQInt8 {
		inTensor.Quantization.NonBatchDims = len(inTensor.Shape) - 1
	}
	if p.Input != nil {
		inTensor.Quantization, outTensor.Quantization = p.Input.quantization(), p.Output.quantization()
	}
	for _, shape := range [][]int{inTensor.Shape, outTensor.Shape} {
		_, err := flow.Elements(shape...)
		fault.Check(err)
	}
	external, input := p.external(inTensor)
	computed, output := p.external(outTensor)
	p.part.Inputs, p.part.Outputs = append(p.part.Inputs, external), append(p.part.Outputs, computed)
	if input != external {
		p.step(flow.Convert(external, input))
	}
	p.step(node.With(slices.Concat(flow.IDs{input}, weights, flow.IDs{output})...))
	if output != computed {
		p.step(flow.Convert(output, computed))
	}
}

func (p *planner) step(op flow.Operation) {
	p.part.Steps = append(p.part.Steps, &flow.Step{Name: p.title, Operation: op})
}

// external adds a value outside of the subgraph, of float32, and the operator's own, if that is of another type.
func (p *planner) external(t xnnpack.Tensor) (outside, id flow.ID) {
	outside = p.value(xnnpack.Tensor{Name: t.Name, Type: xnnpack.Float32, Shape: t.Shape}, false)
	if t.Type == xnnpack.Float32 {
		return outside, outside
	}
	return outside, p.value(t, false)
}

// checkType finds the datatype, and sees that the operator is one of it.
func (p *planner) checkType() {
	if p.Op == Undecided {
		refuse("\"op\" is to be decided: one of %s, or %s to leave the tensor out; note: %s",
			strings.Join(operators, ", "), LeftOut, p.Note)
	}
	d, ok := datatypes[p.Datatype]
	if !ok {
		wrong := fmt.Sprintf("unknown datatype %q", p.Datatype)
		if p.Datatype == "" {
			wrong = "\"datatype\" is missing"
		}
		refuse("%s; known are %s", wrong, strings.Join(slices.Sorted(maps.Keys(datatypes)), ", "))
	}
	if !slices.Contains(operators, p.Op) {
		refuse("unknown op %q; known are %s", p.Op, strings.Join(operators, ", "))
	}
	if !slices.Contains(d.operators, p.Op) {
		refuse("there is no %s of %s; it is for %s", p.Op, p.Datatype, strings.Join(d.operators, ", "))
	}
	p.datatype = d
}

// checkMembers refuses what the operator or the datatype has no use for.
func (p *planner) checkMembers() {
	image, scales, blocks := p.Op != fullyConnected, storedScales[p.weights] != "", p.weights == xnnpack.BlockQInt4
	static := p.datatype.input == xnnpack.QInt8 // and so is the output
	for _, m := range []struct {
		name              string
		allowed, possible bool
		needed            bool
	}{
		{"weights", p.Weights != "", true, true},
		{"scales", p.Scales != "", scales, scales},
		{"zero_point", p.ZeroPoint != nil, p.fourBit(), p.fourBit()},
		{"block_size", p.BlockSize != 0, blocks, blocks},
		{"transposed", p.Transposed, !image && !p.notTransposed, false},
		{"input", p.Input != nil, static, static},
		{"output", p.Output != nil, static, static},
		{"stride", p.Stride != nil, image, false},
		{"dilation", p.Dilation != nil, image, false},
		{"padding", p.Padding != nil, image && !p.SamePadding, false},
		{"same_padding", p.SamePadding, image && p.Op != deconvolution, false},
		{"groups", p.Groups != 0, image && p.Op != depthwise, false},
		{"depth_multiplier", p.DepthMultiplier != 0, p.Op == depthwise, false},
		{"adjustment", p.Adjustment != nil, p.Op == deconvolution, false},
	} {
		switch {
		case m.needed && !m.allowed:
			refuse("%q is missing, which %s of %s needs", m.name, p.Op, p.Datatype)
		case m.allowed && !m.possible:
			refuse("%q does not apply to %s of %s", m.name, p.Op, p.Datatype)
		}
	}
	if p.Groups < 0 || p.DepthMultiplier < 0 || p.BlockSize < 0 {
		refuse("groups, depth_multiplier and block_size are positive")
	}
	if z := p.ZeroPoint; z != nil && *z != 0 && *z != 8 {
		refuse("zero_point %d of 4-bit weights is neither 8 (stored unsigned) nor 0 (signed)", *z)
	}
	for name, q := range map[string]*Scale{"input": p.Input, "output": p.Output} {
		if q != nil && (!validScale(q.Scale) || q.ZeroPoint < -128 || q.ZeroPoint > 127) {
			refuse("%s: the scale must be a positive normal number, the zero point from -128 to 127", name)
		}
	}
}

// node returns the operator as XNNPACK takes it, without operands; only the presence of a bias shows.
func (p *planner) node() flow.Node {
	limits, padding, bias := p.limits(), p.padding(), xnnpack.InvalidValue
	if p.Bias != "" {
		bias = 0
	}
	stride, dilation := numbersOf("stride", p.Stride, 1, 1), numbersOf("dilation", p.Dilation, 1, 1)
	groups := max(p.Groups, 1)
	switch p.Op {
	case fullyConnected:
		return flow.FullyConnected(xnnpack.FullyConnected{Bias: bias, Activation: limits,
			TransposeWeights: p.Transposed})
	case convolution:
		return flow.Convolution2D(xnnpack.Convolution2D{Bias: bias, Padding: padding, SamePadding: p.SamePadding,
			Stride: stride, Dilation: dilation, Groups: groups, Activation: limits})
	case depthwise:
		return flow.DepthwiseConvolution2D(xnnpack.DepthwiseConvolution2D{Bias: bias, Padding: padding,
			SamePadding: p.SamePadding, Stride: stride, Dilation: dilation, Activation: limits,
			DepthMultiplier: max(p.DepthMultiplier, 1)})
	default:
		return flow.Deconvolution2D(xnnpack.Deconvolution2D{Bias: bias, Padding: padding, Stride: stride,
			Dilation: dilation, Groups: groups, Activation: limits,
			Adjustment: numbersOf("adjustment", p.Adjustment, 0, 0)})
	}
}

// maxSetting bounds strides, dilations and paddings: XNNPACK has a pointer for each pixel under the window.
const maxSetting = 1 << 10

// numbersOf returns a member of two numbers, each another one if it is left out.
func numbersOf(name string, numbers []int, minimum, otherwise int) xnnpack.Size {
	if numbers == nil {
		return xnnpack.Size{Height: otherwise, Width: otherwise}
	}
	if len(numbers) != 2 || min(numbers[0], numbers[1]) < minimum || max(numbers[0], numbers[1]) > maxSetting {
		refuse("%s %v is no [height, width] from %d to %d", name, numbers, minimum, maxSetting)
	}
	return xnnpack.Size{Height: numbers[0], Width: numbers[1]}
}

func (p *planner) padding() xnnpack.Padding {
	n := p.Padding
	if n == nil {
		return xnnpack.Padding{}
	}
	if len(n) != 4 || slices.Min(n) < 0 || slices.Max(n) > maxSetting {
		refuse("padding %v is no [top, right, bottom, left] from 0 to %d", n, maxSetting)
	}
	return xnnpack.Padding{Top: n[0], Right: n[1], Bottom: n[2], Left: n[3]}
}

func (p *planner) limits() xnnpack.Range {
	limits := xnnpack.Range{Min: float32(math.Inf(-1)), Max: float32(math.Inf(1))}
	if p.Activation == nil {
		return limits
	}
	if len(p.Activation) != 2 {
		refuse("activation has %d numbers, not [least, greatest]", len(p.Activation))
	}
	for i, limit := range []*float32{&limits.Min, &limits.Max} {
		if v := p.Activation[i]; v != nil {
			*limit = *v
		}
	}
	if !(limits.Min < limits.Max) {
		refuse("activation: %v is not less than %v", limits.Min, limits.Max)
	}
	return limits
}

func validScale(v float32) bool { return v >= 0x1p-126 && v <= math.MaxFloat32 }

// find returns a tensor that must be there, of a type, and how many elements it has.
func (p *planner) find(role, name string, dtype safetensors.Dtype) (t safetensors.Tensor, elements int) {
	t, ok := p.tensors.Lookup(name)
	switch {
	case !ok:
		refuse("%s: there is no tensor %q", role, name)
	case t.Dtype == "":
		refuse("%s %q has no type and shape in the file", role, name)
	case t.Dtype != dtype:
		refuse("%s %q is of %s, not %s", role, name, t.Dtype, dtype)
	}
	elements = len(t.Data) / (dtype.Bits() / 8)
	if elements == 0 || elements > math.MaxInt32 {
		refuse("%s %q of shape %v is empty or has more than %d elements", role, name, t.Shape, math.MaxInt32)
	}
	return t, elements
}

// filter finds the weights and their scales.
func (p *planner) filter() xnnpack.Tensor {
	w, _ := p.find("weights", p.Weights, stored[p.weights])
	rank := 4
	if p.Op == fullyConnected {
		rank = 2
	}
	if len(w.Shape) != rank {
		refuse("weights %q have shape %v, and %s takes %d dimensions", p.Weights, w.Shape, p.Op, rank)
	}
	if p.fourBit() {
		w.Shape[rank-1] *= 2
	}
	t := xnnpack.Tensor{Name: p.Weights, Type: p.weights, Shape: w.Shape}
	q := &t.Quantization
	switch {
	case p.Transposed:
		q.ChannelDim = 1
	case p.Op == depthwise:
		q.ChannelDim = 3
	}
	if p.ZeroPoint != nil {
		q.ZeroPoint = *p.ZeroPoint
	}
	if storedScales[p.weights] != "" {
		p.scales(q, w.Shape)
	}
	return t
}

// scales finds the scales of weights of a shape, and checks them.
func (p *planner) scales(q *xnnpack.Quantization, shape []int) {
	t, n := p.find("scales", p.Scales, storedScales[p.weights])
	want, per := shape[q.ChannelDim], "channel"
	if p.weights == xnnpack.BlockQInt4 {
		if p.BlockSize%xnnpack.MinBlockSize != 0 || shape[1]%p.BlockSize != 0 {
			refuse("block_size %d must be a multiple of %d and divide %d", p.BlockSize, xnnpack.MinBlockSize, shape[1])
		}
		want, per = want*(shape[1]/p.BlockSize), "block"
	}
	if n != want {
		refuse("scales %q have %d elements, not one for each %s: %d", p.Scales, n, per, want)
	}
	values := make([]float32, n)
	if per == "block" {
		q.BlockSize, q.BlockScales = p.BlockSize, make([]uint16, n)
		fault.Value(binary.Decode(t.Data, binary.LittleEndian, q.BlockScales))
		for i, s := range q.BlockScales {
			values[i] = math.Float32frombits(uint32(s) << 16)
		}
	} else {
		fault.Value(binary.Decode(t.Data, binary.LittleEndian, values))
		q.Scales = values
	}
	if i := slices.IndexFunc(values, func(s float32) bool { return !validScale(s) }); i >= 0 {
		refuse("scales %q: that of %s %d is not a positive normal number", p.Scales, per, i)
	}
}

// bias finds the bias of weights.
func (p *planner) bias(filter xnnpack.Tensor) xnnpack.Tensor {
	b, _ := p.find("bias", p.Bias, stored[p.datatype.bias])
	t := xnnpack.Tensor{Name: p.Bias, Type: p.datatype.bias, Shape: b.Shape}
	if t.Type == xnnpack.ChannelQInt32 {
		for _, w := range filter.Quantization.Scales {
			t.Quantization.Scales = append(t.Quantization.Scales, max(w*p.Input.Scale, 0x1p-126))
		}
	}
	return t
}

package described

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"xpwc/safetensors"
	"xpwc/xnnpack"
)

// A step is an operator that has been checked against the tensors.
type step struct {
	Operator
	datatype
	filter, bias  xnnpack.Tensor // without data
	input, output xnnpack.Tensor // as the operator takes and gives them
	hasBias       bool
	blind         bool // it is packed without a look-up
	stride        xnnpack.Size
	dilation      xnnpack.Size
	adjustment    xnnpack.Size
	padding       xnnpack.Padding
	limits        xnnpack.Range
	size          int64 // of weights and bias
}

// maxSetting bounds strides, dilations and paddings: XNNPACK has a pointer for each pixel under the window.
const maxSetting = 1 << 10

// maxElements bounds every tensor: XNNPACK's kernels count bytes in what may be 32 bits with a sign.
const maxElements = math.MaxInt32

// newStep checks an operator.
func newStep(o Operator, tensors Tensors) (*step, error) {
	if o.Op == Undecided {
		return nil, invalid("\"op\" is to be decided: one of %s, or %s to leave the tensor out; note: %s",
			strings.Join(operators, ", "), LeftOut, o.Note)
	}
	d, ok := datatypes[o.Datatype]
	if !ok {
		wrong := fmt.Sprintf("unknown datatype %q", o.Datatype)
		if o.Datatype == "" {
			wrong = "\"datatype\" is missing"
		}
		return nil, invalid("%s; known are %s", wrong, strings.Join(slices.Sorted(maps.Keys(datatypes)), ", "))
	}
	if !slices.Contains(operators, o.Op) {
		return nil, invalid("unknown op %q; known are %s", o.Op, strings.Join(operators, ", "))
	}
	if !slices.Contains(d.operators, o.Op) {
		return nil, invalid("there is no %s of %s; it is for %s", o.Op, o.Datatype, strings.Join(d.operators, ", "))
	}
	s := &step{Operator: o, datatype: d}
	for _, check := range []func() error{
		s.checkMembers, s.readSettings, func() error { return s.readTensors(tensors) }, s.shapeImages,
	} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	s.quantize()
	return s, nil
}

// checkMembers refuses what the operator or the datatype has no use for.
func (s *step) checkMembers() error {
	image, scales := s.Op != fullyConnected, storedScales[s.weights] != ""
	for _, m := range []struct {
		name            string
		given, possible bool
		needed          bool
	}{
		{"weights", s.Weights != "", true, true},
		{"scales", s.Scales != "", scales, scales},
		{"zero_point", s.ZeroPoint != nil, s.fourBit(), s.fourBit()},
		{"block_size", s.BlockSize != 0, s.weights == xnnpack.BlockQInt4, s.weights == xnnpack.BlockQInt4},
		{"transposed", s.Transposed, !image && !s.notTransposed, false},
		{"input", s.Input != nil, s.datatype.input == xnnpack.QInt8, s.datatype.input == xnnpack.QInt8},
		{"output", s.Output != nil, s.datatype.output == xnnpack.QInt8, s.datatype.output == xnnpack.QInt8},
		{"stride", s.Stride != nil, image, false},
		{"dilation", s.Dilation != nil, image, false},
		{"padding", s.Padding != nil, image && !s.SamePadding, false},
		{"same_padding", s.SamePadding, image && s.Op != deconvolution, false},
		{"groups", s.Groups != 0, image && s.Op != depthwise, false},
		{"depth_multiplier", s.DepthMultiplier != 0, s.Op == depthwise, false},
		{"adjustment", s.Adjustment != nil, s.Op == deconvolution, false},
	} {
		switch {
		case m.needed && !m.given:
			return invalid("%q is missing, which %s of %s needs", m.name, s.Op, s.Datatype)
		case m.given && !m.possible:
			return invalid("%q does not apply to %s of %s", m.name, s.Op, s.Datatype)
		}
	}
	return nil
}

func (s *step) readSettings() error {
	two := func(name string, given []int, least, otherwise int) (xnnpack.Size, error) {
		if given == nil {
			return xnnpack.Size{Height: otherwise, Width: otherwise}, nil
		}
		if len(given) != 2 || min(given[0], given[1]) < least || max(given[0], given[1]) > maxSetting {
			return xnnpack.Size{}, invalid("%s %v is no [height, width] from %d to %d", name, given, least, maxSetting)
		}
		return xnnpack.Size{Height: given[0], Width: given[1]}, nil
	}
	var err error
	if s.stride, err = two("stride", s.Stride, 1, 1); err != nil {
		return err
	}
	if s.dilation, err = two("dilation", s.Dilation, 1, 1); err != nil {
		return err
	}
	if s.adjustment, err = two("adjustment", s.Adjustment, 0, 0); err != nil {
		return err
	}
	if s.adjustment.Height >= max(s.stride.Height, 1) || s.adjustment.Width >= max(s.stride.Width, 1) {
		return invalid("adjustment %v is not less than the stride", s.Adjustment)
	}
	if p := s.Padding; p != nil {
		if len(p) != 4 || slices.Min(p) < 0 || slices.Max(p) > maxSetting {
			return invalid("padding %v is no [top, right, bottom, left] from 0 to %d", p, maxSetting)
		}
		s.padding = xnnpack.Padding{Top: p[0], Right: p[1], Bottom: p[2], Left: p[3]}
	}
	if s.Groups < 0 || s.DepthMultiplier < 0 || s.BlockSize < 0 {
		return invalid("groups, depth_multiplier and block_size are positive")
	}
	s.Groups, s.DepthMultiplier = max(s.Groups, 1), max(s.DepthMultiplier, 1)
	if z := s.ZeroPoint; z != nil && *z != 0 && *z != 8 {
		return invalid("zero_point %d of 4-bit weights is neither 8 (stored unsigned) nor 0 (signed)", *z)
	}
	for name, q := range map[string]*Scale{"input": s.Input, "output": s.Output} {
		if q != nil && (!validScale(q.Scale) || q.ZeroPoint < -128 || q.ZeroPoint > 127) {
			return invalid("%s: the scale must be a positive normal number, the zero point from -128 to 127", name)
		}
	}
	return s.readActivation()
}

func (s *step) readActivation() error {
	inf := float32(math.Inf(1))
	s.limits = xnnpack.Range{Min: -inf, Max: inf}
	if s.Activation == nil {
		return nil
	}
	if len(s.Activation) != 2 {
		return invalid("activation has %d numbers, not [least, greatest]", len(s.Activation))
	}
	if v := s.Activation[0]; v != nil {
		s.limits.Min = *v
	}
	if v := s.Activation[1]; v != nil {
		s.limits.Max = *v
	}
	if !(s.limits.Min < s.limits.Max) {
		return invalid("activation: %v is not less than %v", s.limits.Min, s.limits.Max)
	}
	return nil
}

func validScale(v float32) bool { return v >= 0x1p-126 && v <= math.MaxFloat32 }

// find returns a tensor that must be there, of a type.
func find(tensors Tensors, role, name string, dtype safetensors.Dtype) (safetensors.Tensor, error) {
	t, ok := tensors.Lookup(name)
	switch {
	case !ok:
		return t, invalid("%s: there is no tensor %q", role, name)
	case t.Dtype == "":
		return t, invalid("%s %q has no type and shape in the file", role, name)
	case t.Dtype != dtype:
		return t, invalid("%s %q is of %s, not %s", role, name, t.Dtype, dtype)
	}
	if _, ok := product(t.Shape...); !ok {
		return t, invalid("%s %q of shape %v is empty or has more than %d elements", role, name, t.Shape, maxElements)
	}
	return t, nil
}

// readTensors finds the tensors and checks their shapes against each other.
func (s *step) readTensors(tensors Tensors) error {
	w, err := find(tensors, "weights", s.Weights, stored[s.weights])
	if err != nil {
		return err
	}
	s.size = int64(len(w.Data))
	rank, out := 4, 0
	switch s.Op {
	case fullyConnected:
		rank = 2
	case depthwise:
		out = 3
	}
	if len(w.Shape) != rank {
		return invalid("weights %q have shape %v, and %s takes %d dimensions", s.Weights, w.Shape, s.Op, rank)
	}
	if s.Transposed {
		out = 1
	}
	if s.fourBit() {
		w.Shape[rank-1] *= 2
	}
	s.filter = xnnpack.Tensor{Name: s.Weights, Type: s.weights, Shape: w.Shape,
		Quantization: xnnpack.Quantization{ChannelDim: out}}
	channels := w.Shape[out]
	if s.Bias != "" {
		b, err := find(tensors, "bias", s.Bias, stored[s.datatype.bias])
		if err != nil {
			return err
		}
		if !slices.Equal(b.Shape, []int{channels}) {
			return invalid("bias %q has shape %v, not [%d]", s.Bias, b.Shape, channels)
		}
		if s.Bias == s.Weights {
			return invalid("%q is both weights and bias", s.Bias)
		}
		s.hasBias, s.size = true, s.size+int64(len(b.Data))
		s.bias = xnnpack.Tensor{Name: s.Bias, Type: s.datatype.bias, Shape: b.Shape}
	}
	return s.readScales(tensors, channels)
}

func (s *step) readScales(tensors Tensors, channels int) error {
	q := &s.filter.Quantization
	if s.ZeroPoint != nil {
		q.ZeroPoint = *s.ZeroPoint
	}
	dtype := storedScales[s.weights]
	if dtype == "" {
		return nil
	}
	t, err := find(tensors, "scales", s.Scales, dtype)
	if err != nil {
		return err
	}
	want, per := channels, "channel"
	if s.weights == xnnpack.BlockQInt4 {
		in := s.filter.Shape[1]
		if s.BlockSize%xnnpack.MinBlockSize != 0 || in%s.BlockSize != 0 {
			return invalid("block_size %d must be a multiple of %d and divide %d",
				s.BlockSize, xnnpack.MinBlockSize, in)
		}
		want, per = channels*(in/s.BlockSize), "block"
	}
	n := len(t.Data) / (t.Dtype.Bits() / 8)
	if n != want {
		return invalid("scales %q have %d elements, not one for each %s: %d", s.Scales, n, per, want)
	}
	if dtype == safetensors.BF16 {
		q.BlockSize, q.BlockScales = s.BlockSize, make([]uint16, n)
	} else {
		q.Scales = make([]float32, n)
	}
	for i := range n {
		var scale float32
		if dtype == safetensors.BF16 {
			q.BlockScales[i] = binary.LittleEndian.Uint16(t.Data[2*i:])
			scale = math.Float32frombits(uint32(q.BlockScales[i]) << 16)
		} else {
			scale = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
			q.Scales[i] = scale
		}
		if !validScale(scale) {
			return invalid("scales %q: that of %s %d is not a positive normal number", s.Scales, per, i)
		}
	}
	return nil
}

// quantize says how input, output and bias are quantised.
func (s *step) quantize() {
	s.input.Type, s.output.Type = s.datatype.input, s.datatype.output
	if s.dynamic() {
		s.input.Quantization.NonBatchDims = len(s.input.Shape) - 1
	}
	if s.Input != nil {
		s.input.Quantization = xnnpack.Quantization{Scale: s.Input.Scale, ZeroPoint: s.Input.ZeroPoint}
		s.output.Quantization = xnnpack.Quantization{Scale: s.Output.Scale, ZeroPoint: s.Output.ZeroPoint}
	}
	if s.bias.Type == xnnpack.ChannelQInt32 {
		scales := make([]float32, len(s.filter.Quantization.Scales))
		for i, w := range s.filter.Quantization.Scales {
			scales[i] = max(w*s.Input.Scale, 0x1p-126)
		}
		s.bias.Quantization.Scales = scales
	}
}

// shapeImages gives the operator an input and an output: one row, or the smallest image that the window fits. The
// weights are packed for images of any size.
func (s *step) shapeImages() error {
	f := s.filter.Shape
	if s.Op == fullyConnected {
		in, out := f[1], f[0]
		if s.Transposed {
			in, out = out, in
		}
		s.input.Shape, s.output.Shape = []int{1, in}, []int{1, out}
		return nil
	}
	in, out := f[3]*s.Groups, f[0]
	if s.Op == depthwise {
		if f[0] != 1 || f[3]%s.DepthMultiplier != 0 {
			return invalid("weights %q of shape %v are not [1, height, width, a multiple of %d]", s.Weights, f,
				s.DepthMultiplier)
		}
		in, out = f[3]/s.DepthMultiplier, f[3]
	} else if f[0]%s.Groups != 0 {
		return invalid("%d output channels do not make %d groups", f[0], s.Groups)
	}
	// Of groups of one channel XNNPACK makes a depthwise convolution.
	s.blind = s.Op == depthwise || s.Op == deconvolution || s.Groups > 1 && f[3] == 1
	height, outHeight := s.extent(f[1], s.stride.Height, s.dilation.Height, s.padding.Top+s.padding.Bottom,
		s.adjustment.Height)
	width, outWidth := s.extent(f[2], s.stride.Width, s.dilation.Width, s.padding.Left+s.padding.Right,
		s.adjustment.Width)
	s.input.Shape, s.output.Shape = []int{1, height, width, in}, []int{1, outHeight, outWidth, out}
	// Nobody wants an image of a window that reaches this far; XNNPACK counts its bytes and its pointers to pixels
	// without a check for overflow.
	for _, factors := range [][]int{
		s.input.Shape, s.output.Shape, {outHeight, outWidth, f[1], f[2]}, {s.stride.Height, s.stride.Width, f[1], f[2]},
	} {
		if n, ok := product(factors...); !ok || n > maxElements/8 {
			return invalid("a window of %v with stride %v and dilation %v is too large", f[1:3], s.stride, s.dilation)
		}
	}
	return nil
}

// extent returns the smallest input of a window in one dimension, and the output it makes.
func (s *step) extent(window, stride, dilation, padding, adjustment int) (in, out int) {
	reach := (window-1)*dilation + 1
	if s.Op == deconvolution {
		more := max(0, 1-(adjustment+reach-padding)) // inputs that the output's first pixel needs
		in = 1 + (more+stride-1)/stride
		return in, stride*(in-1) + adjustment + reach - padding
	}
	if s.SamePadding {
		return reach, (reach + stride - 1) / stride
	}
	in = max(1, reach-padding)
	return in, (in+padding-reach)/stride + 1
}

// product multiplies positive numbers, and reports whether they are and their product is no more than maxElements.
func product(factors ...int) (int, bool) {
	n := 1
	for _, f := range factors {
		if f <= 0 || f > maxElements/n {
			return 0, false
		}
		n *= f
	}
	return n, true
}

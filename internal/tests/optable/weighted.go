package optable

import (
	"cmp"
	"fmt"

	"xpwc/internal/fault"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// scheme is a combination of datatypes.
type scheme struct {
	name                  string
	in, kernel, bias, out xnnpack.Datatype
	dynamic               bool  // the input is quantised at inference
	zero                  int32 // of a 4-bit kernel
	block                 int   // size, of a blockwise kernel
	notTransposed         bool  // there is no kernel for transposed weights, or it is not accepted
	scaledBias            bool  // the bias is multiplied by the kernel's scales too
}

// float is a scheme of one type.
func float(name string, kind xnnpack.Datatype) scheme {
	return scheme{name: name, in: kind, kernel: kind, bias: kind, out: kind}
}

// mixed has a kernel of another type than its input and output, and a float32 bias.
func mixed(name string, kind, kernel xnnpack.Datatype) scheme {
	return scheme{name: name, in: kind, kernel: kernel, bias: xnnpack.Float32, out: kind}
}

// quantised is mixed with a dynamically quantised input. zero is that of a 4-bit kernel.
func quantised(name string, kind, kernel xnnpack.Datatype, zero int32) scheme {
	s := mixed(name, kind, kernel)
	s.dynamic, s.zero = true, zero
	if kernel == xnnpack.BlockQInt4 {
		s.block, s.notTransposed = 32, true
	}
	return s
}

var (
	f32    = float("f32", xnnpack.Float32)
	f16    = float("f16", xnnpack.Float16)
	f16f32 = mixed("f16-f32w", xnnpack.Float16, xnnpack.Float32)
	qs8    = scheme{name: "qs8", in: xnnpack.QInt8, kernel: xnnpack.QInt8, bias: xnnpack.QInt32, out: xnnpack.QInt8}
	qu8    = scheme{name: "qu8", in: xnnpack.QUint8, kernel: xnnpack.QUint8, bias: xnnpack.QInt32, out: xnnpack.QUint8}
	qc8    = scheme{name: "qs8-qc8w", in: xnnpack.QInt8, kernel: xnnpack.ChannelQInt8, bias: xnnpack.ChannelQInt32,
		out: xnnpack.QInt8}

	qd8f32qc8w = quantised("qd8-f32-qc8w", xnnpack.Float32, xnnpack.ChannelQInt8, 0)
	qd8f16qc8w = quantised("qd8-f16-qc8w", xnnpack.Float16, xnnpack.ChannelQInt8, 0)
	qd8f32qc4w = quantised("qd8-f32-qc4w", xnnpack.Float32, xnnpack.ChannelQInt4, 8)
	qd8f32qs4w = quantised("qd8-f32-qc4w-signed", xnnpack.Float32, xnnpack.ChannelQInt4, 0)
	qd8f16qc4w = quantised("qd8-f16-qc4w", xnnpack.Float16, xnnpack.ChannelQInt4, 8)
	qd8f32qb4w = quantised("qd8-f32-qb4w", xnnpack.Float32, xnnpack.BlockQInt4, 8)
	qd8f16qb4w = quantised("qd8-f16-qb4w", xnnpack.Float16, xnnpack.BlockQInt4, 8)
	f32qc8w    = scheme{name: "f32-qc8w", in: xnnpack.Float32, kernel: xnnpack.ChannelQInt8, bias: xnnpack.Float32,
		out: xnnpack.Float32, scaledBias: true}
	f32qc4w = scheme{name: "f32-qc4w", in: xnnpack.Float32, kernel: xnnpack.ChannelQInt4, bias: xnnpack.Float32,
		out: xnnpack.Float32, zero: 8, scaledBias: true, notTransposed: true}
)

type fcShape struct {
	suffix     string
	batch      int
	in, out    int
	biases     int
	transposed bool
	activation xnnpack.Range
}

func fullyConnected() []Case {
	// Two or three rows are left out: this XNNPACK pads dynamic quantisation parameters by 10 rows, too few for its
	// blockwise kernel of 14, which then spoils the last row.
	shapes := []fcShape{
		{suffix: "", batch: 5, in: 37, out: 43, biases: 43},
		{suffix: "-no-bias", batch: 6, in: 40, out: 19},
		{suffix: "-transposed", batch: 4, in: 24, out: 38, biases: 38, transposed: true},
		{suffix: "-relu", batch: 1, in: 23, out: 50, biases: 50, activation: xnnpack.Range{Min: 0, Max: 2}},
	}
	// The shape in which two packings share a seed, for the datatypes where they do.
	collision := fcShape{suffix: "-64x48", batch: 4, in: 48, out: 64, biases: 64}
	schemes := []scheme{f32, f16, f16f32, qs8, qu8, qc8, qd8f32qc8w, qd8f16qc8w, qd8f32qc4w, qd8f32qs4w, qd8f16qc4w,
		qd8f32qb4w, qd8f16qb4w,
		f32qc8w, f32qc4w}
	var cases []Case
	for _, s := range schemes {
		list := shapes
		if s.name == qc8.name || s.name == qd8f32qc4w.name {
			list = append(list[:len(list):len(list)], collision)
		}
		for _, shape := range list {
			if shape.transposed && s.notTransposed {
				continue
			}
			if s.block > 0 { // an odd number of blocks is misaligned for the SSE kernels of this XNNPACK
				shape.in = 4 * s.block
			} else if s.kernel == xnnpack.ChannelQInt4 {
				shape.in += shape.in % 2
			}
			cases = append(cases, Case{Name: "fully-connected-" + s.name + shape.suffix, Announced: true, Packs: 1,
				define: func(b *builder) { b.fullyConnected(s, shape) }})
		}
	}
	return cases
}

func (b *builder) fullyConnected(s scheme, f fcShape) {
	l := layer{scheme: s, in: []int{f.batch, f.in}, together: 1, shape: []int{f.out, f.in}, biases: f.biases,
		out: []int{f.batch, f.out}}
	if f.transposed {
		l.shape, l.channel = []int{f.in, f.out}, 1
	}
	l.node = xnnpack.FullyConnected{Input: inputOf, Filter: kernelOf, Bias: biasOf, Output: outputOf,
		Activation: f.activation, TransposeWeights: f.transposed}
	b.layer(l)
}

// A convShape is the shape of a convolution of any kind.
type convShape struct {
	suffix      string
	in          [4]int
	kernel      [4]int // [out, height, width, in a group], of a depthwise convolution [1, height, width, out]
	noBias      bool
	geometry    window
	samePadding bool
	limits      xnnpack.Range
	adjustment  xnnpack.Size // of a deconvolution
}

// window is the geometry of a convolution. What is zero stands for 1, but padding.
type window struct {
	padding          xnnpack.Padding
	stride, dilation xnnpack.Size
	groups           int
}

// filledIn has no more zeros that stand for 1.
func (w window) filledIn() window {
	unit := xnnpack.Size{Height: 1, Width: 1}
	return window{w.padding, cmp.Or(w.stride, unit), cmp.Or(w.dilation, unit), max(w.groups, 1)}
}

// casesOf returns the cases like one of all schemes in all shapes.
func casesOf(
	base Case, schemes []scheme, shapes []convShape, define func(convShape, scheme) layer,
) (cases []Case) {
	for _, s := range schemes {
		for _, shape := range shapes {
			c := base
			c.Name += s.name + shape.suffix
			c.define = func(b *builder) { b.layer(define(shape, s)) }
			cases = append(cases, c)
		}
	}
	return cases
}

var (
	pad1 = xnnpack.Padding{Top: 1, Right: 1, Bottom: 1, Left: 1}
	two  = xnnpack.Size{Height: 2, Width: 2}
)

func convolutions() []Case {
	return casesOf(Case{Name: "convolution-", Announced: true, Packs: 1},
		[]scheme{f32, f16f32, qs8, qu8, qc8, qd8f32qc8w, qd8f16qc8w}, []convShape{
			{suffix: "-1x1", in: [4]int{2, 3, 5, 19}, kernel: [4]int{21, 1, 1, 19}},
			{suffix: "-3x3", in: [4]int{1, 6, 7, 11}, kernel: [4]int{18, 3, 3, 11}, geometry: window{padding: pad1}},
			{suffix: "-3x3-no-bias", in: [4]int{1, 5, 5, 8}, kernel: [4]int{9, 3, 3, 8}, noBias: true},
			{suffix: "-3x3-stride-2-same", in: [4]int{1, 7, 9, 5}, kernel: [4]int{17, 3, 3, 5}, samePadding: true,
				geometry: window{padding: pad1, stride: two}},
			{suffix: "-3x3-dilation-2", in: [4]int{1, 8, 8, 6}, kernel: [4]int{10, 3, 3, 6},
				geometry: window{dilation: two}},
			{suffix: "-groups-3-relu", in: [4]int{1, 5, 6, 12}, kernel: [4]int{27, 3, 3, 4},
				geometry: window{padding: pad1, groups: 3}, limits: xnnpack.Range{Min: 0, Max: 6}},
			{suffix: "-1x1-groups-2", in: [4]int{1, 4, 4, 14}, kernel: [4]int{22, 1, 1, 7},
				geometry: window{groups: 2}},
		}, convShape.convolution)
}

// layer is what the convolutions have in common, one whose output has so many channels.
func (f convShape) layer(s scheme, channels int) layer {
	l := layer{scheme: s, in: f.in[:], together: 3, shape: f.kernel[:]}
	if !f.noBias {
		l.biases = channels
	}
	g := f.geometry.filledIn()
	l.out = []int{f.in[0],
		(f.in[1]+g.padding.Top+g.padding.Bottom-(f.kernel[1]-1)*g.dilation.Height-1)/g.stride.Height + 1,
		(f.in[2]+g.padding.Left+g.padding.Right-(f.kernel[2]-1)*g.dilation.Width-1)/g.stride.Width + 1, channels}
	return l
}

func (f convShape) convolution(s scheme) layer {
	l, g := f.layer(s, f.kernel[0]), f.geometry
	n := xnnpack.Convolution2D{Input: inputOf, Filter: kernelOf, Bias: biasOf, Output: outputOf, Padding: g.padding,
		SamePadding: f.samePadding, Stride: g.stride, Dilation: g.dilation, Groups: g.groups, Activation: f.limits}
	if f.samePadding {
		n.Padding = xnnpack.Padding{}
	}
	l.node = n
	return l
}

// XNNPACK's subgraph of November 2024 gives its weights cache to depthwise convolutions in NCHW only, later ones to
// all.
func depthwise() []Case {
	wide := xnnpack.Padding{Top: 2, Right: 2, Bottom: 2, Left: 2}
	return casesOf(Case{Name: "depthwise-", Packs: Varies}, []scheme{f32, f16f32, qs8, qu8, qc8}, []convShape{
		{suffix: "-3x3", in: [4]int{1, 6, 7, 21}, kernel: [4]int{1, 3, 3, 21}, geometry: window{padding: pad1}},
		{suffix: "-3x3-no-bias", in: [4]int{1, 5, 5, 40}, kernel: [4]int{1, 3, 3, 40}, noBias: true},
		{suffix: "-5x5", in: [4]int{1, 8, 7, 35}, kernel: [4]int{1, 5, 5, 35},
			geometry: window{padding: wide, stride: two}},
		{suffix: "-1x1", in: [4]int{1, 4, 5, 19}, kernel: [4]int{1, 1, 1, 19}},
		{suffix: "-7x7", in: [4]int{1, 9, 8, 18}, kernel: [4]int{1, 7, 7, 18}},
		{suffix: "-3x3-multiplier-2", in: [4]int{1, 5, 6, 9}, kernel: [4]int{1, 3, 3, 18},
			geometry: window{padding: pad1}},
	}, convShape.depthwise)
}

func (f convShape) depthwise(s scheme) layer {
	l, g := f.layer(s, f.kernel[3]), f.geometry
	l.channel, l.mode = 3, atCreation
	l.node = xnnpack.DepthwiseConvolution2D{Input: inputOf, Filter: kernelOf, Bias: biasOf, Output: outputOf,
		Padding: g.padding, Stride: g.stride, Dilation: g.dilation, DepthMultiplier: f.kernel[3] / f.in[3]}
	return l
}

func deconvolutions() []Case {
	schemes := []scheme{f32, f16f32, qs8, qu8, qc8, qd8f32qc8w}
	return casesOf(Case{Name: "deconvolution-", Packs: 1}, schemes, []convShape{
		{suffix: "-3x3", in: [4]int{1, 4, 5, 7}, kernel: [4]int{18, 3, 3, 7}},
		{suffix: "-2x2-stride-2", in: [4]int{1, 4, 3, 9}, kernel: [4]int{11, 2, 2, 9}, geometry: window{stride: two}},
		{suffix: "-3x3-stride-2", in: [4]int{1, 3, 4, 6}, kernel: [4]int{13, 3, 3, 6},
			adjustment: xnnpack.Size{Height: 1, Width: 1}, geometry: window{stride: two, padding: pad1}},
		{suffix: "-3x3-no-bias", in: [4]int{1, 3, 3, 5}, kernel: [4]int{8, 3, 3, 5}, noBias: true},
		{suffix: "-groups-2", in: [4]int{1, 3, 4, 8}, kernel: [4]int{14, 3, 3, 4},
			geometry: window{groups: 2, stride: two}},
		{suffix: "-3x3-dilation-2", in: [4]int{1, 4, 4, 6}, kernel: [4]int{7, 3, 3, 6},
			geometry: window{dilation: two}},
	}, convShape.deconvolution)
}

func (f convShape) deconvolution(s scheme) layer {
	l, g := f.layer(s, f.kernel[0]), f.geometry
	l.mode = atCreation
	l.node = xnnpack.Deconvolution2D{Input: inputOf, Filter: kernelOf, Bias: biasOf, Output: outputOf,
		Padding: g.padding, Adjustment: f.adjustment, Stride: g.stride, Dilation: g.dilation, Groups: g.groups}
	g = g.filledIn()
	l.out[1] = (f.in[1]-1)*g.stride.Height + f.adjustment.Height + (f.kernel[1]-1)*g.dilation.Height + 1 -
		g.padding.Top - g.padding.Bottom
	l.out[2] = (f.in[2]-1)*g.stride.Width + f.adjustment.Width + (f.kernel[2]-1)*g.dilation.Width + 1 -
		g.padding.Left - g.padding.Right
	return l
}

// This XNNPACK's subgraph does not give its weights cache to batch matrix multiplications.
func matrixMultiplications() []Case {
	var cases []Case
	for _, s := range []scheme{f32, f16, qd8f32qc8w} {
		for _, transposed := range []bool{false, true} {
			for _, batch := range []int{1, 3} {
				name := fmt.Sprintf("batch-matrix-multiply-%s-batch-%d", s.name, batch)
				if transposed {
					name += "-transposed"
				}
				cases = append(cases,
					Case{Name: name, define: func(b *builder) { b.matrixMultiply(s, batch, transposed) }})
			}
		}
	}
	return cases
}

func (b *builder) matrixMultiply(s scheme, batch int, transposed bool) {
	const m, k, n = 5, 21, 34
	l := layer{scheme: s, in: []int{batch, m, k}, together: 1, shape: []int{batch, k, n}, channel: 2,
		out: []int{batch, m, n}, mode: atCreation}
	if transposed {
		l.shape, l.channel = []int{batch, n, k}, 1
	}
	if s.kernel == xnnpack.Float16 {
		l.mode = atInference
	}
	l.node = xnnpack.BatchMatrixMultiply{A: inputOf, B: kernelOf, Output: outputOf, TransposeB: transposed}
	b.layer(l)
}

func prelus() []Case {
	var cases []Case
	for _, s := range []scheme{f32, f16} {
		cases = append(cases, Case{Name: "prelu-" + s.name, define: func(b *builder) {
			b.defineInput(b.activation(s.in, 2, 3, 5, 23))
			slope := b.float("slope", s.kernel, 23)
			b.defineOutput(s.out, b.input.Shape, 1)
			id := b.static(slope, atInference, packing.Identity{})
			fault.Check(b.g.Add(xnnpack.Binary{Op: xnnpack.PReLUOperator, A: inputID, B: id, Output: outputID}))
			b.layers = []layer{{kernel: slope, out: b.input.Shape}}
		}})
	}
	return cases
}

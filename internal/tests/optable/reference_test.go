package optable

import (
	"encoding/binary"
	"fmt"
	"math"

	"xpwc/internal/half"
	"xpwc/xnnpack"
)

// RunChecked is Run, and compares the output with a plain computation in double precision. The tolerance follows from
// the datatypes: one step of a quantised output, the rounding of dynamically quantised inputs, the precision of floats.
func (c Case) RunChecked(cache xnnpack.WeightsCache, place Place, afterCreate func() error) ([]byte, error) {
	b, err := c.run(cache, place, afterCreate)
	if err != nil {
		return nil, err
	}
	want := b.expected()
	low, high := limitsOf(&b.output)
	for i, got := range b.output.decode() {
		real, tolerance := min(max(want.real[i], low), high), want.weight[i]
		switch b.output.Type {
		case xnnpack.Float32:
			tolerance += 1e-5*want.magnitude[i] + 1e-6
		case xnnpack.Float16: // some kernels add up in half precision
			tolerance += 1e-2*want.magnitude[i] + 1e-3
		default:
			tolerance += 1.01 * float64(b.output.Quantization.Scale)
		}
		if !(math.Abs(got-real) <= tolerance) {
			return nil, fmt.Errorf("element %d is %g, want %g ± %.2g", i, got, real, tolerance)
		}
	}
	return b.output.content, nil
}

// limitsOf returns the least and the greatest number that a tensor can hold.
func limitsOf(t *tensor) (low, high float64) {
	switch zero, scale := float64(t.Quantization.ZeroPoint), float64(t.Quantization.Scale); t.Type {
	case xnnpack.QInt8:
		return (-128 - zero) * scale, (127 - zero) * scale
	case xnnpack.QUint8:
		return -zero * scale, (255 - zero) * scale
	}
	return math.Inf(-1), math.Inf(1)
}

// expected is what the case must compute.
func (b *builder) expected() *result {
	x := image{shape: b.input.Shape, real: b.input.decode()}
	var r *result
	for _, l := range b.layers {
		x.errors = make([]float64, len(x.real))
		if l.dynamic {
			x.errors = dynamicError(x.real, xnnpack.Elements(l.in[len(l.in)-l.together:]))
		}
		r = l.compute(x, image{shape: l.kernel.Shape, real: l.kernel.decode()})
		x = image{shape: r.shape, real: r.real}
	}
	if !b.mean {
		return r
	}
	mean := newResult(b.output.Shape...)
	channels := len(mean.real)
	for i, v := range r.real {
		mean.add(i%channels, v, float64(channels)/float64(len(r.real)), 0)
	}
	for i := range mean.magnitude {
		mean.magnitude[i] += 10 // the layers' own roundings
	}
	return mean
}

// compute is what a layer computes of its input.
func (l *layer) compute(x, kernel image) *result {
	r := newResult(l.out...)
	var limits xnnpack.Range
	switch n := l.node.(type) {
	case nil: // PReLU
		for i, v := range x.real {
			slope := 1.0
			if v < 0 {
				slope = kernel.real[i%len(kernel.real)]
			}
			r.add(i, v, slope, 0)
		}
		return r
	case xnnpack.FullyConnected:
		limits = n.Activation
		r.multiply(x, kernel, 1, n.TransposeWeights)
	case xnnpack.BatchMatrixMultiply:
		r.multiply(x, kernel, x.shape[0], !n.TransposeB)
	case xnnpack.Convolution2D:
		limits = n.Activation
		r.convolve(x, kernel, windowOf(n))
	case xnnpack.DepthwiseConvolution2D:
		g := windowOf(n)
		g.groups = x.shape[3]
		r.convolve(x, grouped(kernel), g)
	case xnnpack.Deconvolution2D:
		limits = n.Activation
		g := windowOf(n)
		add := r.adder(x, kernel, g)
		slide(x.shape, r.shape, kernel.shape, g, func(in, out, channel, addend int) { add(out, in, channel, addend) })
	}
	if len(l.bias.content) > 0 {
		bias := l.bias.decode()
		if l.scaledBias {
			for i := range bias {
				bias[i] *= float64(l.kernel.Quantization.Scales[i])
			}
		}
		r.addBias(bias)
	}
	r.clamp(limits)
	return r
}

// result is the output that an operator must compute, with the effect of an error of the inputs and of each rounding.
type result struct {
	shape     []int
	real      []float64
	magnitude []float64 // the sum of the absolute values added up
	weight    []float64 // the sum of the kernel's absolute values, each times the rounding error of its input
}

func newResult(shape ...int) *result {
	n := xnnpack.Elements(shape)
	return &result{shape, make([]float64, n), make([]float64, n), make([]float64, n)}
}

func (r *result) add(offset int, x, w, xError float64) {
	r.real[offset] += x * w
	r.magnitude[offset] += math.Abs(x * w)
	r.weight[offset] += math.Abs(w) * xError
}

func (r *result) addBias(bias []float64) {
	for i := range r.real {
		r.add(i, 1, bias[i%len(bias)], 0)
	}
}

func (r *result) clamp(limits xnnpack.Range) {
	if limits == (xnnpack.Range{}) {
		return
	}
	for i, v := range r.real {
		r.real[i] = min(max(v, float64(limits.Min)), float64(limits.Max))
	}
}

// dynamicError is half a step of the quantisation that each row of perRow elements gets at inference.
func dynamicError(x []float64, perRow int) []float64 {
	e := make([]float64, len(x))
	for row := 0; row < len(x); row += perRow {
		lo, hi := 0.0, 0.0
		for _, v := range x[row : row+perRow] {
			lo, hi = min(lo, v), max(hi, v)
		}
		for i := range perRow {
			e[row+i] = (hi - lo) / 255 * 0.55 // the zero point is rounded too
		}
	}
	return e
}

// windowOf returns the geometry of a convolution.
func windowOf(n xnnpack.Node) window {
	var w window
	switch n := n.(type) {
	case xnnpack.Convolution2D:
		w = window{n.Padding, n.Stride, n.Dilation, n.Groups}
		if n.SamePadding {
			w.padding = pad1 // in the one shape that there is
		}
	case xnnpack.DepthwiseConvolution2D:
		w = window{n.Padding, n.Stride, n.Dilation, 0}
	case xnnpack.Deconvolution2D:
		w = window{n.Padding, n.Stride, n.Dilation, n.Groups}
	}
	return w.filledIn()
}

// An image, or a kernel, has real numbers, and how wrong each may be.
type image struct {
	shape        []int
	real, errors []float64
}

// adder returns what adds, to an output channel of a pixel, a pixel of the input times the kernel's numbers for both.
func (r *result) adder(x, k image, g window) func(out, in, channel, addend int) {
	outputs, inputs := k.shape[0], k.shape[3]
	return func(out, in, channel, addend int) {
		src := in*x.shape[3] + channel/(outputs/g.groups)*inputs
		for d := range inputs {
			r.add(out*outputs+channel, x.real[src+d], k.real[addend+d], x.errors[src+d])
		}
	}
}

// slide moves a window over images of the shape under, a stride for each pixel of the shape over. It calls do with each
// pair of pixels, an output channel, and where in the kernel the numbers for all of them are.
func slide(outer, inner, ks []int, g window, do func(outer, inner, channel, kernel int)) {
	for offset := range xnnpack.Elements(outer[:3]) {
		n, y, z := offset/outer[2]/outer[1], offset/outer[2]%outer[1], offset%outer[2]
		for c := range ks[0] {
			for i := range ks[1] {
				for j := range ks[2] {
					uy := y*g.stride.Height + i*g.dilation.Height - g.padding.Top
					uz := z*g.stride.Width + j*g.dilation.Width - g.padding.Left
					if 0 <= uy && uy < inner[1] && 0 <= uz && uz < inner[2] {
						do(offset, (n*inner[1]+uy)*inner[2]+uz, c, ((c*ks[1]+i)*ks[2]+j)*ks[3])
					}
				}
			}
		}
	}
}

// convolve convolves images of shape [n, h, w, groups*gic] with a kernel [oc, kh, kw, gic].
func (r *result) convolve(x, k image, g window) {
	slide(r.shape, x.shape, k.shape, g, r.adder(x, k, g))
}

// grouped turns a depthwise kernel [1, h, w, channels] into that of the grouped convolution that does the same:
// [channels, h, w, 1].
func grouped(kernel image) image {
	h, w, channels := kernel.shape[1], kernel.shape[2], kernel.shape[3]
	return image{shape: []int{channels, h, w, 1}, real: transposed(kernel.real, h*w, channels)}
}

// multiply multiplies so many matrices x [m, k] with [n, k], or with [k, n] that are turned first.
func (r *result) multiply(x, factor image, batch int, turned bool) {
	n := r.shape[len(r.shape)-1]
	m, k := len(r.real)/batch/n, x.shape[len(x.shape)-1]
	if turned {
		factor.real = transposed(factor.real, k, n)
	}
	for i := range r.real {
		row, column := i/n*k, (i/n/m*n+i%n)*k
		for l := range k {
			r.add(i, x.real[row+l], factor.real[column+l], x.errors[row+l])
		}
	}
}

// transposed exchanges the last two dimensions of matrices with so many rows and columns.
func transposed(subject []float64, rows, columns int) []float64 {
	t := make([]float64, len(subject))
	for i, v := range subject {
		matrix, offset := i/(rows*columns)*(rows*columns), i%(rows*columns)
		t[matrix+offset%columns*rows+offset/columns] = v
	}
	return t
}

// channelOf is the index along dimension dim of the element at flat index i.
func channelOf(shape []int, dim, i int) int {
	return i / xnnpack.Elements(shape[dim+1:]) % shape[dim]
}

// scaleOf is the factor of element i.
func (t *tensor) scaleOf(i int) float64 {
	q := &t.Quantization
	switch t.Type {
	case xnnpack.ChannelQInt8, xnnpack.ChannelQInt32, xnnpack.ChannelQInt4:
		channels := t.Shape[q.ChannelDim]
		batch := 0
		if len(q.Scales) > channels { // of a batch matrix multiplication's factor
			batch = i / xnnpack.Elements(t.Shape[1:])
		}
		return float64(q.Scales[batch*channels+channelOf(t.Shape, q.ChannelDim, i)])
	case xnnpack.BlockQInt4:
		along := t.Shape[1]
		block := i/along*(along/q.BlockSize) + i%along/q.BlockSize
		return float64(math.Float32frombits(uint32(q.BlockScales[block]) << 16))
	case xnnpack.QInt8, xnnpack.QUint8, xnnpack.QInt32:
		return float64(q.Scale)
	}
	return 1
}

// decode turns the stored content into real numbers.
func (t *tensor) decode() []float64 {
	b := t.content
	real := make([]float64, xnnpack.Elements(t.Shape))
	for i := range real {
		zero := float64(t.Quantization.ZeroPoint)
		switch t.Type {
		case xnnpack.Float32:
			real[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
		case xnnpack.Float16:
			real[i] = half.Float64(binary.LittleEndian.Uint16(b[2*i:]))
		case xnnpack.QInt8, xnnpack.ChannelQInt8:
			real[i] = (float64(int8(b[i])) - zero) * t.scaleOf(i)
		case xnnpack.QUint8:
			real[i] = (float64(b[i]) - zero) * t.scaleOf(i)
		case xnnpack.QInt32, xnnpack.ChannelQInt32:
			real[i] = float64(int32(binary.LittleEndian.Uint32(b[4*i:]))) * t.scaleOf(i)
		case xnnpack.ChannelQInt4, xnnpack.BlockQInt4:
			row := t.Shape[len(t.Shape)-1]
			nibble := b[i/row*((row+1)/2)+i%row/2] >> (4 * (i % row % 2)) & 0xf
			v := float64(nibble) - zero
			if zero == 0 && nibble > 7 {
				v -= 16
			}
			real[i] = v * t.scaleOf(i)
		}
	}
	return real
}

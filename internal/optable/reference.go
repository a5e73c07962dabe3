package optable

import (
	"math"

	"xpwc/xnnpack"
)

// result is what an operator must compute, with what an error of the inputs and of each rounding amounts to.
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

func (r *result) add(at int, x, w, xError float64) {
	r.real[at] += x * w
	r.magnitude[at] += math.Abs(x * w)
	r.weight[at] += math.Abs(w) * xError
}

func (r *result) addBias(bias *tensor) {
	channels := len(bias.real)
	for i := range r.real {
		r.add(i, 1, bias.real[i%channels], 0)
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

// window is the geometry of a convolution.
type window struct {
	padding          xnnpack.Padding
	stride, dilation xnnpack.Size
	groups           int
}

func (w *window) fillIn() {
	one := xnnpack.Size{Height: 1, Width: 1}
	if w.stride == (xnnpack.Size{}) {
		w.stride = one
	}
	if w.dilation == (xnnpack.Size{}) {
		w.dilation = one
	}
	w.groups = max(w.groups, 1)
}

// An image, or a kernel, has real numbers, and how wrong each may be.
type image struct {
	shape        []int
	real, errors []float64
}

// convolve convolves images of shape [n, h, w, groups*gic] with a kernel [oc, kh, kw, gic].
func convolve(x, k image, g window) *result {
	g.fillIn()
	oh := (x.shape[1]+g.padding.Top+g.padding.Bottom-(k.shape[1]-1)*g.dilation.Height-1)/g.stride.Height + 1
	ow := (x.shape[2]+g.padding.Left+g.padding.Right-(k.shape[2]-1)*g.dilation.Width-1)/g.stride.Width + 1
	r := newResult(x.shape[0], oh, ow, k.shape[0])
	slide(r.shape, x.shape, k.shape, g, r.adder(x, k, g))
	return r
}

// deconvolve is the transpose of convolve in x: kernel [oc, kh, kw, gic].
func deconvolve(x, k image, g window, adjustment xnnpack.Size) *result {
	g.fillIn()
	oh := (x.shape[1]-1)*g.stride.Height + adjustment.Height + (k.shape[1]-1)*g.dilation.Height + 1 -
		g.padding.Top - g.padding.Bottom
	ow := (x.shape[2]-1)*g.stride.Width + adjustment.Width + (k.shape[2]-1)*g.dilation.Width + 1 -
		g.padding.Left - g.padding.Right
	r := newResult(x.shape[0], oh, ow, k.shape[0])
	add := r.adder(x, k, g)
	slide(x.shape, r.shape, k.shape, g, func(in, out, channel, with int) { add(out, in, channel, with) })
	return r
}

// adder returns what adds, to an output channel of a pixel, a pixel of the input times the kernel's numbers for both.
func (r *result) adder(x, k image, g window) func(out, in, channel, with int) {
	outputs, inputs := k.shape[0], k.shape[3]
	return func(out, in, channel, with int) {
		from := in*x.shape[3] + channel/(outputs/g.groups)*inputs
		for d := range inputs {
			r.add(out*outputs+channel, x.real[from+d], k.real[with+d], x.errors[from+d])
		}
	}
}

// slide moves a window over images of the shape under, a stride for each pixel of the shape over. It calls do with each
// pair of pixels, an output channel, and where in the kernel the numbers for all of them are.
func slide(over, under, ks []int, g window, do func(over, under, channel, kernel int)) {
	for at := range xnnpack.Elements(over[:3]) {
		n, y, z := at/over[2]/over[1], at/over[2]%over[1], at%over[2]
		for c := range ks[0] {
			for i := range ks[1] {
				for j := range ks[2] {
					uy := y*g.stride.Height + i*g.dilation.Height - g.padding.Top
					uz := z*g.stride.Width + j*g.dilation.Width - g.padding.Left
					if 0 <= uy && uy < under[1] && 0 <= uz && uz < under[2] {
						do(at, (n*under[1]+uy)*under[2]+uz, c, ((c*ks[1]+i)*ks[2]+j)*ks[3])
					}
				}
			}
		}
	}
}

// multiply multiplies matrices x [batch, m, k] with [batch, n, k].
func multiply(x, factor image) *result {
	batch, m, k, n := x.shape[0], x.shape[1], x.shape[2], factor.shape[1]
	r := newResult(batch, m, n)
	for i := range r.real {
		row, column := i/n*k, (i/n/m*n+i%n)*k
		for l := range k {
			r.add(i, x.real[row+l], factor.real[column+l], x.errors[row+l])
		}
	}
	return r
}

// transposed exchanges the last two dimensions of matrices with so many rows and columns.
func transposed(of []float64, rows, columns int) []float64 {
	t := make([]float64, len(of))
	for i, v := range of {
		matrix, at := i/(rows*columns)*(rows*columns), i%(rows*columns)
		t[matrix+at%columns*rows+at/columns] = v
	}
	return t
}

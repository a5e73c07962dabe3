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
	n := count(shape)
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

// convolve convolves images x of shape [n, h, w, groups*gic] with a kernel [oc, kh, kw, gic].
func convolve(x []float64, xs []int, xError []float64, k []float64, ks []int, g window) *result {
	g.fillIn()
	oh := (xs[1]+g.padding.Top+g.padding.Bottom-(ks[1]-1)*g.dilation.Height-1)/g.stride.Height + 1
	ow := (xs[2]+g.padding.Left+g.padding.Right-(ks[2]-1)*g.dilation.Width-1)/g.stride.Width + 1
	r := newResult(xs[0], oh, ow, ks[0])
	slide(r.shape, xs, ks, g, func(out, in, c, with int) {
		from := in*xs[3] + c/(ks[0]/g.groups)*ks[3]
		for d := range ks[3] {
			r.add(out*ks[0]+c, x[from+d], k[with+d], xError[from+d])
		}
	})
	return r
}

// deconvolve is the transpose of convolve in x: kernel [oc, kh, kw, gic], output of the given height and width.
func deconvolve(x []float64, xs []int, xError []float64, k []float64, ks []int, g window, oh, ow int) *result {
	g.fillIn()
	r := newResult(xs[0], oh, ow, ks[0])
	slide(xs, r.shape, ks, g, func(in, out, c, with int) {
		from := in*xs[3] + c/(ks[0]/g.groups)*ks[3]
		for d := range ks[3] {
			r.add(out*ks[0]+c, x[from+d], k[with+d], xError[from+d])
		}
	})
	return r
}

// slide moves a window over images of the shape under, a stride for each pixel of the shape over. It calls do with each
// pair of pixels, an output channel, and where in the kernel the numbers for all of them are.
func slide(over, under, ks []int, g window, do func(over, under, channel, kernel int)) {
	for at := range count(over[:3]) {
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

// multiply multiplies matrices a [batch, m, k] and b [batch, k, n], or b [batch, n, k] if transposed; b of batch 1 is
// used for all.
func multiply(a []float64, as []int, aError []float64, b []float64, bs []int, transposed bool) *result {
	m, k, n := as[1], as[2], bs[2]
	if transposed {
		n = bs[1]
	}
	r := newResult(as[0], m, n)
	for batch := range as[0] {
		base := batch % bs[0] * k * n
		for i := range m {
			for j := range n {
				for l := range k {
					with := base + l*n + j
					if transposed {
						with = base + j*k + l
					}
					from := (batch*m+i)*k + l
					r.add((batch*m+i)*n+j, a[from], b[with], aError[from])
				}
			}
		}
	}
	return r
}

package tflite

import (
	"slices"

	"xpwc/internal/operators"
)

// RFFT2D: images [..., height, width], and the height and width to transform.
func planRealFFT2D(c *call) {
	in, size := c.data(0), c.integers(1)
	rank := len(in.shape)
	if rank < 2 || len(size) != 2 || size[0] <= 0 || size[1] <= 0 {
		malformed("a transform of size %v for shape %v", size, in.shape)
	}
	const most = 1 << 22 // of numbers of 16 bytes that are in memory for it
	height, width := size[0], size[1]
	if int64(height)*int64(width) > most || height&(height-1) != 0 || width&(width-1) != 0 {
		unsupported("a transform of size %v", size)
	}
	if t := c.output(0); t.dtype != typeComplex64 || in.dtype != typeFloat32 {
		unsupported("a transform from %v to %v", in.dtype, t.dtype)
	}
	c.define(0, append(slices.Clone(in.shape[:rank-2]), height, width/2+1)...)
	c.do(func(r *run) { operators.RealFFT2D(r.out[0], r.in[0], height, width) })
}

// planFromComplex plans REAL, IMAG, and COMPLEX_ABS.
func planFromComplex(of func(complex128) float64) func(*call) {
	return func(c *call) {
		values := c.together(1)
		c.fromComplex(values[0], of)
	}
}

// fromComplex plans an operator that computes a real number from each complex one.
func (c *call) fromComplex(in *value, of func(complex128) float64) {
	if out := c.plan.values[c.op.outputs[0]].dtype; in.dtype != typeComplex64 || out != typeFloat32 {
		unsupported("from %v to %v", in.dtype, out)
	}
	c.do(func(r *run) { operators.FromComplex(of, r.out[0], r.in[0]) })
}

func realPart(z complex128) float64 { return real(z) }
func imagPart(z complex128) float64 { return imag(z) }

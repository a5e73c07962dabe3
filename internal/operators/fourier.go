package operators

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/cmplx"
	"slices"
)

// A dft computes Fourier transforms of any length. One that is no power of 2 is a convolution with a chirp, by
// transforms of a power of 2 (Bluestein's algorithm).
type dft struct {
	n      int
	fft    fft
	chirp  []complex128 // exp(-πik²/n)
	filter []complex128 // the transform of the reverse chirp
	work   []complex128
}

func newDFT(n int) *dft {
	if n&(n-1) == 0 {
		return &dft{n: n, fft: newFFT(n)}
	}
	size := 1 << bits.Len(uint(2*n-1))
	d := &dft{n: n, fft: newFFT(size), chirp: make([]complex128, n), filter: make([]complex128, size),
		work: make([]complex128, size)}
	for k := range n {
		square := k * k % (2 * n)
		d.chirp[k] = cmplx.Rect(1, -math.Pi*float64(square)/float64(n))
		d.filter[k] = cmplx.Conj(d.chirp[k])
		if k > 0 {
			d.filter[size-k] = d.filter[k]
		}
	}
	d.fft.transform(d.filter)
	return d
}

// transform replaces n numbers by their transform, or the inverse one without its factor 1/n.
func (d *dft) transform(x []complex128, inverse bool) {
	if inverse {
		conjugate(x)
		defer conjugate(x)
	}
	if d.work == nil {
		d.fft.transform(x)
		return
	}
	clear(d.work)
	for k, c := range x {
		d.work[k] = c * d.chirp[k]
	}
	d.fft.transform(d.work)
	for k := range d.work {
		d.work[k] = cmplx.Conj(d.work[k] * d.filter[k])
	}
	d.fft.transform(d.work) // with conjugated numbers it is the inverse transform
	for k := range x {
		x[k] = cmplx.Conj(d.work[k]) * d.chirp[k] / complex(float64(len(d.work)), 0)
	}
}

func conjugate(x []complex128) {
	for k, c := range x {
		x[k] = cmplx.Conj(c)
	}
}

// RealFourier computes the spectrum of real numbers along axes, times a factor. Along the last one of these it has only
// the half that the other half follows from, if half is set.
func RealFourier(axes []int, factor float64, half bool) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		checkAxes(axes, in)
		last := axes[len(axes)-1]
		shape := slices.Clone(in)
		if half {
			shape[last] = in[last]/2 + 1
		}
		var real realFFT
		if n := in[last]; half && len(axes) == 1 && last == len(in)-1 && n&(n-1) == 0 {
			real = newRealFFT(n)
		}
		return computing(shape, func(out Array, in []Array) {
			length := in[0].Shape[last]
			if real.n > 0 && real.fill(out, in[0], length, length, factor) {
				return
			}
			d, line, numbers := newDFT(length), make([]complex128, length), make([]float64, length)
			firsts := firstsOf(in[0].Shape, last)
			lines(out.Shape, last, func(n, first, step int) {
				in[0].numbers(numbers, firsts(n), step)
				for k, x := range numbers {
					line[k] = complex(x*factor, 0)
				}
				d.transform(line, false)
				for k := range out.Shape[last] {
					putComplex(out.elem(first+k*step), line[k])
				}
			})
			for _, axis := range axes[:len(axes)-1] {
				complexFourier(out, axis, false)
			}
		})
	}
}

// InverseFourier computes the real numbers, so many along the last one of some axes, of a half spectrum, times a
// factor.
func InverseFourier(axes []int, factor float64, count int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		checkAxes(axes, in)
		last := axes[len(axes)-1]
		if count < 1 || count/2+1 > in[last] {
			wrong("%d numbers of a spectrum of shape %v", count, in)
		}
		return computing(replaced(in, last, count), func(out Array, in []Array) {
			src := in[0]
			if len(axes) > 1 {
				src = New(in[0].Element, in[0].Shape...)
				copy(src.Data, in[0].Data)
				for _, axis := range axes[:len(axes)-1] {
					complexFourier(src, axis, true)
				}
			}
			d, line, numbers := newDFT(count), make([]complex128, count), make([]float64, count)
			firsts := firstsOf(src.Shape, last)
			lines(out.Shape, last, func(n, first, step int) {
				for k := range count/2 + 1 {
					c := complexOf(src.elem(firsts(n) + k*step))
					if k == 0 || 2*k == count {
						c = complex(real(c), 0)
					}
					line[k] = c
					if k > 0 {
						line[count-k] = cmplx.Conj(c)
					}
				}
				d.transform(line, true)
				for k, c := range line {
					numbers[k] = real(c) * factor
				}
				out.putNumbers(numbers, first, step)
			})
		})
	}
}

// complexFourier replaces complex numbers by their transform along an axis, or the inverse one.
func complexFourier(a Array, axis int, inverse bool) {
	d, line := newDFT(a.Shape[axis]), make([]complex128, a.Shape[axis])
	lines(a.Shape, axis, func(_, first, step int) {
		for k := range line {
			line[k] = complexOf(a.elem(first + k*step))
		}
		d.transform(line, inverse)
		for k, c := range line {
			putComplex(a.elem(first+k*step), c)
		}
	})
}

// firstsOf returns what finds the first element of a line along an axis.
func firstsOf(shape []int, axis int) func(line int) int {
	length, inner := shape[axis], product(shape[axis+1:])
	return func(line int) int { return line/inner*length*inner + line%inner }
}

func checkAxes(axes, shape []int) {
	if len(axes) == 0 {
		wrong("a transform along no axis")
	}
	for i, axis := range axes {
		if along(axis, shape); slices.Contains(axes[:i], axis) {
			wrong("a transform along axis %d twice", axis)
		}
		if shape[axis] > MostIndices {
			wrong("a transform of %d numbers, of at most %d", shape[axis], MostIndices)
		}
	}
}

// Parts has the real and the imaginary part of each complex number as the last dimension.
func Parts() Operator {
	return func(shapes [][]int) Kernel {
		return computing(append(slices.Clone(shapes[0]), 2), func(out Array, in []Array) { copy(out.Data, in[0].Data) })
	}
}

// Conjugate negates the imaginary parts of complex numbers.
func Conjugate() Operator {
	return unary(func(out, in Array) {
		copy(out.Data, in.Data)
		const sign = 1 << 31
		for i := 4; i+4 <= len(out.Data); i += 8 {
			binary.LittleEndian.PutUint32(out.Data[i:], binary.LittleEndian.Uint32(out.Data[i:])^sign)
		}
	})
}

// MultiplyComplex multiplies complex numbers.
func MultiplyComplex() Operator {
	return func(shapes [][]int) Kernel {
		return elementwise(shapes, func(out Array, in []Array) {
			together(out, in, func(i, n int, places, apart []int) {
				for k := range n {
					putComplex(out.elem(i+k), complexOf(in[0].elem(places[0]+k*apart[0]))*
						complexOf(in[1].elem(places[1]+k*apart[1])))
				}
			})
		})
	}
}

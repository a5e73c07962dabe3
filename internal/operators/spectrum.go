package operators

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/cmplx"
	"slices"
)

// Complex numbers are pairs of single precision, the real part first. No model has them as inputs or outputs, so they
// are moved as what else has 8 bytes.

func complexOf(b []byte) complex128 {
	part := func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }
	return complex(part(b), part(b[4:]))
}

func putComplex(b []byte, c complex128) {
	binary.LittleEndian.PutUint32(b, math.Float32bits(float32(real(c))))
	binary.LittleEndian.PutUint32(b[4:], math.Float32bits(float32(imag(c))))
}

// FromComplex computes a real number from each complex one.
func FromComplex(f func(complex128) float64) Operator {
	return unary(func(out, in Array) { fromComplex(f, out, in) })
}

// RealFFT2D computes the spectra of the images that the last two dimensions are, see [realFFT2D].
func RealFFT2D(height, width int) Operator {
	return func(shapes [][]int) Kernel {
		rank := len(shapes[0])
		if rank < 2 {
			wrong("a transform of shape %v", shapes[0])
		}
		shape := append(slices.Clone(shapes[0][:rank-2]), height, width/2+1)
		return computing(shape, func(out Array, in []Array) { realFFT2D(out, in[0], height, width) })
	}
}

// fromComplex fills an output with a real number for each complex one.
func fromComplex(f func(complex128) float64, out, in Array) {
	for i := range product(out.Shape) {
		out.Put(i, f(complexOf(in.elem(i))))
	}
}

// realFFT2D fills an output with the spectra of the images that an input's last two dimensions are, without the half
// that follows from the other: [..., height, width/2+1]. Height and width are powers of 2; the images are cut off at
// them, or continued with zeros.
func realFFT2D(out, in Array, height, width int) {
	rank := len(in.Shape)
	rows, columns, half := in.Shape[rank-2], in.Shape[rank-1], width/2+1
	alongX, alongY := newFFT(width), newFFT(height)
	image, column := make([]complex128, height*width), make([]complex128, height)
	for n := range product(in.Shape[:rank-2]) {
		clear(image)
		for y := range min(rows, height) {
			row := image[y*width : (y+1)*width]
			for x := range min(columns, width) {
				row[x] = complex(in.Number((n*rows+y)*columns+x), 0)
			}
			alongX.transform(row)
		}
		for x := range half {
			for y := range column {
				column[y] = image[y*width+x]
			}
			alongY.transform(column)
			for y, c := range column {
				putComplex(out.elem((n*height+y)*half+x), c)
			}
		}
	}
}

// An fft has exp(-2πik/n) for each k below n/2. Its length n is a power of 2.
type fft struct {
	n     int
	roots []complex128
}

func newFFT(n int) fft {
	f := fft{n, make([]complex128, n/2)}
	for k := range f.roots {
		f.roots[k] = cmplx.Rect(1, -2*math.Pi*float64(k)/float64(n))
	}
	return f
}

// transform replaces n numbers by their Fourier transform.
func (f fft) transform(x []complex128) {
	spare := bits.UintSize - bits.Len(uint(f.n-1))
	for i := 1; i < f.n; i++ {
		if j := int(bits.Reverse(uint(i)) >> spare); i < j {
			x[i], x[j] = x[j], x[i]
		}
	}
	for size := 2; size <= f.n; size *= 2 {
		for first := 0; first < f.n; first += size {
			for k := range size / 2 {
				a, b := &x[first+k], &x[first+k+size/2]
				turned := *b * f.roots[k*(f.n/size)]
				*a, *b = *a+turned, *a-turned
			}
		}
	}
}

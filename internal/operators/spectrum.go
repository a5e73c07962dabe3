package operators

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/cmplx"
	"slices"
	"sync"

	"xpwc/internal/mapped"
	"xpwc/models"
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

// complexSize is the bytes of a complex number.
const complexSize = 8

// putComplexes writes complex numbers one after the other.
func putComplexes(dst []byte, numbers []complex128) {
	if parts, ok := mapped.Numbers[float32](dst); ok {
		for i, c := range numbers {
			parts[2*i], parts[2*i+1] = float32(real(c)), float32(imag(c))
		}
		return
	}
	for i, c := range numbers {
		putComplex(dst[i*complexSize:], c)
	}
}

// Magnitudes computes the absolute value of each complex number, whose squares do not overflow.
func Magnitudes() Operator {
	return unary(func(out, in Array) {
		src, aligned := mapped.Numbers[float32](in.Data)
		dst, ok := mapped.Numbers[float32](out.Data)
		if !aligned || !ok || out.Element != models.Float32 || !magnitudes(dst, src) {
			fromComplex(magnitude, out, in)
		}
	})
}

// FromComplex computes a real number from each complex one.
func FromComplex(f func(complex128) float64) Operator {
	return unary(func(out, in Array) { fromComplex(f, out, in) })
}

// magnitude computes the absolute value of a complex number of single precision, whose squares do not overflow. It is
// infinite if a part is infinite, even if the other part is NaN.
func magnitude(c complex128) float64 {
	if math.IsInf(real(c), 0) || math.IsInf(imag(c), 0) {
		return math.Inf(1)
	}
	return math.Sqrt(real(c)*real(c) + imag(c)*imag(c))
}

// RealFFT2D computes the spectra of the images that the last two dimensions are, see [realFFT2D].
func RealFFT2D(height, width int) Operator {
	return func(shapes [][]int) Kernel {
		rank := len(shapes[0])
		if rank < 2 {
			wrong("a transform of shape %v", shapes[0])
		}
		shape := append(slices.Clone(shapes[0][:rank-2]), height, width/2+1)
		rows, columns := sync.OnceValue(func() realFFT { return newRealFFT(width) }),
			sync.OnceValue(func() fft { return newFFT(height) })
		return computing(shape, func(out Array, in []Array) { realFFT2D(out, in[0], rows(), columns()) })
	}
}

// fromComplex fills an output with a real number for each complex one.
func fromComplex(f func(complex128) float64, out, in Array) {
	src, aligned := mapped.Numbers[float32](in.Data)
	dst, ok := mapped.Numbers[float32](out.Data)
	if !aligned || !ok || out.Element != models.Float32 {
		for i := range product(out.Shape) {
			out.Put(i, f(complexOf(in.elem(i))))
		}
		return
	}
	for i := range dst {
		dst[i] = float32(f(complex(float64(src[2*i]), float64(src[2*i+1]))))
	}
}

// realFFT2D fills an output with the spectra of the images that an input's last two dimensions are, without the half
// that follows from the other: [..., height, width/2+1]. Height and width are powers of 2; the images are cut off at
// them, or continued with zeros.
func realFFT2D(out, in Array, alongX realFFT, alongY fft) {
	rank := len(in.Shape)
	height, width, half := alongY.n, alongX.n, alongX.n/2+1
	rows, columns := in.Shape[rank-2], in.Shape[rank-1]
	if height == 1 && rows > 0 && alongX.fill(out, in, rows*columns, min(columns, width), 1) {
		return
	}
	line, spectra, column := make([]float64, width), make([]complex128, height*half), make([]complex128, height)
	for n := range product(in.Shape[:rank-2]) {
		clear(spectra)
		image, present := in.part(n*rows*columns, rows*columns), min(rows, height)
		if !alongX.rows(spectra, image, present, columns, min(columns, width), 1) {
			for y := range present {
				image.numbers(line[:min(columns, width)], y*columns, 1)
				alongX.transform(spectra[y*half:][:half], line)
			}
		}
		if height > 1 && !fourierColumns(spectra, half, &alongY) {
			for x := range half {
				for y := range column {
					column[y] = spectra[y*half+x]
				}
				alongY.transform(column)
				for y, c := range column {
					spectra[y*half+x] = c
				}
			}
		}
		putComplexes(out.Data[n*len(spectra)*complexSize:], spectra)
	}
}

// A realFFT transforms n real numbers, a power of 2, as n/2 complex ones. It has exp(-2πik/n) for each k up to n/4.
type realFFT struct {
	n     int
	pairs fft
	roots []complex128
}

func newRealFFT(n int) realFFT {
	f := realFFT{n: n, pairs: newFFT(max(n/2, 1)), roots: make([]complex128, n/4+1)}
	for k := range f.roots {
		f.roots[k] = cmplx.Rect(1, -2*math.Pi*float64(k)/float64(n))
	}
	return f
}

// transform computes the first n/2+1 numbers of the Fourier transform of n numbers; the others are their conjugates.
func (f realFFT) transform(dst []complex128, src []float64) {
	if f.n == 1 {
		dst[0] = complex(src[0], 0)
		return
	}
	m := f.n / 2
	for k := range m {
		dst[k] = complex(src[2*k], src[2*k+1])
	}
	f.pairs.transform(dst[:m])
	dst[0], dst[m] = complex(real(dst[0])+imag(dst[0]), 0), complex(real(dst[0])-imag(dst[0]), 0)
	for k := 1; k <= m/2; k++ {
		a, b := dst[k], cmplx.Conj(dst[m-k])
		sum, difference := a+b, a-b
		even := complex(real(sum)/2, imag(sum)/2)
		odd := f.roots[k] * complex(imag(difference)/2, -real(difference)/2)
		dst[k], dst[m-k] = even+odd, cmplx.Conj(even-odd)
	}
}

// rows transforms rows of an input, of a length and step numbers apart, times a factor. It returns false if C does not.
func (f *realFFT) rows(dst []complex128, in Array, rows, step, length int, factor float64) bool {
	src, ok := mapped.Numbers[float32](in.Data)
	return ok && in.Element == models.Float32 && f.n > 1 && fourierRows(dst, src, rows, step, length, factor, f)
}

// fill fills an output with the spectra of rows, as rows transforms them.
func (f *realFFT) fill(out, in Array, step, length int, factor float64) bool {
	const maxRows = 16 // rows at a time, whose spectra stay in the processor's cache
	half := f.n/2 + 1
	count := product(out.Shape) / half
	spectra := make([]complex128, min(maxRows, count)*half)
	for first := 0; first < count; first += maxRows {
		part := spectra[:min(maxRows, count-first)*half]
		src := in.Data[first*step*in.Element.Size():]
		if !f.rows(part, Array{in.Element, nil, src}, len(part)/half, step, length, factor) {
			return false
		}
		putComplexes(out.Data[first*half*complexSize:][:len(part)*complexSize], part)
	}
	return true
}

// An fft transforms n complex numbers, a power of 2. For each half a size it has that many roots exp(-πik/half), from
// the place half on, and it has the pairs of places that are exchanged first.
type fft struct {
	n         int
	roots     []complex128
	exchanges [][2]int32
}

func newFFT(n int) fft {
	f := fft{n: n, roots: make([]complex128, n)}
	for half := 1; half < n; half *= 2 {
		for k := range half {
			f.roots[half+k] = cmplx.Rect(1, -math.Pi*float64(k)/float64(half))
		}
	}
	spare := bits.UintSize - bits.Len(uint(n-1))
	for i := 1; i < n; i++ {
		if j := int(bits.Reverse(uint(i)) >> spare); i < j {
			f.exchanges = append(f.exchanges, [2]int32{int32(i), int32(j)})
		}
	}
	return f
}

// transform replaces n numbers by their Fourier transform.
func (f fft) transform(x []complex128) {
	for _, e := range f.exchanges {
		x[e[0]], x[e[1]] = x[e[1]], x[e[0]]
	}
	if butterflies(x[:f.n], f.roots) {
		return
	}
	for i := 0; i+1 < f.n; i += 2 {
		x[i], x[i+1] = x[i]+x[i+1], x[i]-x[i+1]
	}
	for half := 2; half < f.n; half *= 2 {
		roots := f.roots[half:][:half]
		for rest := x; len(rest) > 0; rest = rest[2*half:] {
			a, b := rest[:half], rest[half:][:half]
			for k, root := range roots {
				turned := b[k] * root
				a[k], b[k] = a[k]+turned, a[k]-turned
			}
		}
	}
}

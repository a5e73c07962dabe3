package operators

import (
	"slices"

	"xpwc/internal/mapped"
)

// A Window moves over the last dimensions of an array. Each list has a number for every one of these.
type Window struct {
	Size, Stride, Dilation []int
	Pre                    []int // how far it begins before the first element
	Padded                 []int // how many zeros are before the first element, and after the last
}

// where an element of a window is if it is not in the array.
const (
	zero    = -1 // among what is padded
	outside = -2
)

// windows returns where each element of a window is, for each of so many places along dimensions of these sizes.
func (w Window) windows(places, sizes []int) [][]int {
	far := Rows(sizes)
	positions := make([][]int, product(places))
	walkIndices(places, func(place int, index []int) {
		positions[place] = make([]int, product(w.Size))
		walkIndices(w.Size, func(k int, element []int) {
			offset, inside := 0, true
			for d, e := range element {
				n := index[d]*w.Stride[d] - w.Pre[d] + e*w.Dilation[d]
				if n < -w.Padded[d] || n >= sizes[d]+w.Padded[d] {
					positions[place][k] = outside
					return
				}
				offset += n * far[d]
				inside = inside && n >= 0 && n < sizes[d]
			}
			if !inside {
				offset = zero
			}
			positions[place][k] = offset
		})
	})
	return positions
}

// patches fills an output with the elements under a window at each of its places, zeros where there is nothing: the
// input is [batch, channels, …], and the output [batch * groups, places, channels of a group * elements of a window].
// There are as many places along each of the last dimensions as the list has.
func patches(w Window, out, in Array, places []int, groups int) {
	clear(out.Data)
	channels := in.Shape[1] / groups
	windows := w.windows(places, in.Shape[2:])
	if fill, ok := patchRows.forSize(in.Element.Size()); ok {
		fill(windows, out, in, channels)
		return
	}
	inner, size := product(in.Shape[2:]), product(w.Size)
	for g := range in.Shape[0] * groups {
		for place, elements := range windows {
			dst := (g*len(windows) + place) * channels * size
			for ch := range channels {
				for k, src := range elements {
					if src >= 0 {
						copy(out.elem(dst+ch*size+k), in.elem((g*channels+ch)*inner+src))
					}
				}
			}
		}
	}
}

var patchRows = sized[func(windows [][]int, out, in Array, channels int)]{
	fillPatches[int8], fillPatches[int16], fillPatches[int32], fillPatches[int64]}

// fillPatches is patches of elements of one size, with the windows of all places; out is zero.
func fillPatches[T mapped.Number](windows [][]int, out, in Array, channels int) {
	dst, done := outputOf[T](out)
	src, inner := inputOf[T](in), product(in.Shape[2:])
	for first := 0; first < in.Shape[0]*in.Shape[1]; first += channels {
		for _, elements := range windows {
			for ch := range channels {
				row := src[(first+ch)*inner:][:inner]
				for k, n := range elements {
					if n >= 0 {
						dst[k] = row[n]
					}
				}
				dst = dst[len(elements):]
			}
		}
	}
	done()
}

// meanUnder fills an output of [batch, channels, …] with the mean of the elements under a window at each place, zeros
// that are padded among it. A divisor that is not 0 takes the place of their number.
func meanUnder(w Window, out, in Array, divisor float64) {
	inner := product(in.Shape[2:])
	windows := w.windows(out.Shape[2:], in.Shape[2:])
	for ch := range in.Shape[0] * in.Shape[1] {
		for place, elements := range windows {
			sum, counted := 0.0, 0.0
			for _, index := range elements {
				if index >= 0 {
					sum += in.Number(ch*inner + index)
				}
				if index != outside {
					counted++
				}
			}
			if divisor != 0 {
				counted = divisor
			}
			out.Put(ch*len(windows)+place, sum/counted)
		}
	}
}

// walkIndices calls do with each index of a shape, in order.
func walkIndices(shape []int, do func(i int, index []int)) {
	axes := make([][]int, len(shape))
	for d := range axes {
		axes[d] = make([]int, len(shape))
		axes[d][d] = 1
	}
	walk(shape, axes, do)
}

// Patches has the elements under a window at each of its places, zeros where there is nothing: the input is [batch,
// channels, …], and the output [batch * groups, places, channels of a group * elements of the window].
func Patches(w Window, places []int, groups int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		w.check(in, places)
		for d, n := range places {
			if (n-1)*w.Stride[d]+(w.Size[d]-1)*w.Dilation[d] >= in[d+2]+2*w.Pre[d] {
				wrong("a kernel of %v on %v for %v", w.Size, in, places)
			}
		}
		if groups < 1 || in[1]%groups != 0 {
			wrong("%d groups of %v", groups, in)
		}
		shape := []int{in[0] * groups, product(places), in[1] / groups * product(w.Size)}
		return moving(shape, func(out Array, in []Array) { patches(w, out, in[0], places, groups) })
	}
}

// MeanPool computes the mean of the elements under a window at each of its places, zeros that are padded among it. A
// divisor that is not 0 takes the place of their number.
func MeanPool(w Window, places []int, divisor float64) Operator {
	return func(shapes [][]int) Kernel {
		w.check(shapes[0], places)
		for d, n := range w.Pre {
			if 2*n > w.Size[d] {
				wrong("a window of %v with %v around", w.Size, w.Pre)
			}
		}
		shape := slices.Concat(shapes[0][:2], places)
		return moving(shape, func(out Array, in []Array) { meanUnder(w, out, in[0], divisor) })
	}
}

// check checks that each of so many places of the window reaches the input.
func (w Window) check(in, places []int) {
	rank := len(in) - 2
	fits := rank > 0 && len(places) == rank
	for _, list := range [][]int{w.Size, w.Stride, w.Dilation, w.Pre, w.Padded} {
		fits = fits && len(list) == rank
	}
	for d := 0; fits && d < rank; d++ {
		fits = w.Size[d] > 0 && w.Stride[d] > 0 && w.Dilation[d] > 0 && w.Pre[d] >= 0 &&
			(places[d]-1)*w.Stride[d] < in[d+2]+w.Pre[d]
	}
	if !fits {
		wrong("a window of %v by %v on %v for %v", w.Size, w.Stride, in, places)
	}
}

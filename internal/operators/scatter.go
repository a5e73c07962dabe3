package operators

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/mapped"
	"xpwc/models"
)

// Scatter has the first input with elements of the third in it, each at its own place except along an axis, where the
// second input has the index. It adds them there if add is set; otherwise the last one of a place stays.
func Scatter(axis int, add bool) Operator {
	return func(shapes [][]int) Kernel {
		table, indices, src := shapes[0], shapes[1], shapes[2]
		checkScatter(axis, table, indices)
		for d, n := range indices {
			if len(src) != len(indices) || n > src[d] {
				wrong("elements of shape %v at indices of shape %v", src, indices)
			}
		}
		strides := [][]int{Rows(src), scatterSteps(axis, table)}
		return moving(table, func(out Array, in []Array) {
			copy(out.Data, in[0].Data)
			put := out.putter(in[2])
			if add {
				put = out.adder(in[2])
			}
			scatter(axis, in[1], table, strides, func(src, dst int) { put(dst, src) })
		}).moves(0, 2)
	}
}

// ScatterNumber has the first input with a number in it, where the second input has the index along an axis.
func ScatterNumber(axis int, number float64) Operator {
	return func(shapes [][]int) Kernel {
		table, indices := shapes[0], shapes[1]
		checkScatter(axis, table, indices)
		strides := [][]int{make([]int, len(indices)), scatterSteps(axis, table)}
		return moving(table, func(out Array, in []Array) {
			copy(out.Data, in[0].Data)
			put := out.putter(Number(out.Element, number))
			scatter(axis, in[1], table, strides, func(src, dst int) { put(dst, src) })
		})
	}
}

func checkScatter(axis int, table, indices []int) {
	along(axis, table)
	if len(indices) != len(table) {
		wrong("indices of shape %v for shape %v", indices, table)
	}
	for d, n := range indices {
		if d != axis && n > table[d] {
			wrong("indices of shape %v for shape %v", indices, table)
		}
	}
}

// scatterSteps returns how far apart neighbours are in a table along each dimension except the axis.
func scatterSteps(axis int, table []int) []int {
	far := Rows(table)
	far[axis] = 0
	return far
}

// scatter calls put for each index, with its place in the source and in the table.
func scatter(axis int, indices Array, table []int, strides [][]int, put func(src, dst int)) {
	far, length := Rows(table)[axis], table[axis]
	var buffer [buffered]int64
	rows(indices.Shape, strides, func(i, n int, offsets, apart []int) {
		for k := range n {
			if k%buffered == 0 {
				indices.integers(buffer[:min(buffered, n-k)], i+k, 1)
			}
			put(offsets[0]+k*apart[0], offsets[1]+k*apart[1]+inRange(buffer[k%buffered], length)*far)
		}
	})
}

// putter returns what sets element i to element k of an array of the same type.
func (a Array) putter(src Array) func(i, k int) {
	switch a.Element.Size() {
	case 4:
		return func(i, k int) { *(*[4]byte)(a.Data[4*i:]) = *(*[4]byte)(src.Data[4*k:]) }
	case 8:
		return func(i, k int) { *(*[8]byte)(a.Data[8*i:]) = *(*[8]byte)(src.Data[8*k:]) }
	}
	return func(i, k int) { copy(a.elem(i), src.elem(k)) }
}

// adder returns what adds element k of an array of the same type to element i.
func (a Array) adder(src Array) func(i, k int) {
	if a.Element != models.Float32 {
		return func(i, k int) { Sum.apply(a.Element, a.elem(i), a.elem(i), src.elem(k)) }
	}
	number := func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }
	return func(i, k int) {
		dst := a.Data[4*i:]
		binary.LittleEndian.PutUint32(dst, math.Float32bits(number(dst)+number(src.Data[4*k:])))
	}
}

// MaskedScatter has elements of the third input, in their order, where the second input is not 0, and elements of the
// first elsewhere. Too few elements are a fault ([ErrIndex]).
func MaskedScatter() Operator {
	return func(shapes [][]int) Kernel {
		shape, ok := Broadcast(shapes[0], shapes[1])
		if !ok {
			wrong("shapes %v and %v do not go together", shapes[0], shapes[1])
		}
		count := product(shapes[2])
		return moving(shape, func(out Array, in []Array) {
			Strided(out, in[0], 0, steps(in[0].Shape, shape))
			next := 0
			var buffer [buffered]byte
			together(out, []Array{in[1]}, func(i, n int, places, apart []int) {
				truths := buffer[:n]
				if apart[0] == 1 {
					truths = in[1].flags(buffer[:], places[0], n)
				} else {
					repeat(truths, in[1].flags(buffer[:1], places[0], 1))
				}
				picked := countTrue(truths)
				if picked > count-next {
					fault.Check(fmt.Errorf("%w: a mask has more than %d elements", ErrIndex, count))
				}
				if picked > 0 {
					scatterMasked(out, i, truths, in[2], next)
					next += picked
				}
			})
		}).moves(0, 2)
	}
}

// countTrue returns how many bytes are not 0.
func countTrue(truths []byte) (n int) {
	for _, t := range truths {
		n += int(bit(t != 0))
	}
	return n
}

// scatterMasked puts elements of src, from next on, where bytes are not 0, from element i on. src has an element.
func scatterMasked(out Array, i int, truths []byte, src Array, next int) {
	dst, aligned := mapped.Numbers[uint32](out.Data)
	values, ok := mapped.Numbers[uint32](src.Data)
	if put := out.putter(src); !aligned || !ok || out.Element.Size() != 4 {
		for k, t := range truths {
			if t != 0 {
				put(i+k, next)
				next++
			}
		}
		return
	}
	dst = dst[i:][:len(truths)]
	for k, t := range truths { // without a branch, which nothing predicts
		picked := int(bit(t != 0))
		mask := -uint32(picked)
		dst[k] = dst[k]&^mask | values[min(next, len(values)-1)]&mask
		next += picked
	}
}

// RepeatIndices has each index of the input as often as the input's element says, in an output of so many elements.
func RepeatIndices(count int) Operator {
	return func(shapes [][]int) Kernel {
		if len(shapes[0]) != 1 {
			wrong("repetitions of shape %v", shapes[0])
		}
		return computing([]int{count}, func(out Array, in []Array) {
			next := 0
			for i := range product(shapes[0]) {
				n := in[0].Whole(i)
				if n < 0 || n > int64(count-next) {
					fault.Check(fmt.Errorf("%w: %d repetitions of index %d, of %d in all", ErrIndex, n, i, count))
				}
				for range n {
					putWhole(out.Element, out.elem(next), int64(i))
					next++
				}
			}
			if next != count {
				fault.Check(fmt.Errorf("%w: %d repetitions, not %d", ErrIndex, next, count))
			}
		})
	}
}

// Diagonal has the elements along the diagonal of two dimensions, as the last dimension: an offset above 0 is of a
// diagonal to the right of the main one, below 0 to the left.
func Diagonal(offset, row, column int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		along(row, in)
		along(column, in)
		first := max(offset, 0)
		below := max(-offset, 0)
		length := min(in[row]-below, in[column]-first)
		if row == column || length < 1 {
			wrong("diagonal %d of dimensions %d and %d of shape %v", offset, row, column, in)
		}
		far := Rows(in)
		var shape, strides []int
		for d, n := range in {
			if d != row && d != column {
				shape, strides = append(shape, n), append(strides, far[d])
			}
		}
		return AsStrided(append(shape, length), append(strides, far[row]+far[column]),
			below*far[row]+first*far[column])(shapes)
	}
}

// Triangle has zeros above a diagonal of the matrices that the last two dimensions are, see [Diagonal].
func Triangle(offset int) Operator {
	return func(shapes [][]int) Kernel {
		rank := len(shapes[0])
		if rank < 2 {
			wrong("triangles of shape %v", shapes[0])
		}
		height, width := shapes[0][rank-2], shapes[0][rank-1]
		return moving(shapes[0], func(out Array, in []Array) {
			copy(out.Data, in[0].Data)
			row := width * out.Element.Size()
			for i := range product(shapes[0]) / width {
				edge := min(max(i%height+offset+1, 0), width) * out.Element.Size()
				clear(out.Data[i*row+edge : (i+1)*row])
			}
		})
	}
}

// Roll moves elements along axes by so many places, those beyond the end to the beginning.
func Roll(axes, places []int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		if len(axes) != len(places) {
			wrong("%v places along %v", places, axes)
		}
		for _, d := range axes {
			along(d, in)
		}
		return taking(in, in, func() [][]int {
			indices := Everywhere(in)
			for i, d := range axes {
				n := int(floorRemainder(int64(-places[i]), int64(in[d])))
				indices[d] = slices.Concat(indices[d][n:], indices[d][:n])
			}
			return indices
		})
	}
}

// Surround has the first or the last element, as often as the lists say, before and after each dimension.
func Surround(pre, post []int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		fits := len(pre) == len(in) && len(post) == len(in)
		shape := slices.Clone(in)
		for d := range in {
			if fits = fits && pre[d] >= 0 && post[d] >= 0 && pre[d] <= MostIndices && post[d] <= MostIndices; fits {
				shape[d] += pre[d] + post[d]
			}
		}
		if !fits {
			wrong("%v and %v elements around shape %v", pre, post, in)
		}
		return taking(in, shape, func() [][]int {
			places := make([][]int, len(in))
			for d, n := range in {
				places[d] = slices.Concat(Every(0, pre[d], 0), Every(0, n, 1), Every(n-1, post[d], 0))
			}
			return places
		})
	}
}

package operators

import (
	"fmt"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/mapped"
)

// Gather has slices of the first input, a table, along an axis, which the second input has the indices of: their
// dimensions take the place of the axis. The first dimensions, as many as batch, are common to both.
func Gather(axis, batch int) Operator {
	return func(shapes [][]int) Kernel {
		table, indices := shapes[0], shapes[1]
		if along(axis, table); batch < 0 || batch > axis || batch > len(indices) ||
			!slices.Equal(table[:batch], indices[:batch]) {
			wrong("axis %d of shape %v, %d batches, indices of shape %v", axis, table, batch, indices)
		}
		batches, outer, count := product(table[:batch]), product(table[batch:axis]), product(indices[batch:])
		length, inner := table[axis], product(table[axis+1:])
		return moving(replaced(table, axis, indices[batch:]...), func(out Array, in []Array) {
			size := inner * out.Element.Size()
			dst, src := out.Data, in[0].Data
			rows := make([]int, 0, count)
			for b := range batches {
				rows = rows[:0]
				in[1].indices(b*count, count, length, func(part []int) { rows = append(rows, part...) })
				for range outer {
					pick(dst, src[:length*size], size, rows)
					dst, src = dst[count*size:], src[length*size:]
				}
			}
		})
	}
}

// depth returns for how many dimensions of a shape indices have an index each.
func depth(indices, shape []int) int {
	rank := len(indices)
	if rank == 0 || indices[rank-1] > len(shape) {
		wrong("indices of shape %v for shape %v", indices, shape)
	}
	return indices[rank-1]
}

// GatherSlices has slices of the first input: the last dimension of the second has an index of each of the first
// dimensions.
func GatherSlices() Operator {
	return func(shapes [][]int) Kernel {
		table, indices := shapes[0], shapes[1]
		rest := table[depth(indices, table):]
		return moving(slices.Concat(indices[:len(indices)-1], rest), func(out Array, in []Array) {
			pick(out.Data, in[0].Data, product(rest)*out.Element.Size(), places(in[1], table))
		})
	}
}

// ScatterSlices has the slices of the second input added to zeros of a shape, at the indices that the first has, as
// [GatherSlices] reads it.
func ScatterSlices(shape []int) Operator {
	return func(shapes [][]int) Kernel {
		indices, updates := shapes[0], shapes[1]
		rest := shape[depth(indices, shape):]
		if !slices.Equal(updates, slices.Concat(indices[:len(indices)-1], rest)) {
			wrong("updates of shape %v at indices of shape %v of %v", updates, indices, shape)
		}
		size := product(rest)
		return computing(shape, func(out Array, in []Array) {
			clear(out.Data)
			out.addAt(places(in[0], shape), in[1], size)
		})
	}
}

// GatherElements has elements of the first input, each from its own place except along an axis, where the second input
// has the index.
func GatherElements(axis int) Operator {
	return func(shapes [][]int) Kernel {
		table, indices := shapes[0], shapes[1]
		along(axis, table)
		fits := len(indices) == len(table)
		for d := range min(len(indices), len(table)) {
			fits = fits && (d == axis || indices[d] <= table[d])
		}
		if !fits {
			wrong("elements of %v at indices of shape %v", table, indices)
		}
		far, length := Rows(table), table[axis]
		along := far[axis]
		far[axis] = 0
		return moving(indices, func(out Array, in []Array) {
			size := out.Element.Size()
			var buffer [buffered]int64
			var elements [buffered]int
			rows(indices, [][]int{far}, func(i, n int, offsets, apart []int) {
				for first := 0; first < n; first += buffered {
					part := elements[:min(buffered, n-first)]
					in[1].integers(buffer[:len(part)], i+first, 1)
					for k := range part {
						part[k] = offsets[0] + (first+k)*apart[0] + inRange(buffer[k], length)*along
					}
					pick(out.Data[(i+first)*size:][:len(part)*size], in[0].Data, size, part)
				}
			})
		})
	}
}

// Update has the first input with the second in it: where the third has an index for each dimension, or as near as it
// fits.
func Update() Operator {
	return func(shapes [][]int) Kernel {
		in, part := shapes[0], shapes[1]
		fits := len(part) == len(in) && slices.Equal(shapes[2], []int{len(in)})
		for d := range in {
			fits = fits && part[d] <= in[d]
		}
		if !fits {
			wrong("an update of shape %v at %v of shape %v", part, shapes[2], in)
		}
		return updating(in, func(out Array, in []Array) {
			first, far, size := 0, Rows(out.Shape), out.Element.Size()
			for d, n := range out.Shape {
				first += far[d] * int(min(max(in[2].Whole(d), 0), int64(n-part[d])))
			}
			rows(part, [][]int{far}, func(i, n int, offsets, apart []int) {
				moveRun(out.Data[(first+offsets[0])*size:], in[1].Data[i*size:], n, apart[0]*size, size, size)
			})
		}).moves(0, 1)
	}
}

// Put has the first input with the second in it, at some indices along an axis.
func Put(axis int, indices []int) Operator {
	return func(shapes [][]int) Kernel {
		in, src := shapes[0], shapes[1]
		if along(axis, in); product(src) != product(replaced(in, axis, len(indices))) {
			wrong("%v in %v", src, in)
		}
		outer, inner := product(in[:axis]), product(in[axis+1:])
		var parts []transfer
		place := 0
		for _, p := range piecesOf(indices, len(indices)) {
			parts = append(parts, newTransfer([]int{outer, p.n, inner},
				side{first: p.first * inner, steps: []int{in[axis] * inner, p.step * inner, 1}},
				side{first: place * inner, steps: []int{len(indices) * inner, inner, 1}}))
			place += p.n
		}
		return moving(in, func(out Array, in []Array) {
			copy(out.Data, in[0].Data)
			for i := range parts {
				parts[i].run(out.Element.Size(), out.Data, in[1].Data)
			}
		}).moves(0, 1)
	}
}

// OneHot has the number of the second input where its index along an axis, of a length, is that of the first input, and
// the number of the third elsewhere. An index that the axis does not have is nowhere.
func OneHot(axis, length int) Operator {
	return func(shapes [][]int) Kernel {
		shape := slices.Insert(slices.Clone(shapes[0]), axis, length)
		outer, inner := product(shapes[0][:axis]), product(shapes[0][axis:])
		return computing(shape, func(out Array, in []Array) {
			repeat(out.Data, in[2].Data)
			put, indices := out.putter(in[1]), make([]int64, inner)
			for i := range outer {
				in[0].integers(indices, i*inner, 1)
				for k, n := range indices {
					if n >= 0 && n < int64(length) {
						put((i*length+int(n))*inner+k, 0)
					}
				}
			}
		})
	}
}

// An indexing is of a table by an index for each of some axes. The indices are broadcast to one shape, which takes the
// place of the axes if these follow each other, and comes first otherwise. The other dimensions are kept.
type indexing struct {
	table, axes, indices []int // indices is the shape that all are broadcast to
	outer, middle        []int // dimensions that are kept before the indices, and after them
	row                  int   // elements of the dimensions after the last axis, which follow each other
}

func newIndexing(table, axes []int, shapes [][]int) (x indexing) {
	indices, ok := Broadcast(shapes...)
	if !ok || len(axes) == 0 || len(shapes) != len(axes) {
		wrong("indices of shapes %v", shapes)
	}
	last := axes[len(axes)-1]
	along(last, table)
	x = indexing{table: table, axes: axes, indices: indices, row: product(table[last+1:])}
	first := axes[0]
	if last-first != len(axes)-1 {
		first = 0
	}
	for d := range last {
		switch {
		case slices.Contains(axes, d):
		case d < first:
			x.outer = append(x.outer, d)
		default:
			x.middle = append(x.middle, d)
		}
	}
	return x
}

// shape returns the shape of the result.
func (x *indexing) shape() []int {
	var outer, middle []int
	for _, d := range x.outer {
		outer = append(outer, x.table[d])
	}
	for _, d := range x.middle {
		middle = append(middle, x.table[d])
	}
	return slices.Concat(outer, x.indices, middle, x.table[x.axes[len(x.axes)-1]+1:])
}

// offsets returns where in the table the rows of dimensions begin that are kept, in rows.
func (x *indexing) offsets(dims []int) []int {
	far, shape, strides := Rows(x.table), []int(nil), []int(nil)
	for _, d := range dims {
		shape, strides = append(shape, x.table[d]), append(strides, far[d]/x.row)
	}
	out := make([]int, product(shape))
	walk(shape, [][]int{strides}, func(i int, offset []int) { out[i] = offset[0] })
	return out
}

// rows returns where in the table the rows of a result begin, in rows, for the first of the outer dimensions.
func (x *indexing) rows(indices []Array) []int {
	far, whole := Rows(x.table), Array{Shape: x.indices}
	offsets := make([]int, product(x.indices))
	var buffer [buffered]int64
	for k, d := range x.axes {
		length, step := x.table[d], far[d]/x.row
		together(whole, indices[k:k+1], func(i, n int, places, apart []int) {
			indices[k].integers(buffer[:n], places[0], apart[0])
			for j, index := range buffer[:n] {
				if index < 0 {
					index += int64(length)
				}
				offsets[i+j] += inRange(index, length) * step
			}
		})
	}
	if len(x.middle) == 0 {
		return offsets
	}
	middle := x.offsets(x.middle)
	rows := make([]int, 0, len(offsets)*len(middle))
	for _, offset := range offsets {
		for _, m := range middle {
			rows = append(rows, offset+m)
		}
	}
	return rows
}

// Index has elements of the first input, a table: the inputs after it are indices for each of some axes, of which a
// negative one counts from the end. They are broadcast to one shape, which takes the place of the axes if these follow
// each other, and comes first otherwise.
func Index(axes []int) Operator {
	return func(shapes [][]int) Kernel {
		x := newIndexing(shapes[0], axes, shapes[1:])
		outer := x.offsets(x.outer)
		return moving(x.shape(), func(out Array, in []Array) {
			row, rows, dst := x.row*out.Element.Size(), x.rows(in[1:]), out.Data
			for _, first := range outer {
				pick(dst[:len(rows)*row], in[0].Data[first*row:], row, rows)
				dst = dst[len(rows)*row:]
			}
		})
	}
}

// IndexPut has the first input with the second, which is broadcast, at indices, or added there, see [Index].
func IndexPut(axes []int, add bool) Operator {
	return func(shapes [][]int) Kernel {
		x := newIndexing(shapes[0], axes, shapes[2:])
		part := x.shape()
		if whole, ok := Broadcast(shapes[1], part); !ok || product(whole) != product(part) {
			wrong("%v at indices of %v of %v", shapes[1], part, shapes[0])
		}
		outer := x.offsets(x.outer)
		return moving(shapes[0], func(out Array, in []Array) {
			copy(out.Data, in[0].Data)
			values := New(out.Element, part...)
			Strided(values, in[1], 0, steps(in[1].Shape, part))
			rows := x.rows(in[2:])
			var places []int
			for _, first := range outer {
				for _, place := range rows {
					places = append(places, first+place)
				}
			}
			if add {
				out.addAt(places, values, x.row)
				return
			}
			row, src := x.row*out.Element.Size(), values.Data
			for _, place := range places {
				src = src[copy(out.Data[place*row:][:row], src):]
			}
		}).moves(0, 1)
	}
}

// addAt adds the runs of n elements of another array of the same type to those at places, in runs.
func (a Array) addAt(places []int, src Array, n int) {
	if add, ok := additions.forElement(a.Element); ok {
		add(a, places, src, n)
		return
	}
	for i, place := range places {
		for k := range n {
			dst := a.elem(place*n + k)
			Sum.apply(a.Element, dst, dst, src.elem(i*n+k))
		}
	}
}

// additions are addAt for each type of elements.
var additions = typed[func(a Array, places []int, src Array, n int)]{addAt[int8], addAt[uint8], addAt[int16],
	addAt[int32], addAt[int64], addAt[float32], addAt[float64]}

func addAt[T number](a Array, places []int, src Array, n int) {
	out, done := outputOf[T](a)
	defer done()
	in, size := inputOf[T](src), src.Element.Size()
	for i, place := range places {
		if row := a.Data[place*n*size:]; inPlace(a, src) &&
			combineRow(loopAdd, src.Element, row, row, 1, src.Data[i*n*size:], 1, n) {
			continue
		}
		addRows(out[place*n:][:n], in[i*n:][:n])
	}
}

// Index returns element i, an index of a dimension of length all.
func (a Array) Index(i, length int) int { return inRange(a.Whole(i), length) }

// inRange returns an index of a dimension of length all.
func inRange(n int64, length int) int {
	if uint64(n) >= uint64(length) {
		outOfRange(n, length)
	}
	return int(n)
}

func outOfRange(n int64, length int) { fault.Check(fmt.Errorf("%w: %d of %d", ErrIndex, n, length)) }

// indices calls do with n elements from element i on, indices of a dimension of a length, some at a time.
func (a Array) indices(i, n, length int, do func(indices []int)) {
	var buffer [buffered]int64
	var indices [buffered]int
	for ; n > 0; i, n = i+buffered, n-buffered {
		part := indices[:min(n, buffered)]
		a.integers(buffer[:len(part)], i, 1)
		for k := range part {
			part[k] = inRange(buffer[k], length)
		}
		do(part)
	}
}

// places reads indices, whose last dimension has an index of each of the first dimensions of a shape. It returns where
// the slice of each begins, in slices.
func places(indices Array, shape []int) []int {
	last := len(indices.Shape) - 1
	depth := indices.Shape[last]
	index, out := make([]int64, product(indices.Shape)), make([]int, product(indices.Shape[:last]))
	indices.integers(index, 0, 1)
	for i := range out {
		for d, n := range index[i*depth:][:depth] {
			out[i] = out[i]*shape[d] + inRange(n, shape[d])
		}
	}
	return out
}

// pick fills memory with elements of so many bytes, which have these numbers in the source.
func pick(dst, src []byte, size int, elements []int) {
	if pickTyped, ok := picks.forSize(size); ok && pickTyped(dst, src, elements) {
		return
	}
	for i, element := range elements {
		copy(dst[i*size:][:size], src[element*size:][:size])
	}
}

// picks are pick for each size of elements. They report whether the memory is aligned.
var picks = sized[func(dst, src []byte, elements []int) bool]{pickOf[uint8], pickOf[uint16], pickOf[float32],
	pickOf[int64]}

func pickOf[T mapped.Number](dst, src []byte, elements []int) bool {
	out, ok := mapped.Numbers[T](dst)
	in, aligned := mapped.Numbers[T](src)
	if !ok || !aligned {
		return false
	}
	out = out[:len(elements)]
	for i, element := range elements {
		out[i] = in[element]
	}
	return true
}

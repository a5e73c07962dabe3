package operators

import (
	"fmt"
	"slices"

	"xpwc/internal/fault"
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
			dst := out.Data
			for b := range batches {
				for o := range outer {
					src := in[0].Data[(b*outer+o)*length*size:][:length*size]
					for i := range count {
						dst = dst[copy(dst[:size], src[in[1].Index(b*count+i, length)*size:]):]
					}
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
			size := product(rest) * out.Element.Size()
			places(in[1], table, func(i, offset int) { copy(out.Data[i*size:][:size], in[0].Data[offset*size:]) })
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
			places(in[0], shape, func(i, offset int) {
				for k := range size {
					out.add(offset*size+k, in[1], i*size+k)
				}
			})
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
			rows(indices, [][]int{far}, func(i, n int, offsets, apart []int) {
				for k := range n {
					if k%buffered == 0 {
						in[1].integers(buffer[:min(buffered, n-k)], i+k, 1)
					}
					src := offsets[0] + k*apart[0] + inRange(buffer[k%buffered], length)*along
					copy(out.Data[(i+k)*size:][:size], in[0].Data[src*size:])
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
		return moving(in, func(out Array, in []Array) {
			copy(out.Data, in[0].Data)
			first, far, size := 0, Rows(out.Shape), out.Element.Size()
			for d, n := range out.Shape {
				first += far[d] * int(min(max(in[2].Whole(d), 0), int64(n-part[d])))
			}
			rows(part, [][]int{far}, func(i, n int, offsets, _ []int) {
				copy(out.Data[(first+offsets[0])*size:], in[1].Data[i*size:][:n*size])
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
		outer, inner, length := product(in[:axis]), product(in[axis+1:]), in[axis]
		return moving(in, func(out Array, in []Array) {
			copy(out.Data, in[0].Data)
			row := inner * out.Element.Size()
			src := in[1].Data
			for o := range outer {
				for _, i := range indices {
					src = src[copy(out.Data[(o*length+i)*row:], src[:row]):]
				}
			}
		}).moves(0, 1)
	}
}

// OneHot has the number of the second input where its index along an axis, of a length, is that of the first input, and
// the number of the third elsewhere. An index that the axis does not have is nowhere.
func OneHot(axis, length int) Operator {
	return func(shapes [][]int) Kernel {
		shape, inner := slices.Insert(slices.Clone(shapes[0]), axis, length), product(shapes[0][axis:])
		return computing(shape, func(out Array, in []Array) {
			repeat(out.Data, in[2].Data)
			for i := range product(shapes[0]) {
				if k := in[0].Whole(i); k >= 0 && k < int64(length) {
					copy(out.elem((i/inner*length+int(k))*inner+i%inner), in[1].Data)
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

// offsets returns where in the table the elements of dimensions begin that are kept.
func (x *indexing) offsets(dims []int) []int {
	far, shape, strides := Rows(x.table), []int(nil), []int(nil)
	for _, d := range dims {
		shape, strides = append(shape, x.table[d]), append(strides, far[d])
	}
	out := make([]int, product(shape))
	walk(shape, [][]int{strides}, func(i int, offset []int) { out[i] = offset[0] })
	return out
}

// rows calls do for each row of the result, in order, with its first element in the table.
func (x *indexing) rows(indices []Array, do func(i, offset int)) {
	far, strides := Rows(x.table), make([][]int, len(indices))
	for k, a := range indices {
		strides[k] = steps(a.Shape, x.indices)
	}
	offsets := make([]int, product(x.indices))
	walk(x.indices, strides, func(i int, index []int) {
		for k, d := range x.axes {
			n := indices[k].Whole(index[k])
			if n < 0 {
				n += int64(x.table[d])
			}
			offsets[i] += inRange(n, x.table[d]) * far[d]
		}
	})
	middle, i := x.offsets(x.middle), 0
	for _, outer := range x.offsets(x.outer) {
		for _, offset := range offsets {
			for _, m := range middle {
				do(i, outer+offset+m)
				i++
			}
		}
	}
}

// Index has elements of the first input, a table: the inputs after it are indices for each of some axes, of which a
// negative one counts from the end. They are broadcast to one shape, which takes the place of the axes if these follow
// each other, and comes first otherwise.
func Index(axes []int) Operator {
	return func(shapes [][]int) Kernel {
		x := newIndexing(shapes[0], axes, shapes[1:])
		return moving(x.shape(), func(out Array, in []Array) {
			row := x.row * out.Element.Size()
			element := out.Element.Size()
			x.rows(in[1:], func(i, offset int) { copy(out.Data[i*row:][:row], in[0].Data[offset*element:]) })
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
		return moving(shapes[0], func(out Array, in []Array) {
			copy(out.Data, in[0].Data)
			values := New(out.Element, part...)
			Strided(values, in[1], 0, steps(in[1].Shape, part))
			size := out.Element.Size()
			row := x.row * size
			x.rows(in[2:], func(i, offset int) {
				if !add {
					copy(out.Data[offset*size:], values.Data[i*row:][:row])
					return
				}
				for k := range x.row {
					out.add(offset+k, values, i*x.row+k)
				}
			})
		}).moves(0, 1)
	}
}

// add adds another array's element k, of the same type, to element i.
func (a Array) add(i int, src Array, k int) { Sum.apply(a.Element, a.elem(i), a.elem(i), src.elem(k)) }

// Index returns element i, an index of a dimension of length all.
func (a Array) Index(i, length int) int { return inRange(a.Whole(i), length) }

// inRange returns an index of a dimension of length all.
func inRange(n int64, length int) int {
	if n < 0 || n >= int64(length) {
		fault.Check(fmt.Errorf("%w: %d of %d", ErrIndex, n, length))
	}
	return int(n)
}

// places reads indices, whose last dimension has an index of each of the first dimensions of a shape. It calls do for
// each, with its number and where its slice begins, in slices.
func places(indices Array, shape []int, do func(i, offset int)) {
	last := len(indices.Shape) - 1
	depth := indices.Shape[last]
	for i := range product(indices.Shape[:last]) {
		offset := 0
		for d := range depth {
			offset = offset*shape[d] + indices.Index(i*depth+d, shape[d])
		}
		do(i, offset)
	}
}

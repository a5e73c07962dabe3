package operators

import (
	"fmt"
	"slices"

	"xpwc/internal/fault"
	"xpwc/models"
)

// Take fills an output with elements of an input of as many dimensions: along dimension d, index i of the output is
// index places[d][i] of the input. Where one of these is -1, it is the element given, which is 0 if that is nil.
func Take(out, in Array, places [][]int, missing []byte) {
	if missing == nil {
		missing = make([]byte, out.Element.Size())
	}
	far := Rows(in.Shape)
	walkIndices(out.Shape, func(i int, index []int) {
		src := 0
		for d, k := range index {
			p := places[d][k]
			if p < 0 {
				copy(out.elem(i), missing)
				return
			}
			src += p * far[d]
		}
		copy(out.elem(i), in.elem(src))
	})
}

// MostIndices bounds every dimension that is computed here: lists of indices must not take much more memory than what
// they are of.
const MostIndices = 1 << 22

// Every returns n indices from one on, each a step further.
func Every(start, n, step int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = start + i*step
	}
	return out
}

// Everywhere returns the indices of all elements of a shape, as [Take] has them.
func Everywhere(shape []int) [][]int {
	out := make([][]int, len(shape))
	for d, n := range shape {
		out[d] = Every(0, n, 1)
	}
	return out
}

// Rows returns how far apart in memory neighbours along each dimension are.
func Rows(shape []int) []int {
	out := make([]int, len(shape))
	step := 1
	for i, d := range slices.Backward(shape) {
		out[i] = step
		step *= d
	}
	return out
}

// Join fills an output with inputs one after the other along an axis. Their other dimensions are the output's.
func Join(out Array, axis int, in ...Array) {
	inner := product(out.Shape[axis+1:]) * out.Element.Size()
	row, offset := out.Shape[axis]*inner, 0
	for _, a := range in {
		size := a.Shape[axis] * inner
		for o := range product(out.Shape[:axis]) {
			copy(out.Data[o*row+offset:][:size], a.Data[o*size:])
		}
		offset += size
	}
}

// Gather fills an output with slices of a table along an axis, which indices name: the output has the shape of the
// table with the dimensions of indices in place of the axis. The first dimensions, as many as batch says, are common
// to the table and the indices.
func Gather(out, table, indices Array, axis, batch int) {
	batches := product(table.Shape[:batch])
	outer, length := product(table.Shape[batch:axis]), table.Shape[axis]
	size := product(table.Shape[axis+1:]) * table.Element.Size()
	count := product(indices.Shape[batch:])
	dst := out.Data
	for b := range batches {
		for o := range outer {
			src := table.Data[(b*outer+o)*length*size:][:length*size]
			for i := range count {
				dst = dst[copy(dst[:size], src[indices.Index(b*count+i, length)*size:]):]
			}
		}
	}
}

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

// GatherSlices fills an output with slices of a table: the last dimension of indices has an index of each of the
// table's first dimensions.
func GatherSlices(out, table, indices Array) {
	depth := indices.Shape[len(indices.Shape)-1]
	size := product(table.Shape[depth:]) * table.Element.Size()
	places(indices, table.Shape, func(i, offset int) { copy(out.Data[i*size:][:size], table.Data[offset*size:]) })
}

// ScatterSlices fills an output with zeros and adds slices to it where indices say, as [GatherSlices] reads them.
func ScatterSlices(out, indices, slices Array) {
	clear(out.Data)
	depth := indices.Shape[len(indices.Shape)-1]
	size := product(out.Shape[depth:])
	places(indices, out.Shape, func(i, offset int) {
		for k := range size {
			out.AddTo(offset*size+k, slices, i*size+k)
		}
	})
}

// GatherElements fills an output with elements of a table: each is the one at its own place but along an axis, where
// indices, of the output's shape, say.
func GatherElements(out, table, indices Array, axis int) {
	far := Rows(table.Shape)
	far[axis] = 0
	along := Rows(table.Shape)[axis]
	walk(out.Shape, [][]int{far}, func(i int, places []int) {
		copy(out.elem(i), table.elem(places[0]+indices.Index(i, table.Shape[axis])*along))
	})
}

// At calls do for each element of the shape that several indices are broadcast to, with its number and the place in a
// table that they name: an index for each of the table's dimensions, where one that is negative counts from the end.
func At(table []int, indices []Array, do func(i, offset int)) {
	var shapes [][]int
	for _, a := range indices {
		shapes = append(shapes, a.Shape)
	}
	shape, _ := Broadcast(shapes...)
	strides := make([][]int, len(indices))
	for k, a := range indices {
		strides[k] = steps(a.Shape, shape)
	}
	walk(shape, strides, func(i int, places []int) {
		offset := 0
		for d, a := range indices {
			n := a.Whole(places[d])
			if n < 0 {
				n += int64(table[d])
			}
			offset = offset*table[d] + inRange(n, table[d])
		}
		do(i, offset)
	})
}

// Update fills an output with an input that has an update in it: where one index for each dimension says, or as near as
// it fits.
func Update(out, in, update, start Array) {
	copy(out.Data, in.Data)
	first, far := 0, Rows(in.Shape)
	for d, n := range in.Shape {
		first += far[d] * int(min(max(start.Whole(d), 0), int64(n-update.Shape[d])))
	}
	walk(update.Shape, [][]int{far}, func(i int, places []int) { copy(out.elem(first+places[0]), update.elem(i)) })
}

// TopK fills values with the largest numbers along the input's last dimension, as many as values has there, the
// largest first, and indices with their indices. Of equal ones the first comes first.
func TopK(values, indices, in Array) {
	last := len(in.Shape) - 1
	length, k := in.Shape[last], values.Shape[last]
	for o := range product(in.Shape[:last]) {
		row := Every(0, length, 1)
		slices.SortStableFunc(row, func(a, b int) int {
			switch x, y := in.Number(o*length+a), in.Number(o*length+b); {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return 0 // also if one is no number
		})
		for i, index := range row[:k] {
			copy(values.elem(o*k+i), in.elem(o*length+index))
			putWhole(indices.Element, indices.elem(o*k+i), int64(index))
		}
	}
}

// OneHot fills an output with one number where its index along an axis is what indices say, and with another elsewhere.
// An index that the axis does not have is nowhere.
func OneHot(out, indices, on, off Array, axis int) {
	length, inner := out.Shape[axis], product(out.Shape[axis+1:])
	for i := range product(out.Shape) {
		src, k := i/(inner*length)*inner+i%inner, i/inner%length
		if indices.Whole(src) == int64(k) {
			copy(out.elem(i), on.Data)
		} else {
			copy(out.elem(i), off.Data)
		}
	}
}

// Expand fills an output with an input that is broadcast to it.
func Expand(out, in Array) {
	together(out, []Array{in}, func(i int, places []int) { copy(out.elem(i), in.elem(places[0])) })
}

// Copy makes element i what another array's element k is, of the same type.
func (a Array) Copy(i int, src Array, k int) { copy(a.elem(i), src.elem(k)) }

// AddTo adds another array's element k, of the same type, to element i.
func (a Array) AddTo(i int, src Array, k int) {
	Sum.apply(a.Element, a.elem(i), a.elem(i), src.elem(k))
}

// New returns an array of zeros.
func New(e models.Element, shape ...int) Array {
	return Array{e, shape, make([]byte, e.Size()*product(shape))}
}

// ReverseSequences fills an output with an input whose first elements along an axis are in the other order: for each
// index along the axis batch as many as lengths say.
func ReverseSequences(out, in, lengths Array, axis, batch int) {
	stride, along := product(in.Shape[axis+1:]), in.Shape[axis]
	batches := product(in.Shape[batch+1:])
	for i := range product(in.Shape) {
		n, src := lengths.Index(i/batches%in.Shape[batch], along+1), i
		if pos := i / stride % along; pos < n {
			src += (n - 1 - 2*pos) * stride
		}
		copy(out.elem(i), in.elem(src))
	}
}

// SetDiagonals puts rows of numbers into the diagonals of the matrices that an output's last two dimensions are.
func SetDiagonals(out, diagonals Array) {
	rank := len(out.Shape)
	rows, columns := out.Shape[rank-2], out.Shape[rank-1]
	n := min(rows, columns)
	for i := range product(diagonals.Shape) {
		copy(out.elem(i/n*rows*columns+i%n*(columns+1)), diagonals.elem(i))
	}
}

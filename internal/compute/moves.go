package compute

import (
	"fmt"
	"slices"

	"xpwc/models"
)

// Take fills an output with elements of an input of as many dimensions: along dimension d, index i of the output is
// index places[d][i] of the input. Where one of these is -1, it is the element given, which is 0 if that is nil.
func Take(out, in Array, places [][]int, missing []byte) error {
	if missing == nil {
		missing = make([]byte, out.Element.Size())
	}
	far := Rows(in.Shape)
	walkIndices(out.Shape, func(i int, index []int) {
		from := 0
		for d, at := range index {
			p := places[d][at]
			if p < 0 {
				copy(out.at(i), missing)
				return
			}
			from += p * far[d]
		}
		copy(out.at(i), in.at(from))
	})
	return nil
}

// MostIndices bounds every dimension that is computed here: lists of indices must not take much more memory than what
// they are of.
const MostIndices = 1 << 22

// Every returns n indices from one on, each a step further.
func Every(from, n, step int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = from + i*step
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
func Join(out Array, axis int, in ...Array) error {
	inner := product(out.Shape[axis+1:]) * out.Element.Size()
	row, at := out.Shape[axis]*inner, 0
	for _, a := range in {
		size := a.Shape[axis] * inner
		for o := range product(out.Shape[:axis]) {
			copy(out.Data[o*row+at:][:size], a.Data[o*size:])
		}
		at += size
	}
	return nil
}

// Gather fills an output with slices of a table along an axis, which indices name: the output has the shape of the
// table with the dimensions of indices in place of the axis. The first dimensions, as many as batch says, are common
// to the table and the indices. The error matches [ErrIndex].
func Gather(out, table, indices Array, axis, batch int) error {
	batches := product(table.Shape[:batch])
	outer, all := product(table.Shape[batch:axis]), table.Shape[axis]
	size := product(table.Shape[axis+1:]) * table.Element.Size()
	count := product(indices.Shape[batch:])
	to := out.Data
	for b := range batches {
		for o := range outer {
			from := table.Data[(b*outer+o)*all*size:][:all*size]
			for i := range count {
				n, err := indices.Index(b*count+i, all)
				if err != nil {
					return err
				}
				to = to[copy(to[:size], from[n*size:]):]
			}
		}
	}
	return nil
}

// Index returns element i, an index of a dimension of length all. The error matches [ErrIndex].
func (a Array) Index(i, all int) (int, error) {
	n := a.Whole(i)
	if n < 0 || n >= int64(all) {
		return 0, fmt.Errorf("%w: %d of %d", ErrIndex, n, all)
	}
	return int(n), nil
}

// places reads indices, whose last dimension has an index of each of the first dimensions of a shape. It calls do for
// each, with its number and where its slice begins, in slices.
func places(indices Array, shape []int, do func(i, at int)) error {
	last := len(indices.Shape) - 1
	depth := indices.Shape[last]
	for i := range product(indices.Shape[:last]) {
		at := 0
		for d := range depth {
			n, err := indices.Index(i*depth+d, shape[d])
			if err != nil {
				return err
			}
			at = at*shape[d] + n
		}
		do(i, at)
	}
	return nil
}

// GatherSlices fills an output with slices of a table: the last dimension of indices has an index of each of the
// table's first dimensions. The error matches [ErrIndex].
func GatherSlices(out, table, indices Array) error {
	depth := indices.Shape[len(indices.Shape)-1]
	size := product(table.Shape[depth:]) * table.Element.Size()
	return places(indices, table.Shape, func(i, at int) { copy(out.Data[i*size:][:size], table.Data[at*size:]) })
}

// ScatterSlices fills an output with zeros and adds slices to it where indices say, as [GatherSlices] reads them. The
// error matches [ErrIndex].
func ScatterSlices(out, indices, slices Array) error {
	clear(out.Data)
	depth := indices.Shape[len(indices.Shape)-1]
	size := product(out.Shape[depth:])
	return places(indices, out.Shape, func(i, at int) {
		for k := range size {
			out.AddTo(at*size+k, slices, i*size+k)
		}
	})
}

// GatherElements fills an output with elements of a table: each is the one at its own place but along an axis, where
// indices, of the output's shape, say. The error matches [ErrIndex].
func GatherElements(out, table, indices Array, axis int) (err error) {
	far := Rows(table.Shape)
	far[axis] = 0
	along := Rows(table.Shape)[axis]
	walk(out.Shape, [][]int{far}, func(i int, places []int) {
		n, wrong := indices.Index(i, table.Shape[axis])
		if wrong != nil {
			err = wrong
		}
		copy(out.at(i), table.at(places[0]+n*along))
	})
	return err
}

// At calls do for each element of the shape that several indices are broadcast to, with its number and the place in a
// table that they name: an index for each of the table's dimensions, where one that is negative counts from the end.
// The error matches [ErrIndex].
func At(table []int, indices []Array, do func(i, at int)) error {
	var shapes [][]int
	for _, a := range indices {
		shapes = append(shapes, a.Shape)
	}
	shape, _ := Broadcast(shapes...)
	all := make([][]int, len(indices))
	for k, a := range indices {
		all[k] = steps(a.Shape, shape)
	}
	var wrong error
	walk(shape, all, func(i int, places []int) {
		at := 0
		for d, a := range indices {
			n := a.Whole(places[d])
			if n < 0 {
				n += int64(table[d])
			}
			if n < 0 || n >= int64(table[d]) {
				wrong = fmt.Errorf("%w: %d of %d", ErrIndex, n, table[d])
				n = 0
			}
			at = at*table[d] + int(n)
		}
		if wrong == nil {
			do(i, at)
		}
	})
	return wrong
}

// Update fills an output with an input that has an update in it: where one index for each dimension says, or as near as
// it fits.
func Update(out, in, update, at Array) error {
	copy(out.Data, in.Data)
	first, far := 0, Rows(in.Shape)
	for d, n := range in.Shape {
		first += far[d] * int(min(max(at.Whole(d), 0), int64(n-update.Shape[d])))
	}
	walk(update.Shape, [][]int{far}, func(i int, places []int) { copy(out.at(first+places[0]), update.at(i)) })
	return nil
}

// ranked is a number with its index.
type ranked struct {
	number float64
	at     int
}

// TopK fills values with the largest numbers along the input's last dimension, as many as values has there, the
// largest first, and indices with their indices. Of equal ones the first comes first.
func TopK(values, indices, in Array) error {
	last := len(in.Shape) - 1
	length, k := in.Shape[last], values.Shape[last]
	row := make([]ranked, length)
	for o := range product(in.Shape[:last]) {
		for i := range row {
			row[i] = ranked{in.Number(o*length + i), i}
		}
		slices.SortStableFunc(row, func(a, b ranked) int {
			switch {
			case a.number > b.number:
				return -1
			case a.number < b.number:
				return 1
			}
			return 0 // also if one is no number
		})
		for i, r := range row[:k] {
			copy(values.at(o*k+i), in.at(o*length+r.at))
			putWhole(indices.Element, indices.at(o*k+i), int64(r.at))
		}
	}
	return nil
}

// OneHot fills an output with one number where its index along an axis is what indices say, and with another elsewhere.
// An index that the axis does not have is nowhere.
func OneHot(out, indices, on, off Array, axis int) error {
	length, inner := out.Shape[axis], product(out.Shape[axis+1:])
	for i := range product(out.Shape) {
		from, k := i/(inner*length)*inner+i%inner, i/inner%length
		if indices.Whole(from) == int64(k) {
			copy(out.at(i), on.Data)
		} else {
			copy(out.at(i), off.Data)
		}
	}
	return nil
}

// Expand fills an output with an input that is broadcast to it.
func Expand(out, in Array) error {
	together(out, []Array{in}, func(i int, places []int) { copy(out.at(i), in.at(places[0])) })
	return nil
}

// Copy makes element i what another array's element k is, of the same type.
func (a Array) Copy(i int, from Array, k int) { copy(a.at(i), from.at(k)) }

// AddTo adds another array's element k, of the same type, to element i.
func (a Array) AddTo(i int, from Array, k int) { Sum.of(a.Element, a.at(i), a.at(i), from.at(k)) }

// New returns an array of zeros.
func New(e models.Element, shape ...int) Array {
	return Array{e, shape, make([]byte, e.Size()*product(shape))}
}

// ReverseSequences fills an output with an input whose first elements along an axis are in the other order: for each
// index along the axis batch as many as lengths say. The error matches ErrIndex.
func ReverseSequences(out, in, lengths Array, axis, batch int) error {
	stride, along := product(in.Shape[axis+1:]), in.Shape[axis]
	batches := product(in.Shape[batch+1:])
	for i := range product(in.Shape) {
		n, from := lengths.Whole(i/batches%in.Shape[batch]), i
		if n < 0 || n > int64(along) {
			return fmt.Errorf("%w: %d of %d", ErrIndex, n, along)
		}
		if at := i / stride % along; at < int(n) {
			from += (int(n) - 1 - 2*at) * stride
		}
		copy(out.at(i), in.at(from))
	}
	return nil
}

// SetDiagonals puts rows of numbers into the diagonals of the matrices that an output's last two dimensions are.
func SetDiagonals(out, diagonals Array) error {
	rank := len(out.Shape)
	rows, columns := out.Shape[rank-2], out.Shape[rank-1]
	n := min(rows, columns)
	for i := range product(diagonals.Shape) {
		copy(out.at(i/n*rows*columns+i%n*(columns+1)), diagonals.at(i))
	}
	return nil
}

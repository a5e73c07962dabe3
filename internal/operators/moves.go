package operators

import (
	"fmt"
	"slices"
	"sync"

	"xpwc/internal/fault"
	"xpwc/models"
)

// taking returns the kernel whose output has along dimension d the input's elements at places()[d], see [take]. The
// places are computed when it first runs.
func taking(shape []int, places func() [][]int) Kernel {
	once := sync.OnceValue(places)
	return moving(shape, func(out Array, in []Array) { take(out.shaped(shape), in[0], once(), nil) })
}

// Take has elements of the input: along the dimensions from an axis on those at places, and along the others all.
func Take(axis int, places ...[]int) Operator {
	return func(shapes [][]int) Kernel {
		shape := slices.Clone(shapes[0])
		for i, p := range places {
			along(axis+i, shape)
			if len(p) > 0 && (slices.Min(p) < 0 || slices.Max(p) >= shape[axis+i]) {
				wrong("elements %d to %d of dimension %d of %v", slices.Min(p), slices.Max(p), axis+i, shapes[0])
			}
			shape[axis+i] = len(p)
		}
		return taking(shape, func() [][]int {
			everywhere := Everywhere(shapes[0])
			copy(everywhere[axis:], places)
			return everywhere
		})
	}
}

// Reverse has the input's elements along axes in the reverse order.
func Reverse(axes []int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		for _, d := range axes {
			along(d, in)
		}
		return taking(in, func() [][]int {
			places := Everywhere(in)
			for _, d := range axes {
				places[d] = Every(in[d]-1, in[d], -1)
			}
			return places
		})
	}
}

// Tile has the input several times along each dimension. There may be more dimensions than the input has, which come
// first.
func Tile(times []int) Operator {
	return func(shapes [][]int) Kernel {
		extra := len(times) - len(shapes[0])
		if extra < 0 || slices.Min(append(times, 1)) < 1 {
			wrong("%v times an input of shape %v", times, shapes[0])
		}
		in := append(ones(extra), shapes[0]...)
		shape := slices.Clone(in)
		for d, n := range times {
			if n > MostIndices/in[d] {
				wrong("%v times an input of shape %v", times, shapes[0])
			}
			shape[d] *= n
		}
		k := taking(shape, func() [][]int {
			places := Everywhere(in)
			for d, n := range times {
				places[d] = slices.Repeat(places[d], n)
			}
			return places
		})
		run := k.Run
		k.Run = func(out, src []Array) { run(out, []Array{src[0].shaped(in)}) }
		return k
	}
}

// MirrorPad puts the mirror image of the input before and after each dimension: with the elements at the edge, or
// without.
func MirrorPad(pre, post []int, edge bool) Operator {
	first := 1 // element of the mirror image
	if edge {
		first = 0
	}
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		if len(pre) != len(in) || len(post) != len(in) {
			wrong("paddings of %v and %v for shape %v", pre, post, in)
		}
		shape := slices.Clone(in)
		for d, n := range in {
			if limit := n - first; pre[d] < 0 || post[d] < 0 || pre[d] > limit || post[d] > limit {
				wrong("paddings of %v and %v for shape %v", pre, post, in)
			}
			shape[d] += pre[d] + post[d]
		}
		return taking(shape, func() [][]int {
			places := make([][]int, len(in))
			for d, n := range in {
				places[d] = slices.Concat(Every(pre[d]-1+first, pre[d], -1), Every(0, n, 1),
					Every(n-1-first, post[d], -1))
			}
			return places
		})
	}
}

// Expand broadcasts the input to a shape.
func Expand(shape []int) Operator {
	return func(shapes [][]int) Kernel {
		if whole, ok := Broadcast(shapes[0], shape); !ok || !slices.Equal(whole, shape) {
			wrong("shape %v for %v", shape, shapes[0])
		}
		return moving(shape, func(out Array, in []Array) { Strided(out, in[0], 0, steps(in[0].Shape, shape)) })
	}
}

// AsStrided fills a shape with elements of the input: the first is number offset, and along dimension d they are
// strides[d] apart.
func AsStrided(shape, strides []int, offset int) Operator {
	return func(shapes [][]int) Kernel {
		last := offset
		for d, n := range shape {
			last += (n - 1) * strides[d]
		}
		if len(strides) != len(shape) || offset < 0 || last >= product(shapes[0]) {
			wrong("elements from %d, %v apart, of shape %v", offset, strides, shapes[0])
		}
		return moving(shape, func(out Array, in []Array) { Strided(out, in[0], offset, strides) })
	}
}

// Unfold has slices of a size along an axis, a step apart: the slices are along the axis, and the elements of each come
// last.
func Unfold(axis, size, step int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		if along(axis, in); size < 1 || step < 1 || size > in[axis] {
			wrong("slices of %d, %d apart, along axis %d of %v", size, step, axis, in)
		}
		strides := Rows(in)
		strides = append(strides, strides[axis])
		strides[axis] *= step
		return AsStrided(append(replaced(in, axis, (in[axis]-size)/step+1), size), strides, 0)(shapes)
	}
}

// ReverseSequences has the first elements along an axis in the reverse order: for each index along the axis batch as
// many as the second input has.
func ReverseSequences(axis, batch int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		along(axis, in)
		along(batch, in)
		if axis == batch || !slices.Equal(shapes[1], []int{in[batch]}) {
			wrong("%v lengths along axis %d, for each of axis %d, of shape %v", shapes[1], axis, batch, in)
		}
		first, last := min(axis, batch), max(axis, batch)
		between, inner := product(in[first+1:last]), product(in[last+1:])
		return moving(in, func(out Array, src []Array) {
			size, data := inner*out.Element.Size(), src[0].Data
			lengths := make([]int, 0, in[batch])
			src[1].indices(0, in[batch], in[axis]+1, func(part []int) { lengths = append(lengths, part...) })
			if copy(out.Data, data); axis == last {
				for i := range product(in[:axis]) {
					first, n := i*in[axis]*size, lengths[i/between%in[batch]]*size
					reverse(out.Data[first:][:n], data[first:][:n], size)
				}
				return
			}
			row := between * in[batch] * size // of one index along the axis
			for o := range product(in[:axis]) {
				block := o * in[axis] * row
				for place := range in[axis] {
					for i := range between * in[batch] {
						if n := lengths[i%in[batch]]; place < n {
							copy(out.Data[block+place*row+i*size:][:size], data[block+(n-1-place)*row+i*size:])
						}
					}
				}
			}
		})
	}
}

// Diagonals has matrices of zeros whose diagonals are the rows of the input.
func Diagonals() Operator {
	return func(shapes [][]int) Kernel {
		rank := len(shapes[0])
		along(rank-1, shapes[0])
		return moving(append(slices.Clone(shapes[0]), shapes[0][rank-1]), func(out Array, in []Array) {
			clear(out.Data)
			setDiagonals(out, in[0])
		})
	}
}

// SetDiagonals has the matrices of the first input with the rows of the second as their diagonals.
func SetDiagonals() Operator {
	return func(shapes [][]int) Kernel {
		in, rows := shapes[0], len(shapes[0])-2
		if rows < 0 || !slices.Equal(shapes[1], append(slices.Clone(in[:rows]), min(in[rows], in[rows+1]))) {
			wrong("diagonals of shape %v in shape %v", shapes[1], in)
		}
		return moving(in, func(out Array, in []Array) {
			copy(out.Data, in[0].Data)
			setDiagonals(out, in[1])
		}).moves(0, 1)
	}
}

// Copy has the same elements as the input, in its shape.
func Copy() Operator {
	return func(shapes [][]int) Kernel {
		return moving(shapes[0], copyFirst)
	}
}

func copyFirst(out Array, in []Array) { copy(out.Data, in[0].Data) }

// Reshape has the same elements as the input in another shape, of which the first dimension that is 0 takes what the
// others leave.
func Reshape(shape []int) Operator {
	return func(shapes [][]int) Kernel {
		whole := fault.Value(Elements(shapes[0]...))
		out, free, rest := append([]int{}, shape...), -1, 1
		for i, d := range out {
			switch {
			case d == 0 && free < 0:
				free = i
			case d <= 0 || d > MaxElements/rest:
				wrong("the new shape %v", shape)
			default:
				rest *= d
			}
		}
		if free >= 0 {
			out[free] = whole / rest
			rest *= out[free]
		}
		if rest != whole {
			wrong("the new shape %v for %d elements", shape, whole)
		}
		return moving(out, copyFirst)
	}
}

// Permutation reports whether order has each number below n once.
func Permutation(order []int, n int) bool {
	seen := make([]bool, n)
	for _, d := range order {
		if d < 0 || d >= n || seen[d] {
			return false
		}
		seen[d] = true
	}
	return len(order) == n
}

// Transpose has as dimension i of the output dimension order[i] of the input.
func Transpose(order []int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		if !Permutation(order, len(in)) {
			wrong("%v is no permutation of %d dimensions", order, len(in))
		}
		far := Rows(in)
		var shape, strides []int
		for _, d := range order {
			shape, strides = append(shape, in[d]), append(strides, far[d])
		}
		return moving(shape, func(out Array, in []Array) { Strided(out, in[0], 0, strides) })
	}
}

// Slice has the part of the input of some sizes that begins at offsets.
func Slice(offsets, sizes []int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		offset, strides, fits := 0, Rows(in), len(offsets) == len(in) && len(sizes) == len(in)
		for d, n := range in {
			if fits && sizes[d] == 0 {
				fault.Check(Unsupported{fmt.Errorf("a part of sizes %v, of which one is 0", sizes)})
			}
			if fits = fits && offsets[d] <= n && sizes[d] <= n-offsets[d]; fits {
				offset += offsets[d] * strides[d]
			}
		}
		if !fits {
			wrong("a part at %v of sizes %v of shape %v", offsets, sizes, in)
		}
		return moving(sizes, func(out Array, in []Array) { Strided(out, in[0], offset, strides) })
	}
}

// Pad has a number before and after each dimension of the first input: that of the second, or 0 if there is none.
func Pad(pre, post []int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		fits := len(pre) == len(in) && len(post) == len(in)
		var shape []int
		for d, n := range in {
			if fits = fits && int64(pre[d])+int64(n)+int64(post[d]) <= MaxElements; fits {
				shape = append(shape, pre[d]+n+post[d])
			}
		}
		if !fits {
			wrong("%v and %v elements around shape %v", pre, post, in)
		}
		places := sync.OnceValue(func() [][]int {
			places := Everywhere(in)
			for d := range places {
				places[d] = slices.Concat(Every(-1, pre[d], 0), places[d], Every(-1, post[d], 0))
			}
			return places
		})
		return moving(shape, func(out Array, in []Array) {
			var number []byte
			if len(in) > 1 {
				number = in[1].Data
			}
			take(out, in[0], places(), number)
		})
	}
}

// PadWith is [Pad] with a number.
func PadWith(pre, post []int, number float64) Operator {
	return func(shapes [][]int) Kernel {
		pad := Pad(pre, post)(shapes)
		return moving(pad.Shapes[0], func(out Array, in []Array) {
			pad.Run([]Array{out}, []Array{in[0], Number(out.Element, number)})
		})
	}
}

// Concatenate has the inputs one after the other along an axis; a negative one counts from the end.
func Concatenate(axis int) Operator {
	return func(shapes [][]int) Kernel {
		out, axis := slices.Clone(shapes[0]), axis
		if axis < 0 {
			axis += len(out)
		}
		along(axis, out)
		for _, in := range shapes[1:] {
			for i := range max(len(in), len(out)) {
				if len(in) != len(out) || i != axis && in[i] != out[i] {
					wrong("shapes %v and %v along axis %d", shapes[0], in, axis)
				}
			}
			if in[axis] > MaxElements-out[axis] {
				wrong("more than %d elements along axis %d", MaxElements, axis)
			}
			out[axis] += in[axis]
		}
		outer, inner := product(out[:axis]), product(out[axis+1:])
		return moving(out, func(out Array, in []Array) {
			size, dst := inner*out.Element.Size(), out.Data
			for o := range outer {
				for k, a := range in {
					n := shapes[k][axis] * size
					dst = dst[copy(dst, a.Data[o*n:][:n]):]
				}
			}
		}).moves(Every(0, len(shapes), 1)...)
	}
}

// take fills an output with elements of an input of as many dimensions: along dimension d, index i of the output is
// index places[d][i] of the input. Where one of these is -1, it is the element missing, which is 0 if that is nil.
func take(out, in Array, places [][]int, missing []byte) {
	cell, last := out.Element.Size(), len(places)-1 // bytes that are moved together, and the dimension of them
	if missing == nil {
		missing = make([]byte, cell)
	}
	for ; last > 0 && slices.Equal(places[last], Every(0, in.Shape[last], 1)); last-- {
		cell *= in.Shape[last]
	}
	if last < 0 {
		copy(out.Data, in.Data[:cell])
		return
	}
	inner, far := places[last], Rows(in.Shape[:last+1])
	pieces, dst, index := segmentsOf(inner), out.Data, make([]int, last)
	if len(pieces) > len(inner)/4 && slices.Min(inner) >= 0 {
		pieces = nil
	}
	row, latest := len(inner)*cell, []byte(nil) // the row before, of latestOffset
	latestOffset := 0
	for range product(out.Shape[:last]) {
		offset, inside := 0, true
		for d, i := range index {
			inside = inside && places[d][i] >= 0
			offset += places[d][i] * far[d]
		}
		switch {
		case !inside:
			repeat(dst[:row], missing)
		case latest != nil && offset == latestOffset:
			copy(dst, latest)
		default:
			moveRow(dst[:row], in.Data[offset*cell:], cell, inner, pieces, missing)
			latest, latestOffset = dst[:row], offset
		}
		dst = dst[row:]
		for d := last - 1; d >= 0; d-- {
			if index[d]++; index[d] < out.Shape[d] {
				break
			}
			index[d] = 0
		}
	}
}

// A segment is so many places from one on that follow each other, or the same backwards, or that are all -1.
type segment struct {
	place, n  int
	backwards bool
}

func segmentsOf(places []int) (out []segment) {
	for _, p := range places {
		k := len(out) - 1
		switch {
		case k < 0:
			out = append(out, segment{p, 1, false})
		case p < 0 && out[k].place < 0, p > 0 && out[k].place >= 0 && !out[k].backwards && p == out[k].place+out[k].n:
			out[k].n++
		case p >= 0 && out[k].place >= 0 && (out[k].backwards || out[k].n == 1) && p == out[k].place-out[k].n:
			out[k].n++
			out[k].backwards = true
		default:
			out = append(out, segment{p, 1, false})
		}
	}
	return out
}

// moveRow moves cells from places, in segments if there are any.
func moveRow(dst, src []byte, cell int, places []int, pieces []segment, missing []byte) {
	if pieces == nil {
		pick(dst, src, cell, places)
		return
	}
	for _, r := range pieces {
		n := r.n * cell
		switch {
		case r.place < 0:
			repeat(dst[:n], missing)
		case r.backwards:
			reverse(dst[:n], src[(r.place-r.n+1)*cell:][:n], cell)
		default:
			copy(dst[:n], src[r.place*cell:])
		}
		dst = dst[n:]
	}
}

// reverse copies cells of so many bytes in the reverse order.
func reverse(dst, src []byte, size int) {
	if reverseRow(size, dst, src, len(src)/size) {
		return
	}
	for i := len(src) - size; i >= 0; i -= size {
		dst = dst[copy(dst, src[i:][:size]):]
	}
}

// MostIndices bounds every dimension that is computed here: lists of indices must not take much more memory than
// the elements.
const MostIndices = 1 << 22

// Every returns n indices from one on, each a step further.
func Every(start, n, step int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = start + i*step
	}
	return out
}

func ones(n int) []int { return Every(1, n, 0) }

// Everywhere returns the indices of all elements of a shape, as take has them.
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

// New returns an array of zeros.
func New(e models.Element, shape ...int) Array {
	return Array{e, shape, make([]byte, e.Size()*product(shape))}
}

// setDiagonals puts rows of numbers into the diagonals of the matrices that an output's last two dimensions are.
func setDiagonals(out, diagonals Array) {
	rank := len(out.Shape)
	rows, columns := out.Shape[rank-2], out.Shape[rank-1]
	n := min(rows, columns)
	for i := range product(diagonals.Shape) {
		copy(out.elem(i/n*rows*columns+i%n*(columns+1)), diagonals.elem(i))
	}
}

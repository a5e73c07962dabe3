package operators

import (
	"fmt"
	"slices"
	"sync"

	"xpwc/internal/fault"
	"xpwc/models"
)

// taking returns the kernel whose output has along dimension d the elements at places()[d] of an input of a shape, see
// [taker]. The places are computed when it first runs.
func taking(in, shape []int, places func() [][]int) Kernel {
	once := sync.OnceValue(func() func(out, in, missing []byte, size int) { return taker(in, places()) })
	return moving(shape, func(out Array, in []Array) { once()(out.Data, in[0].Data, nil, out.Element.Size()) })
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
		return taking(shapes[0], shape, func() [][]int {
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
		return taking(in, in, func() [][]int {
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
		return taking(in, shape, func() [][]int {
			places := Everywhere(in)
			for d, n := range times {
				places[d] = slices.Repeat(places[d], n)
			}
			return places
		})
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
		return taking(in, shape, func() [][]int {
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
		return stridedKernel(shape, 0, steps(shapes[0], shape))
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
		return stridedKernel(shape, offset, strides)
	}
}

// SpaceToBatch has each pixel of a block of images, [batch, height, width, channels], in an image of its own: for each
// pixel of the block all of the batch.
func SpaceToBatch(height, width int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		if len(in) != 4 || height < 1 || width < 1 || in[1]%height != 0 || in[2]%width != 0 {
			wrong("blocks of %d by %d of shape %v", height, width, in)
		}
		far, blocks := Rows(in), []int{height, width, in[0], in[1] / height, in[2] / width, in[3]}
		strides := []int{far[1], far[2], far[0], height * far[1], width * far[2], 1}
		k := stridedKernel(blocks, 0, strides)
		k.Shapes = [][]int{{product(blocks[:3]), blocks[3], blocks[4], in[3]}}
		return k
	}
}

// BatchToSpace is the inverse of [SpaceToBatch].
func BatchToSpace(height, width int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		if len(in) != 4 || height < 1 || width < 1 || in[0]%(height*width) != 0 {
			wrong("blocks of %d by %d of shape %v", height, width, in)
		}
		far, images := Rows(in), in[0]/(height*width)
		blocks := []int{images, in[1], height, in[2], width, in[3]}
		strides := []int{far[0], far[1], width * images * far[0], far[2], images * far[0], 1}
		k := stridedKernel(blocks, 0, strides)
		k.Shapes = [][]int{{images, in[1] * height, in[2] * width, in[3]}}
		return k
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
					if first, n := i*in[axis]*size, lengths[i/between%in[batch]]; n > 0 {
						reverse(out.Data[first:], data[first:], n, inner, out.Element.Size())
					}
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
		return stridedKernel(shape, 0, strides)
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
		return stridedKernel(sizes, offset, strides)
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
		fill := sync.OnceValue(func() func(out, in, missing []byte, size int) {
			places := Everywhere(in)
			for d := range places {
				places[d] = slices.Concat(Every(-1, pre[d], 0), places[d], Every(-1, post[d], 0))
			}
			return taker(in, places)
		})
		return moving(shape, func(out Array, in []Array) {
			var number []byte
			if len(in) > 1 {
				number = in[1].Data
			}
			fill()(out.Data, in[0].Data, number, out.Element.Size())
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
		parts, place, far := make([]transfer, len(shapes)), 0, Rows(out)
		for k, in := range shapes {
			parts[k] = newTransfer(in, side{first: place, steps: far}, side{steps: Rows(in)})
			place += in[axis] * far[axis]
		}
		return moving(out, func(out Array, in []Array) {
			for k := range parts {
				parts[k].run(out.Element.Size(), out.Data, in[k].Data)
			}
		}).moves(Every(0, len(shapes), 1)...)
	}
}

// take fills an output with elements of an input, see [taker].
func take(out, in Array, places [][]int, missing []byte) {
	taker(in.Shape, places)(out.Data, in.Data, missing, out.Element.Size())
}

// taker returns what fills an output with elements of an input of a shape: along dimension d, index i of the output is
// index places[d][i] of the input. Where one of these is -1, it is the element missing, which is 0 if that is nil.
func taker(in []int, places [][]int) func(out, in, missing []byte, size int) {
	p, ok := newPattern(in, places)
	return func(out, src, missing []byte, size int) {
		if missing == nil {
			missing = make([]byte, size)
		}
		if ok {
			p.run(size, out, src, missing)
		} else {
			takeRows(out, src, size, in, places, missing)
		}
	}
}

// takeRows is [taker] row by row: the places have no pattern.
func takeRows(dst, src []byte, size int, in []int, places [][]int, missing []byte) {
	cell, last := size, len(places)-1 // bytes that are moved together, and the dimension of them
	for ; last > 0 && slices.Equal(places[last], Every(0, in[last], 1)); last-- {
		cell *= in[last]
	}
	inner, far := places[last], Rows(in[:last+1])
	gaps := slices.Min(inner) < 0
	row, latest := len(inner)*cell, []byte(nil) // the row before, of latestOffset
	latestOffset, index := 0, make([]int, last)
	for len(dst) > 0 {
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
			if latest, latestOffset = dst[:row], offset; gaps {
				pickWithGaps(latest, src[offset*cell:], cell, inner, missing)
			} else {
				pick(latest, src[offset*cell:], cell, inner)
			}
		}
		dst = dst[row:]
		for d := last - 1; d >= 0; d-- {
			if index[d]++; index[d] < len(places[d]) {
				break
			}
			index[d] = 0
		}
	}
}

// pickWithGaps is [pick] of cells, of which -1 is missing.
func pickWithGaps(dst, src []byte, cell int, places []int, missing []byte) {
	for i, place := range places {
		if place < 0 {
			repeat(dst[i*cell:][:cell], missing)
		} else {
			copy(dst[i*cell:][:cell], src[place*cell:])
		}
	}
}

// reverse copies n elements of so many bytes, in rows, the last row first.
func reverse(dst, src []byte, n, row, size int) {
	t := newTransfer([]int{n, row}, side{steps: []int{row, 1}}, side{first: (n - 1) * row, steps: []int{-row, 1}})
	t.run(size, dst, src)
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

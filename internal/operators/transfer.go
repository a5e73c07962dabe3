package operators

import "slices"

// A transfer copies elements between two arrays. Neighbours along dimension d of its shape are dst.steps[d] elements
// apart in the one, and src.steps[d] in the other.
type transfer struct {
	shape    []int
	dst, src side
}

// A side is where the elements of a transfer are in an array: the first, how far apart neighbours along each dimension
// are, and the element after the last.
type side struct {
	first int
	steps []int
	end   int
}

// newTransfer returns the transfer of a shape. As many dimensions as can be become one.
func newTransfer(shape []int, dst, src side) transfer {
	t := transfer{dst: dst, src: src}
	t.dst.bound(shape)
	t.src.bound(shape)
	t.dst.steps, t.src.steps = nil, nil
	for d, n := range shape {
		if n == 1 {
			continue
		}
		a, b, last := dst.steps[d], src.steps[d], len(t.shape)-1
		if last >= 0 && t.dst.steps[last] == a*n && t.src.steps[last] == b*n {
			t.shape[last], t.dst.steps[last], t.src.steps[last] = t.shape[last]*n, a, b
			continue
		}
		t.shape, t.dst.steps, t.src.steps = append(t.shape, n), append(t.dst.steps, a), append(t.src.steps, b)
	}
	t.turn()
	return t
}

// bound sets the element after the last. A side that begins before the array has no bound.
func (s *side) bound(shape []int) {
	low, high := s.first, s.first
	for d, n := range shape {
		low, high = min(low, low+(n-1)*s.steps[d]), max(high, high+(n-1)*s.steps[d])
	}
	if low < 0 {
		wrong("elements from %d, %v apart, of shape %v", s.first, s.steps, shape)
	}
	s.end = high + 1
}

// turn makes the dimension along which the source's elements follow each other the last but one, if it is not the last:
// together with that it is a matrix which is turned.
func (t *transfer) turn() {
	last := len(t.shape) - 1
	d := slices.Index(t.src.steps, 1)
	if d < 0 || d >= last-1 || t.src.steps[last] == 1 || t.dst.steps[last] != 1 {
		return
	}
	for _, list := range [][]int{t.shape, t.dst.steps, t.src.steps} {
		n := list[d]
		copy(list[d:last], list[d+1:last])
		list[last-1] = n
	}
}

// run copies elements of so many bytes.
func (t *transfer) run(size int, dst, src []byte) {
	dst, src = dst[:t.dst.end*size], src[:t.src.end*size]
	if len(t.shape) == 0 {
		copy(dst[t.dst.first*size:][:size], src[t.src.first*size:])
		return
	}
	if moveElements(size, dst, src, t) {
		return
	}
	walk(t.shape, [][]int{t.dst.steps, t.src.steps}, func(_ int, places []int) {
		copy(dst[(t.dst.first+places[0])*size:][:size], src[(t.src.first+places[1])*size:])
	})
}

// Strided fills an output with elements of an input: the first is number offset, and along dimension d they are
// strides[d] apart.
func Strided(out, in Array, offset int, strides []int) {
	t := newTransfer(out.Shape, side{steps: Rows(out.Shape)}, side{first: offset, steps: strides})
	t.run(out.Element.Size(), out.Data, in.Data)
}

// stridedKernel returns the kernel that is [Strided] for an output of a shape.
func stridedKernel(shape []int, offset int, strides []int) Kernel {
	t := newTransfer(shape, side{steps: Rows(shape)}, side{first: offset, steps: strides})
	return moving(shape, func(out Array, in []Array) { t.run(out.Element.Size(), out.Data, in[0].Data) })
}

// A piece is n indices of a dimension from one on, each a step further, or none of its indices.
type piece struct {
	first, n, step int
	missing        bool
}

// piecesOf returns the pieces of a list of indices, of which -1 is missing: at most limit, or nil.
func piecesOf(indices []int, limit int) (out []piece) {
	for len(indices) > 0 {
		p := piece{first: indices[0], n: 1, missing: indices[0] < 0}
		for ; p.n < len(indices) && (indices[p.n] < 0) == p.missing; p.n++ {
			if step := indices[p.n] - indices[p.n-1]; p.n == 1 {
				p.step = step
			} else if step != p.step {
				break
			}
		}
		if out, indices = append(out, p), indices[p.n:]; len(out) > limit {
			return nil
		}
	}
	return out
}

// A pattern is how an output is made of an input, or of one element where that is missing.
type pattern struct{ moves, fills []transfer }

// newPattern returns how an output has along dimension d the input's elements at places[d], of which -1 is missing. It
// is not ok if that takes many transfers.
func newPattern(in []int, places [][]int) (p pattern, ok bool) {
	const limit = 128
	pieces, shape, count := make([][]piece, len(places)), make([]int, len(places)), 1
	for d, indices := range places {
		shape[d] = len(indices)
		if pieces[d] = piecesOf(indices, limit/count); pieces[d] == nil {
			return pattern{}, false
		}
		count *= len(pieces[d])
	}
	p.add(pieces, side{steps: Rows(shape)}, side{steps: Rows(in)}, shape, 0)
	return p, true
}

// add adds the transfers of the pieces of a dimension, and of those after it.
func (p *pattern) add(pieces [][]piece, dst, src side, shape []int, d int) {
	if d == len(pieces) {
		p.moves = append(p.moves, newTransfer(shape, dst, src))
		return
	}
	for _, piece := range pieces[d] {
		part, cut := slices.Clone(shape), side{src.first + piece.first*src.steps[d], slices.Clone(src.steps), 0}
		part[d] = piece.n
		cut.steps[d] *= piece.step
		if piece.missing {
			p.fills = append(p.fills, newTransfer(part, dst, side{steps: make([]int, len(part))}))
		} else {
			p.add(pieces, dst, cut, part, d+1)
		}
		dst.first += piece.n * dst.steps[d]
	}
}

// run fills an output from an input, and from the missing element.
func (p pattern) run(size int, dst, src, missing []byte) {
	for i := range p.moves {
		p.moves[i].run(size, dst, src)
	}
	for i := range p.fills {
		p.fills[i].run(size, dst, missing)
	}
}

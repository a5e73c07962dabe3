package operators

import (
	"fmt"
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/models"
)

// Span is so many elements along an axis from a position on, which an inference reads: the number in the last input,
// and the offset. Without that input the offset is the position.
func Span(axis, length, offset int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		if along(axis, in); length < 1 || length > in[axis] || len(shapes) > 2 {
			wrong("%d elements along dimension %d of %v", length, axis, in)
		}
		return moving(replaced(in, axis, length), func(out Array, in []Array) {
			first := positionIn(in[1:], offset, length, in[0].Shape[axis])
			spans(out, in[0], axis, first, func(part, whole []byte) { copy(part, whole) })
		})
	}
}

// PutSpan has the first input with the second in it: along an axis from a position on, which is that of [Span].
func PutSpan(axis, offset int) Operator {
	return func(shapes [][]int) Kernel {
		in, part := shapes[0], shapes[1]
		if along(axis, in); len(part) != len(in) || part[axis] > in[axis] || len(shapes) > 3 ||
			!slices.Equal(part, replaced(in, axis, part[axis])) {
			wrong("%v in %v along dimension %d", part, in, axis)
		}
		return updating(in, func(out Array, in []Array) {
			first := positionIn(in[2:], offset, in[1].Shape[axis], out.Shape[axis])
			spans(in[1], out, axis, first, func(part, whole []byte) { copy(whole, part) })
		}).moves(0, 1)
	}
}

// positionIn returns the position that an inference reads, of so many elements of a length.
func positionIn(in []Array, offset, n, length int) int {
	position := int64(offset)
	if len(in) > 0 {
		position += in[0].Whole(0)
	}
	if position < 0 || position > int64(length-n) {
		fault.Check(fmt.Errorf("%w: %d elements from %d on of %d", ErrIndex, n, position, length))
	}
	return int(position)
}

// spans calls do for each run of bytes in an array and for its place in another one, which is as large but along an
// axis, where the first one begins at a position.
func spans(part, whole Array, axis, first int, do func(part, whole []byte)) {
	row := product(part.Shape[axis+1:]) * part.Element.Size()
	run, stride := part.Shape[axis]*row, whole.Shape[axis]*row
	for o := range product(part.Shape[:axis]) {
		do(part.Data[o*run:][:run], whole.Data[o*stride+first*row:][:run])
	}
}

// An AttentionMask is which keys a query sees.
type AttentionMask int

const (
	// CausalMask: those up to the query's own position.
	CausalMask AttentionMask = iota
	// NoMask: those up to the position of the last query.
	NoMask
	// AddedMask: all. An input has the number that is added to each score.
	AddedMask
)

// Attention is scaled dot-product attention of queries [batch, n, heads, width] to keys and values [batch, capacity,
// groups, width]: each group of heads shares keys and values. The last input, or without it the offset alone, is the
// position of the first query, as that of [Span]. With [AddedMask] the input before it is a mask [n, capacity]. All are
// in single precision.
func Attention(scale float64, mask AttentionMask, offset int) Operator {
	return func(shapes [][]int) Kernel {
		q, k := shapes[0], shapes[1]
		if len(q) != 4 || len(k) != 4 || !slices.Equal(k, shapes[2]) || k[0] != q[0] || k[3] != q[3] ||
			q[2]%k[2] != 0 || q[1] > k[1] {
			wrong("attention of %v to %v and %v", q, k, shapes[2])
		}
		rest := 3
		if mask == AddedMask {
			if rest++; len(shapes) < rest || !slices.Equal(shapes[3], []int{q[1], k[1]}) {
				wrong("a mask of %v for %v and %v", shapes[3:], q, k)
			}
		}
		return computing(q, func(out Array, in []Array) {
			a := attention{queries: q[1], heads: q[2], width: q[3], capacity: k[1], groups: k[2], scale: scale,
				mask: mask, position: positionIn(in[rest:], offset, q[1], k[1])}
			a.compute(out, in)
		})
	}
}

// attention has the sizes of one.
type attention struct {
	queries, heads, width int
	capacity, groups      int
	scale                 float64
	mask                  AttentionMask
	position              int
}

func (a attention) compute(out Array, in []Array) {
	result, done := outputOf[float32](out)
	defer done()
	whole := attending{queries: inputOf[float32](in[0]), keys: inputOf[float32](in[1]), values: inputOf[float32](in[2]),
		scores: make([]float32, scoredRows*a.seen(a.queries-1))}
	if a.mask == AddedMask {
		whole.mask = inputOf[float32](in[3])
	}
	row, cached := a.queries*a.heads*a.width, a.capacity*a.groups*a.width
	for b := range out.Shape[0] {
		batch := whole
		batch.queries = whole.queries[b*row:][:row]
		batch.keys, batch.values = whole.keys[b*cached:][:cached], whole.values[b*cached:][:cached]
		if dst := result[b*row:][:row]; !attendAll(dst, a, batch) {
			a.each(dst, batch)
		}
	}
}

// seen returns how many keys query i sees.
func (a attention) seen(i int) int {
	switch a.mask {
	case CausalMask:
		return a.position + i + 1
	case NoMask:
		return a.position + a.queries
	}
	return a.capacity
}

// attending is the content of one batch.
type attending struct {
	queries, keys, values []float32
	mask                  []float32 // is added to the scores, or nil
	scores                []float32 // scoredRows of them
}

// scoredRows is how many rows of scores C computes at a time.
const scoredRows = 4

// each computes query by query in double precision, where C has no loop.
func (a attention) each(dst []float32, in attending) {
	for i := range a.queries {
		for head := range a.heads {
			begin := (i*a.heads + head) * a.width
			group := head / (a.heads / a.groups) * a.width
			a.row(dst[begin:][:a.width], in, i, in.queries[begin:], group)
		}
	}
}

// row computes one head of query i. The group's numbers begin at an offset in each row of keys and of values.
func (a attention) row(dst []float32, in attending, i int, query []float32, group int) {
	step, scores := a.groups*a.width, in.scores[:a.seen(i)]
	largest := math.Inf(-1)
	for j := range scores {
		sum := 0.0
		for d, x := range query[:a.width] {
			sum += float64(x) * float64(in.keys[j*step+group+d])
		}
		sum *= a.scale
		if in.mask != nil {
			sum += float64(in.mask[i*a.capacity+j])
		}
		scores[j] = float32(sum)
		largest = max(largest, float64(scores[j]))
	}
	sum, sums := 0.0, make([]float64, len(dst))
	for j, score := range scores {
		share := math.Exp(float64(score) - largest)
		sum += share
		for d := range sums {
			sums[d] += share * float64(in.values[j*step+group+d])
		}
	}
	for d := range dst {
		dst[d] = float32(sums[d] / sum)
	}
}

// Attends reports whether Attention computes with elements of a type.
func Attends(e models.Element) bool { return e == models.Float32 }

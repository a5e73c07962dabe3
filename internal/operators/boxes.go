package operators

import (
	"math"
	"slices"

	"xpwc/models"
)

// Suppress chooses at most count boxes, as [suppression] does: the inputs are the boxes, [n, 4], their scores, [n], and
// the overlap, the least score and, if soft, sigma; the outputs are indices, if soft the scores, and their number.
func Suppress(count int, soft bool) Operator {
	return func(shapes [][]int) Kernel {
		if len(shapes[1]) != 1 || !slices.Equal(shapes[0], []int{shapes[1][0], 4}) {
			wrong("boxes of shape %v, scores of %v", shapes[0], shapes[1])
		}
		k := Kernel{Shapes: [][]int{{count}, {count}, nil}}
		if !soft {
			k.Shapes = k.Shapes[1:]
		}
		k.Run = func(out, in []Array) {
			s := suppression{Overlap: float32(in[2].Number(0)), MinScore: float32(in[3].Number(0))}
			best := New(models.Float32, count)
			if soft {
				s.Sigma, best = float32(in[4].Number(0)), out[1]
			}
			out[len(out)-1].Put(0, float64(s.suppress(out[0], best, in[0], in[1])))
		}
		return k
	}
}

// A suppression drops boxes that are too near to better ones.
type suppression struct {
	Overlap  float32 // of two boxes' intersection in their union, from which on the one with the lower score goes
	MinScore float32 // no box with this score or a lower one stays
	Sigma    float32 // if it is more than 0, overlapping lowers the score, by exp(-overlap²/(2 sigma))
}

// suppress fills selected with the indices of boxes, [n, 4], that stay, and best with their scores, the best one first,
// of equal ones that with the lower index; and zeros after them. It returns how many there are. Two opposite corners of
// a box are given, y and x of each.
func (s suppression) suppress(selected, best, boxes, scores Array) (count int) {
	clear(selected.Data)
	clear(best.Data)
	remaining := make([]float32, product(scores.Shape)) // of each box the score, or MinScore if it is gone
	for i := range remaining {
		remaining[i] = float32(scores.Number(i))
	}
	for ; count < product(selected.Shape); count++ {
		next := -1
		for i, score := range remaining {
			if score > s.MinScore && (next < 0 || score > remaining[next]) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		selected.Put(count, float64(next))
		best.Put(count, float64(remaining[next]))
		remaining[next] = s.MinScore
		chosen := boxOf(boxes, next)
		for i, score := range remaining {
			if !(score > s.MinScore) {
				continue
			}
			overlap := chosen.overlap(boxOf(boxes, i))
			switch {
			case overlap >= s.Overlap:
				remaining[i] = s.MinScore
			case s.Sigma > 0:
				remaining[i] *= float32(math.Exp(float64(-0.5 / s.Sigma * overlap * overlap)))
			}
		}
	}
	return count
}

type box struct{ top, left, bottom, right float32 }

func boxOf(boxes Array, i int) box {
	coord := func(k int) float32 { return float32(boxes.Number(4*i + k)) }
	return box{min(coord(0), coord(2)), min(coord(1), coord(3)), max(coord(0), coord(2)), max(coord(1), coord(3))}
}

func (b box) area() float32 { return (b.bottom - b.top) * (b.right - b.left) }

// overlap is which part the intersection is of the union.
func (b box) overlap(o box) float32 {
	if b.area() <= 0 || o.area() <= 0 {
		return 0
	}
	common := max(min(b.bottom, o.bottom)-max(b.top, o.top), 0) * max(min(b.right, o.right)-max(b.left, o.left), 0)
	return common / (b.area() + o.area() - common)
}

package operators

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"xpwc/internal/fault"
)

// ErrBox: a box ends before it begins.
var ErrBox = errors.New("a box ends before it begins")

// Detection is how boxes and scores of an object detector become detections.
type Detection struct {
	Most     int        // detections
	Classes  int        // of the scores: the last ones of each box, the others are the background's
	PerBox   int        // classes of a detection, if not ByClass
	PerClass int        // detections of a class, if ByClass
	ByClass  bool       // boxes suppress others class by class; otherwise by their best class
	MinScore float32    // of a detection
	Overlap  float32    // above which a box suppresses one with a lower score
	Scales   [4]float64 // of the encoded y, x, height and width of a box
}

// Detect has detections of boxes, [1, n, 4 or more], relative to anchors, [n, 4], the third input, with scores,
// [1, n, classes], the second. The outputs are their boxes, [1, Most * PerBox, 4], classes, scores, and how many there
// are. What is not detected is 0.
func Detect(d Detection) Operator {
	return func(shapes [][]int) Kernel {
		boxes, scores, anchors := shapes[0], shapes[1], shapes[2]
		if len(boxes) != 3 || len(scores) != 3 || len(anchors) != 2 || boxes[0] != 1 || boxes[2] < 4 ||
			scores[0] != 1 || scores[1] != boxes[1] || anchors[0] < boxes[1] || anchors[1] != 4 {
			wrong("boxes of shape %v, scores of %v, anchors of %v", boxes, scores, anchors)
		}
		if d.Most < 1 || d.PerBox < 1 || d.Classes < 1 || d.Classes > scores[2] || d.Most > MostIndices/d.PerBox ||
			d.ByClass && d.PerClass < 1 || !(d.Overlap > 0 && d.Overlap <= 1) {
			wrong("detections %+v of scores of shape %v", d, scores)
		}
		count := d.Most * d.PerBox
		return Kernel{Shapes: [][]int{{1, count, 4}, {1, count}, {1, count}, {1}}, Run: func(out, in []Array) {
			for _, a := range out {
				clear(a.Data)
			}
			decoded := d.decode(in[0], in[2])
			columns := classColumns(in[1], d.Classes)
			if d.ByClass {
				d.detectByClass(out, decoded, columns)
			} else {
				d.detectByBox(out, decoded, columns)
			}
		}}
	}
}

// decode returns the corners of boxes.
func (d Detection) decode(boxes, anchors Array) []box {
	out := make([]box, boxes.Shape[1])
	for i := range out {
		encoded := func(k int) float64 { return boxes.Number(i*boxes.Shape[2]+k) / d.Scales[k] }
		anchor := func(k int) float64 { return anchors.Number(4*i + k) }
		center := func(k int) float32 { return float32(float64(encoded(k)*anchor(2+k)) + anchor(k)) }
		half := func(k int) float32 { return float32(0.5 * math.Exp(encoded(k)) * anchor(k)) }
		y, x, height, width := center(0), center(1), half(2), half(3)
		out[i] = box{y - height, x - width, y + height, x + width}
		if out[i].top > out[i].bottom || out[i].left > out[i].right {
			fault.Check(fmt.Errorf("%w: number %d, %v", ErrBox, i, out[i]))
		}
	}
	return out
}

// classColumns returns the scores of each class, which are the last ones of each box.
func classColumns(scores Array, classes int) [][]float32 {
	boxes, columnCount := scores.Shape[1], scores.Shape[2]
	columns := make([][]float32, classes)
	for c := range columns {
		columns[c] = make([]float32, boxes)
		for i := range columns[c] {
			columns[c][i] = float32(scores.Number(i*columnCount + columnCount - classes + c))
		}
	}
	return columns
}

// descending sorts indices of scores, the largest score first and equal ones by their places.
func descending(indices []int, score func(i int) float32) {
	slices.SortStableFunc(indices, func(i, k int) int {
		switch a, b := score(i), score(k); {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
}

// survivors returns at most so many boxes that no better one overlaps, the best first.
func (d Detection) survivors(boxes []box, scores []float32, limit int) (selected []int) {
	var candidates []int
	for i, score := range scores {
		if score >= d.MinScore {
			candidates = append(candidates, i)
		}
	}
	descending(candidates, func(i int) float32 { return scores[i] })
	for len(candidates) > 0 && len(selected) < limit {
		best := candidates[0]
		selected = append(selected, best)
		candidates = slices.DeleteFunc(candidates[1:], func(i int) bool {
			return boxes[best].overlap(boxes[i]) > d.Overlap
		})
	}
	return selected
}

// put writes a detection.
func put(out []Array, i int, b box, class int, score float32) {
	for k, x := range []float32{b.top, b.left, b.bottom, b.right} {
		out[0].Put(4*i+k, float64(x))
	}
	out[1].Put(i, float64(class))
	out[2].Put(i, float64(score))
}

func (d Detection) detectByBox(out []Array, boxes []box, columns [][]float32) {
	best := make([]float32, len(boxes))
	for i := range best {
		best[i] = columns[0][i]
		for _, column := range columns[1:] {
			if column[i] > best[i] {
				best[i] = column[i]
			}
		}
	}
	selected := d.survivors(boxes, best, d.Most)
	for n, i := range selected {
		classes := Every(0, len(columns), 1)
		descending(classes, func(c int) float32 { return columns[c][i] })
		for k, c := range classes[:min(d.PerBox, len(classes))] {
			put(out, n*d.PerBox+k, boxes[i], c, columns[c][i])
		}
	}
	out[3].Put(0, float64(len(selected)))
}

func (d Detection) detectByClass(out []Array, boxes []box, columns [][]float32) {
	type detection struct{ box, class int }
	var detections []detection
	for class, column := range columns {
		for _, i := range d.survivors(boxes, column, d.PerClass) {
			detections = append(detections, detection{i, class})
		}
		order := Every(0, len(detections), 1)
		descending(order, func(k int) float32 { return columns[detections[k].class][detections[k].box] })
		var best []detection
		for _, k := range order[:min(len(order), d.Most)] {
			best = append(best, detections[k])
		}
		detections = best
	}
	for n, f := range detections {
		put(out, n, boxes[f.box], f.class, columns[f.class][f.box])
	}
	out[3].Put(0, float64(len(detections)))
}

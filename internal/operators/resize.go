package operators

import (
	"math"
	"slices"
)

// A Resizing makes images of another size, along the last two dimensions.
type Resizing struct {
	Size    []int     // height and width
	Factors []float64 // of the sizes, where they are given; they may differ from the sizes' quotient
	Corners bool      // the centres of the corner pixels stay where they are
	Smooth  bool      // an image that gets smaller has the mean of all pixels under a filter, without aliasing
}

// ResizeBilinear interpolates between the pixels of images.
func ResizeBilinear(r Resizing) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		rank := len(in)
		if rank < 3 || len(r.Size) != 2 || r.Size[0] < 1 || r.Size[1] < 1 ||
			len(r.Factors) != 0 && len(r.Factors) != 2 {
			wrong("a size of %v for shape %v", r.Size, in)
		}
		shape := append(slices.Clone(in[:rank-2]), r.Size...)
		return computing(shape, func(out Array, in []Array) { r.resize(out, in[0]) })
	}
}

func (r Resizing) resize(out, in Array) {
	rank := len(in.Shape)
	height, width := in.Shape[rank-2], in.Shape[rank-1]
	across := make([]taps, r.Size[1])
	for x := range across {
		r.filter(&across[x], 1, x, width)
	}
	line, sum, row := make([]float64, width), make([]float64, width), make([]float64, r.Size[1])
	var down taps
	for y := range r.Size[0] {
		down.reset()
		r.filter(&down, 0, y, height)
		for n := range product(in.Shape[:rank-2]) {
			clear(sum)
			for i, p := range down.places {
				in.numbers(line, (n*height+p)*width, 1)
				for x, pixel := range line {
					sum[x] += down.weights[i] * pixel
				}
			}
			for x := range row {
				row[x] = 0
				for i, p := range across[x].places {
					row[x] += across[x].weights[i] * sum[p]
				}
			}
			out.putNumbers(row, (n*r.Size[0]+y)*r.Size[1], 1)
		}
	}
}

// filter finds the pixels, along one of the two dimensions, that pixel i of the output is computed from.
func (r Resizing) filter(t *taps, axis, i, length int) {
	step := r.step(axis, length)
	if r.Smooth {
		t.triangle(step, i, length)
		return
	}
	place := step * float32(i)
	if !r.Corners {
		place = max(0, step*(float32(i)+0.5)-0.5)
	}
	first := min(int(place), length-1)
	fraction := float64(min(max(place-float32(first), 0), 1))
	t.add(first, 1-fraction)
	t.add(min(first+1, length-1), fraction)
}

func (t *taps) add(place int, weight float64) {
	t.places, t.weights = append(t.places, place), append(t.weights, weight)
}

// triangle adds the pixels under a triangle around pixel i, as wide as two pixels of the output, or of the input if
// these are larger.
func (t *taps) triangle(step float32, i, length int) {
	support := max(float64(step), 1)
	centre := float64(step) * (float64(i) + 0.5)
	first := max(int(centre-support+0.5), 0)
	end := min(int(centre+support+0.5), length)
	total := 0.0
	for k := first; k < end; k++ {
		weight := max(0, 1-math.Abs((float64(k)-centre+0.5)/support))
		t.add(k, weight)
		total += weight
	}
	for k := range t.weights {
		if total != 0 {
			t.weights[k] /= total
		}
	}
}

// step returns how far apart neighbours of the output are in the input.
func (r Resizing) step(axis, length int) float32 {
	size := r.Size[axis]
	switch {
	case r.Corners && size > 1:
		return float32(length-1) / float32(size-1)
	case r.Corners:
		return 0
	case len(r.Factors) > 0 && r.Factors[axis] > 0:
		return float32(1 / r.Factors[axis])
	}
	return float32(length) / float32(size)
}

// ResizeNearest has for each pixel of the output the nearest one of the input, along the last dimensions.
func ResizeNearest(size []int, factors []float64) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		first := len(in) - len(size)
		if first < 0 || slices.Min(size) < 1 || len(factors) != 0 && len(factors) != len(size) {
			wrong("a size of %v for shape %v", size, in)
		}
		shape := append(slices.Clone(in[:first]), size...)
		scale := Resizing{Size: size, Factors: factors}
		return taking(in, shape, func() [][]int {
			places := Everywhere(in)
			for axis, n := range size {
				length := in[first+axis]
				step := scale.step(axis, length)
				row := make([]int, n)
				for i := range row {
					row[i] = min(int(float32(i)*step), length-1)
				}
				places[first+axis] = row
			}
			return places
		})
	}
}

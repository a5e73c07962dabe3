package operators

import (
	"encoding/binary"
	"math"

	"xpwc/models"
)

// An Interpolation is how elements between others are computed.
type Interpolation int

// The interpolations, by PyTorch's numbers.
const (
	Bilinear Interpolation = iota
	Nearest
	Bicubic
)

// A Border is what lies outside of an image.
type Border int

// The borders, by PyTorch's numbers.
const (
	ZeroBorder Border = iota
	EdgeBorder
	MirrorBorder
)

// SampleGrid has the elements of images, [n, channels, height, width], at the places that the second input has,
// [n, rows, columns, 2]: x and y, of which -1 and 1 are the edges of the image. These are the centres of its corner
// pixels if corners is set. The output is [n, channels, rows, columns].
func SampleGrid(mode Interpolation, border Border, corners bool) Operator {
	return func(shapes [][]int) Kernel {
		in, grid := shapes[0], shapes[1]
		if len(in) != 4 || len(grid) != 4 || grid[0] != in[0] || grid[3] != 2 || mode < Bilinear || mode > Bicubic ||
			border < ZeroBorder || border > MirrorBorder {
			wrong("a grid of shape %v for shape %v", grid, in)
		}
		x := sampler{lengths: [2]int{in[3], in[2]}, mode: mode, border: border, corners: corners}
		shape := []int{in[0], in[1], grid[1], grid[2]}
		return computing(shape, func(out Array, in []Array) { x.sample(out, in[0], in[1]) })
	}
}

// A sampler computes elements of an image from a few pixels around a place.
type sampler struct {
	lengths [2]int // width and height
	mode    Interpolation
	border  Border
	corners bool
	taps
}

// taps are pixels and their weights.
type taps struct {
	places  []int
	weights []float64
}

func (t *taps) reset() { t.places, t.weights = t.places[:0], t.weights[:0] }

// sum returns the weighted sum of the elements of an array, whose first is number base.
func (t *taps) sum(a Array, base int) float64 {
	sum := 0.0
	if a.Element == models.Float32 {
		data := a.Data[4*base:]
		for i, p := range t.places {
			sum += t.weights[i] * float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*p:])))
		}
		return sum
	}
	for i, p := range t.places {
		sum += t.weights[i] * a.Number(base+p)
	}
	return sum
}

func (s *sampler) sample(out, in, grid Array) {
	if in.Element == models.Float16 {
		in, grid = in.retyped(models.Float32), grid.retyped(models.Float32)
		inSinglePrecision(out, func(out Array) { s.sample(out, in, grid) })
		return
	}
	channels, pixels, places := in.Shape[1], product(in.Shape[2:]), product(out.Shape[2:])
	for n := range in.Shape[0] {
		for k := range places {
			i := 2 * (n*places + k)
			s.find(s.pixel(float32(grid.Number(i)), 0), s.pixel(float32(grid.Number(i+1)), 1))
			for ch := range channels {
				row := n*channels + ch
				out.Put(row*places+k, s.sum(in, row*pixels))
			}
		}
	}
}

// pixel returns the place in pixels along an axis, where -1 and 1 are the edges.
func (s *sampler) pixel(x float32, axis int) float32 {
	if s.corners {
		return (x + 1) / 2 * float32(s.lengths[axis]-1)
	}
	return ((x+1)*float32(s.lengths[axis]) - 1) / 2
}

// inside returns a place that the border moved into the image.
func (s *sampler) inside(x float32, axis int) float32 {
	length := s.lengths[axis]
	switch s.border {
	case ZeroBorder:
		return x
	case MirrorBorder:
		if s.corners {
			x = mirrored(x, 0, float32(length-1))
		} else {
			x = mirrored(x, -0.5, float32(length))
		}
	}
	if !(x > 0) { // or NaN
		return 0
	}
	return min(x, float32(length-1))
}

// mirrored reflects a place at the ends of a span until it is in it.
func mirrored(x, low, span float32) float32 {
	if span == 0 {
		return 0
	}
	x = float32(math.Abs(float64(x - low)))
	rest := float32(math.Mod(float64(x), float64(span)))
	if int64(math.Floor(float64(x/span)))%2 == 0 {
		return rest + low
	}
	return span - rest + low
}

// find finds the pixels around a place, and their weights.
func (s *sampler) find(x, y float32) {
	s.reset()
	switch s.mode {
	case Nearest:
		s.tap(int(math.RoundToEven(float64(s.inside(x, 0)))), int(math.RoundToEven(float64(s.inside(y, 1)))), 1)
	case Bilinear:
		x, y = s.inside(x, 0), s.inside(y, 1)
		x0, y0 := math.Floor(float64(x)), math.Floor(float64(y))
		u, v := float64(x)-x0, float64(y)-y0
		column, row := int(x0), int(y0)
		s.tap(column, row, (1-u)*(1-v))
		s.tap(column+1, row, u*(1-v))
		s.tap(column, row+1, (1-u)*v)
		s.tap(column+1, row+1, u*v)
	case Bicubic:
		x0, y0 := math.Floor(float64(x)), math.Floor(float64(y))
		across, down := cubic(float64(x)-x0), cubic(float64(y)-y0)
		for i, v := range down {
			row := int(s.inside(float32(y0)+float32(i-1), 1))
			for k, u := range across {
				s.tap(int(s.inside(float32(x0)+float32(k-1), 0)), row, u*v)
			}
		}
	}
}

// tap adds a pixel, if the image has it.
func (s *sampler) tap(column, row int, weight float64) {
	if column >= 0 && column < s.lengths[0] && row >= 0 && row < s.lengths[1] {
		s.add(row*s.lengths[0]+column, weight)
	}
}

// cubic returns the weights of four neighbours for a place between the second and the third.
func cubic(t float64) [4]float64 {
	const a = -0.75
	near := func(x float64) float64 { return ((a+2)*x-(a+3))*x*x + 1 }
	far := func(x float64) float64 { return ((a*x-5*a)*x+8*a)*x - 4*a }
	return [4]float64{far(t + 1), near(t), near(1 - t), far(2 - t)}
}

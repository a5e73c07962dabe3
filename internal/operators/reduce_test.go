package operators

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models"
)

var computable = []models.Element{models.Float32, models.Float64, models.Float16, models.BFloat16,
	models.Int8, models.Uint8, models.Int16, models.Int32, models.Int64, models.Bool}

// smallNumbers returns an array of small whole numbers, that no type rounds.
func smallNumbers(e models.Element, shape ...int) Array {
	a := New(e, shape...)
	for i := range product(shape) {
		n := i * i % 7
		if e != models.Uint8 && e != models.Bool {
			n -= 3
		}
		a.Put(i, float64(n))
	}
	return a
}

func TestEveryTypeIsReducedAlongAnyAxes(t *testing.T) {
	shape := []int{3, 4, 5}
	for _, e := range computable {
		for name, o := range map[string]Operation{"sum": Sum, "product": Product, "maximum": Maximum,
			"minimum": Minimum, "and": And, "or": Or} {
			if e == models.Bool && !o.compares {
				continue
			}
			for _, axes := range [][]int{{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}, nil} {
				t.Run(fmt.Sprint(name, e, axes), func(t *testing.T) {
					in := smallNumbers(e, shape...)
					kernel := Reduce(o, axes, true)([][]int{shape})
					want := New(models.Float64, kernel.Shapes[0]...)
					begun := make([]bool, product(want.Shape))
					walk(shape, [][]int{steps(want.Shape, shape)}, func(i int, places []int) {
						k, x := places[0], in.Number(i)
						if o.compares {
							x = float64(bit(x != 0))
						}
						if begun[k] {
							x = o.Number(want.Number(k), x)
						}
						begun[k] = true
						want.Put(k, x)
					})
					got := New(e, kernel.Shapes[0]...)
					kernel.Run([]Array{got}, []Array{in})
					wrapped := New(e, want.Shape...)
					for i := range want.list() {
						wrapped.Put(i, want.Number(i))
					}
					require.Equal(t, wrapped.list(), got.list())
				})
			}
		}
	}
}

func TestANumberThatIsNotOneIsTheResultOfWhatItIsIn(t *testing.T) {
	nan := math.NaN()
	in := arrayOf(models.Float32, []int{3, 4}, 1, nan, 3, 2, nan, 4, 5, nan, 6, 5, 4, nan)
	for _, o := range []Operation{Maximum, Minimum} {
		for axis, want := range [][]bool{{true, true, false, true}, {true, true, true}} {
			kernel := Reduce(o, []int{axis}, false)([][]int{in.Shape})
			out := New(models.Float32, kernel.Shapes[0]...)
			kernel.Run([]Array{out}, []Array{in})
			for i, x := range out.list() {
				require.Equal(t, want[i], math.IsNaN(x), "element %d along axis %d", i, axis)
			}
		}
	}
}

func TestTheFirstExtremeOfEveryTypeIsFoundAlongAnyAxis(t *testing.T) {
	shape := []int{3, 4, 5}
	for _, e := range computable {
		for axis := range shape {
			for smallest, op := range map[bool]Operator{false: ArgMax(axis), true: ArgMin(axis)} {
				in := smallNumbers(e, shape...)
				kernel := op([][]int{shape})
				out := New(models.Int32, kernel.Shapes[0]...)
				kernel.Run([]Array{out}, []Array{in})
				lines(shape, axis, func(line, first, step int) {
					best := 0
					for k := range shape[axis] {
						x, y := in.Number(first+k*step), in.Number(first+best*step)
						if x > y && !smallest || x < y && smallest {
							best = k
						}
					}
					require.Equal(t, float64(best), out.Number(line), "%v along axis %d", e, axis)
				})
			}
		}
	}
}

func TestBfloat16IsSummedUpBeyondTheNumbersOfHalfPrecision(t *testing.T) {
	in, out := New(models.BFloat16, 3), New(models.BFloat16, 3)
	for i := range 3 {
		in.Put(i, 1<<16)
	}
	run(CumulativeSum(0, false, false), out, in)
	for i := range 3 {
		require.Equal(t, float64((i+1)<<16), out.Number(i))
	}
}

func TestEveryTypeIsSummedUpAlongAnyAxisInBothDirections(t *testing.T) {
	shape := []int{3, 6, 5}
	for _, e := range computable {
		for axis := range shape {
			for mode := range 4 {
				exclusive, reverse := mode&1 != 0, mode&2 != 0
				in, out := smallNumbers(e, shape...), New(e, shape...)
				if e == models.Bool {
					out.Element, out.Data = models.Int64, make([]byte, 8*len(out.Data))
				}
				CumulativeSum(axis, exclusive, reverse)([][]int{shape}).Run([]Array{out}, []Array{in})
				lines(shape, axis, func(_, first, step int) {
					sum := 0.0
					for k := range shape[axis] {
						if reverse {
							k = shape[axis] - 1 - k
						}
						place := first + k*step
						if x := in.Number(place); exclusive {
							require.Equal(t, sum, out.Number(place), "%v along axis %d", e, axis)
							sum += x
						} else {
							sum += x
							require.Equal(t, sum, out.Number(place), "%v along axis %d", e, axis)
						}
					}
				})
			}
		}
	}
}

func TestTheLargestElementsComeInOrderTheFirstOfEqualOnesFirst(t *testing.T) {
	const length = 100
	for _, e := range computable {
		in := smallNumbers(e, 2, length)
		if e == models.Float32 {
			in.Put(3, math.NaN())
			in.Put(7, math.NaN())
			in.Put(9, math.Copysign(0, -1))
			in.Put(11, math.Inf(1))
			in.Put(12, math.Inf(-1))
		}
		for _, k := range []int{1, 8, 70, length} {
			kernel := TopK(k)([][]int{in.Shape})
			values, indices := New(e, kernel.Shapes[0]...), New(models.Int64, kernel.Shapes[1]...)
			kernel.Run([]Array{values, indices}, []Array{in})
			for row := range 2 {
				want := Every(0, length, 1)
				slices.SortStableFunc(want, func(a, b int) int {
					x, y := in.Number(row*length+a), in.Number(row*length+b)
					if math.IsNaN(x) || math.IsNaN(y) {
						return cmp.Compare(bit(math.IsNaN(y)), bit(math.IsNaN(x)))
					}
					switch {
					case x > y:
						return -1
					case x < y:
						return 1
					}
					return 0
				})
				for i, index := range want[:k] {
					require.Equal(t, float64(index), indices.Number(row*k+i), "%v, the largest %d", e, k)
					require.Equal(t, in.elem(row*length+index), values.elem(row*k+i))
				}
			}
		}
	}
}

func TestMemoryThatIsNotAlignedIsReadAndWritten(t *testing.T) {
	moved := func(a Array) Array {
		content := make([]byte, len(a.Data)+1)
		copy(content[1:], a.Data)
		return Array{a.Element, a.Shape, content[1:]}
	}
	in := smallNumbers(models.Float32, 3, 8)
	indices := moved(arrayOf(models.Int64, []int{2}, 2, 0))
	for _, c := range []struct {
		op Operator
		in []Array
	}{
		{Reduce(Maximum, []int{1}, false), []Array{in}},
		{CumulativeSum(1, false, false), []Array{in}},
		{Gather(0, 0), []Array{in, indices}},
		{Gather(1, 0), []Array{in, indices}},
		{Reverse([]int{1}), []Array{in}},
	} {
		var shapes [][]int
		var elsewhere []Array
		for _, a := range c.in {
			shapes, elsewhere = append(shapes, a.Shape), append(elsewhere, moved(a))
		}
		kernel := c.op(shapes)
		want, got := New(in.Element, kernel.Shapes[0]...), moved(New(in.Element, kernel.Shapes[0]...))
		kernel.Run([]Array{want}, c.in)
		kernel.Run([]Array{got}, elsewhere)
		require.Equal(t, want.list(), got.list())
	}
}

func TestTheMeansOfPartsAreThoseOfTheirPixels(t *testing.T) {
	for _, e := range []models.Element{models.Float32, models.Float64, models.Float16} {
		in, out := New(e, 2, 5, 7), New(e, 2, 3, 2)
		for i := range 2 * 5 * 7 {
			in.Put(i, float64(i%13))
		}
		run(AdaptiveMean([]int{3, 2}), out, in)
		for i := range 2 * 3 * 2 {
			image, part, side := i/6, i/2%3, i%2
			top, bottom := partOf(part, 3, 5)
			first, end := partOf(side, 2, 7)
			sum := 0.0
			for y := top; y < bottom; y++ {
				for x := first; x < end; x++ {
					sum += in.Number((image*5+y)*7 + x)
				}
			}
			require.InDelta(t, sum/float64((bottom-top)*(end-first)), out.Number(i), 1e-2, "%v %d", e, i)
		}
	}
}

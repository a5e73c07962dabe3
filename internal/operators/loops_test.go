package operators

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/fault"
	"xpwc/internal/half"
	"xpwc/models"
)

// numberElements are the elements that Go computes with as they are.
var numberElements = []models.Element{models.Int8, models.Uint8, models.Int16, models.Int32, models.Int64,
	models.Float32, models.Float64}

func TestNumbersAreConvertedAsOneByOne(t *testing.T) {
	elements := append([]models.Element{models.Bool}, numberElements...)
	for _, src := range elements {
		in := New(src, 3, 50)
		for i := range 150 {
			in.Put(i, float64(i%5))
		}
		for _, dst := range elements {
			out := New(dst, 3, 50)
			cast(out, in)
			for i := range 150 {
				want := New(dst, 1)
				want.Put(0, in.Number(i))
				require.Equal(t, want.Number(0), out.Number(i), "%v to %v, element %d", src, dst, i)
			}
		}
	}
}

// TestHalfPrecisionIsConvertedAsOneByOne converts every number of half precision, and numbers of single precision
// around each of them: of two halves that are equally near the even one is taken.
func TestHalfPrecisionIsConvertedAsOneByOne(t *testing.T) {
	const halves = 1 << 16
	narrow, wide, back := New(models.Float16, halves), New(models.Float32, halves), New(models.Float16, halves)
	for i := range halves {
		binary.LittleEndian.PutUint16(narrow.elem(i), uint16(i))
	}
	cast(wide, narrow)
	for i := range halves {
		want := half.Float64(uint16(i))
		if got := wide.Number(i); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("%#x is %v, not %v", i, got, want)
		}
	}
	for _, offset := range []int32{-1 << 12, -1, 0, 1, 1 << 12, 1<<12 + 1} {
		for i := range halves {
			bits := math.Float32bits(float32(half.Float64(uint16(i))))
			binary.LittleEndian.PutUint32(wide.elem(i), uint32(int32(bits)+offset))
		}
		cast(back, wide)
		for i := range halves {
			x := wide.Number(i)
			want := half.Bits(x)
			if got := binary.LittleEndian.Uint16(back.elem(i)); got != want && !math.IsNaN(x) {
				t.Fatalf("%v is %#x, not %#x", x, got, want)
			}
			if x != x {
				require.True(t, math.IsNaN(back.Number(i)))
			}
		}
	}
}

func TestRowsAndColumnsAreReducedAsOneByOne(t *testing.T) {
	const rows, columns = 7, 1100 // more than the loop's steps
	for _, e := range numberElements {
		in := New(e, rows, columns)
		for i := range rows * columns {
			in.Put(i, float64(i*i%3))
		}
		for axis, o := range map[int][]Operation{0: {Sum, Product, Maximum, Minimum}, 1: {Sum, Maximum, Minimum}} {
			for _, operation := range o {
				out := New(e, []int{columns, rows}[axis])
				run(Reduce(operation, []int{axis}, false), out, in)
				for i := range product(out.Shape) {
					want, line := New(e, 1), Take(1-axis, []int{i})(([][]int{in.Shape}))
					values := New(e, line.Shapes[0]...)
					line.Run([]Array{values}, []Array{in})
					copy(want.Data, values.elem(0))
					for k := 1; k < product(values.Shape); k++ {
						operation.apply(e, want.Data, want.Data, values.elem(k))
					}
					require.Equal(t, want.Number(0), out.Number(i), "%v along axis %d", e, axis)
				}
			}
		}
	}
}

func TestANumberThatIsNoneMakesTheExtremeNone(t *testing.T) {
	for _, place := range []int{0, 5, 600, 1099} {
		in := New(models.Float32, 1, 1100)
		in.Put(place, math.NaN())
		for _, o := range []Operation{Maximum, Minimum} {
			out := New(models.Float32, 1)
			run(Reduce(o, []int{1}, false), out, in)
			require.True(t, math.IsNaN(out.Number(0)), "at %d", place)
		}
		index := New(models.Int64, 1)
		run(ArgMax(1), index, in)
		require.EqualValues(t, place, index.Whole(0))
	}
}

func TestANumberIsInTheBucketAfterItsBoundary(t *testing.T) {
	out := New(models.Int32, 6)
	run(Bucketize([]float32{0, 1, 10}), out, arrayOf(models.Float32, []int{6}, -1, 0, 0.5, 1, 11, math.NaN()))
	require.Equal(t, []float64{0, 1, 1, 2, 3, 3}, []float64{out.Number(0), out.Number(1), out.Number(2), out.Number(3),
		out.Number(4), out.Number(5)})
}

func TestEachPixelOfABlockIsInAnImageOfItsOwn(t *testing.T) {
	out := New(models.Float32, 4, 1, 2, 1)
	run(SpaceToBatch(2, 2), out, arrayOf(models.Float32, []int{1, 2, 4, 1}, 0, 1, 2, 3, 4, 5, 6, 7))
	for i, want := range []float64{0, 2, 1, 3, 4, 6, 5, 7} {
		require.Equal(t, want, out.Number(i))
	}
}

func TestALargeMatrixIsTurned(t *testing.T) {
	for _, e := range numberElements {
		in, out := New(e, 2, 35, 50), New(e, 2, 50, 35)
		for i := range product(in.Shape) {
			in.Put(i, float64(i%101))
		}
		run(Transpose([]int{0, 2, 1}), out, in)
		for i := range product(in.Shape) {
			matrix, y, x := i/1750, i/50%35, i%50
			require.Equal(t, in.Number(i), out.Number(matrix*1750+x*35+y), "%v", e)
		}
	}
}

func TestIntegersAreDividedAsOneByOne(t *testing.T) {
	numbers := []float64{-128, -7, -3, -1, 0, 1, 2, 7, 127}
	for _, e := range []models.Element{models.Int8, models.Uint8, models.Int16, models.Int32, models.Int64} {
		for _, o := range []Operation{Quotient, TruncatedQuotient, FloorQuotient, TruncatedRemainder, FloorRemainder} {
			for _, y := range numbers {
				if y == 0 {
					continue
				}
				a, b, out := arrayOf(e, []int{9}, numbers...), Number(e, y), New(e, 9)
				combine(o, out, a, b)
				for i := range numbers {
					want := New(e, 1)
					putWhole(e, want.Data, o.Whole(a.Whole(i), b.Whole(0)))
					require.Equal(t, want.Whole(0), out.Whole(i), "%v: %v and %v", e, a.Whole(i), b.Whole(0))
				}
			}
			zero := arrayOf(e, []int{2}, 1, 0)
			require.ErrorIs(t, fault.Try(func() { combine(o, New(e, 2), zero, zero) }), ErrDivision)
		}
	}
}

func TestIntegersAreNegatedAndLimited(t *testing.T) {
	for _, e := range []models.Element{models.Int8, models.Uint8, models.Int16, models.Int32, models.Int64} {
		in := arrayOf(e, []int{5}, -128, -5, 0, 5, 100)
		for _, f := range []Function{Abs, Negate, BitNot} {
			out := New(e, 5)
			run(f.ComputeWhole(), out, in)
			for i := range 5 {
				want := New(e, 1)
				putWhole(e, want.Data, f.Whole(in.Whole(i)))
				require.Equal(t, want.Whole(0), out.Whole(i), "%v: %v", e, in.Whole(i))
			}
		}
		out := New(e, 5)
		run(LimitWhole(-3, 4), out, in)
		for i := range 5 {
			require.Equal(t, min(max(in.Whole(i), -3), 4), out.Whole(i), "%v", e)
		}
	}
}

func TestDimensionsBetweenOthersAreReduced(t *testing.T) {
	for _, o := range []Operation{Sum, Product, Maximum, Minimum} {
		in, out := countingArray(models.Int64, 3, 10, 7), New(models.Int64, 3, 7)
		run(Reduce(o, []int{1}, false), out, in)
		for i := range product(out.Shape) {
			want := in.Whole(i/7*70 + i%7)
			for k := 1; k < 10; k++ {
				want = o.Whole(want, in.Whole(i/7*70+k*7+i%7))
			}
			require.Equal(t, want, out.Whole(i), "element %d", i)
		}
	}
}

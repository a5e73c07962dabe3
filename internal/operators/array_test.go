package operators

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/fault"
	"xpwc/models"
)

// arrayOf makes an array.
func arrayOf(e models.Element, shape []int, numbers ...float64) Array {
	a := Array{e, shape, make([]byte, e.Size()*product(shape))}
	for i, n := range numbers {
		putNumber(e, a.elem(i), n)
	}
	return a
}

// run computes an output.
func run(op Operator, out Array, in ...Array) {
	shapes := make([][]int, len(in))
	for i, a := range in {
		shapes[i] = a.Shape
	}
	k := op(shapes)
	out.Shape = k.Shapes[0]
	k.Run([]Array{out}, in)
}

// list returns an array's numbers.
func (a Array) list() []float64 {
	out := make([]float64, product(a.Shape))
	for i := range out {
		out[i] = numberOf(a.Element, a.elem(i))
	}
	return out
}

var everyElement = []models.Element{
	models.Float32, models.Float64, models.Float16, models.BFloat16, models.Int8, models.Uint8, models.Int16,
	models.Int32, models.Int64,
}

var comparisons = []Operation{EqualTo, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual}

func TestNumbersAreComparedAndConvertedWhateverTheyAre(t *testing.T) {
	for _, e := range everyElement {
		a, b := arrayOf(e, []int{2, 1}, 1, 5), arrayOf(e, []int{3}, 1, 5, 7)
		for i, want := range [][]float64{
			{1, 0, 0, 0, 1, 0}, {0, 1, 1, 1, 0, 1}, {0, 1, 1, 0, 0, 1}, {1, 1, 1, 0, 1, 1}, {0, 0, 0, 1, 0, 0},
			{1, 0, 0, 1, 1, 0},
		} {
			out := arrayOf(models.Bool, []int{2, 3})
			combine(comparisons[i], out, a, b)
			require.Equal(t, want, out.list(), "%v %d", e, i)
		}
		for _, target := range everyElement {
			out := arrayOf(target, []int{3})
			cast(out, b)
			require.Equal(t, b.list(), out.list())
		}
		out := arrayOf(models.Int64, []int{2, 3})
		combine(Operation{Whole: func(a, b int64) int64 { return a*10 + b },
			Number: func(a, b float64) float64 { return a*10 + b }}, out, a, b)
		require.Equal(t, []float64{11, 15, 17, 51, 55, 57}, out.list())
	}
	large := arrayOf(models.Int64, []int{1})
	putWhole(models.Int64, large.elem(0), 1<<53+1)
	for _, e := range []models.Element{models.Bool, models.Float32} {
		out := arrayOf(e, []int{1})
		combine(EqualTo, out, large, arrayOf(models.Int64, []int{1}, 1<<53))
		require.Equal(t, []float64{0}, out.list(), "integers are not compared as floats")
	}
	nan := arrayOf(models.Float32, []int{1}, math.NaN())
	for i, want := range []float64{0, 1, 0, 0, 0, 0} {
		out := arrayOf(models.Bool, []int{1})
		combine(comparisons[i], out, nan, nan)
		require.Equal(t, []float64{want}, out.list())
	}
}

func TestMasksAreMadeOfBooleans(t *testing.T) {
	in := arrayOf(models.Bool, []int{2, 3}, 0, 1, 0, 0, 0, 0)
	out := arrayOf(models.Bool, []int{2})
	reduce(Or, out, in, []int{2, 1})
	require.Equal(t, []float64{1, 0}, out.list())
	reduce(And, out, in, []int{2, 1})
	require.Equal(t, []float64{0, 0}, out.list())
	columns := arrayOf(models.Bool, []int{3})
	reduce(Or, columns, in, []int{1, 3})
	require.Equal(t, []float64{0, 1, 0}, columns.list())

	negated := arrayOf(models.Bool, []int{2, 3})
	negate(negated, in)
	require.Equal(t, []float64{1, 0, 1, 1, 1, 1}, negated.list())
	combine(And, negated, in, columns)
	require.Equal(t, []float64{0, 1, 0, 0, 0, 0}, negated.list())

	chosen := arrayOf(models.Float32, []int{2, 3})
	selectRows(chosen, columns, arrayOf(models.Float32, []int{2, 1}, 5, 6), arrayOf(models.Float32, []int{1}, -1))
	require.Equal(t, []float64{-1, 5, -1, -1, 6, -1}, chosen.list())
}

// unaligned returns the same elements in memory where they cannot be read in place.
func (a Array) unaligned() Array {
	data := append(make([]byte, 1), a.Data...)
	return Array{a.Element, a.Shape, data[1:]}
}

func TestRowsHaveTheResultsOfTheirElements(t *testing.T) {
	const width = buffered + 13
	same := func(want, got Array, format string, args ...any) { // NaN too
		t.Helper()
		for i := range product(want.Shape) {
			if x, y := want.Number(i), got.Number(i); x != y && (x == x || y == y) {
				require.Failf(t, fmt.Sprintf(format, args...), "element %d is %v, not %v", i, y, x)
			}
		}
	}
	operations := append(slices.Clone(comparisons), And, Or, Xor, Sum, Difference, Product, Maximum, Minimum)
	for _, e := range append(slices.Clone(everyElement), models.Bool) {
		full, row, column, scalar := New(e, 3, width), New(e, width), New(e, 3, 1), New(e)
		for k, a := range []Array{full, row, column, scalar} {
			for i := range product(a.Shape) {
				a.Put(i, float64((i*7+k)%5))
			}
		}
		switch e {
		case models.Float32, models.Float64:
			full.Put(1, math.NaN())
			row.Put(2, math.Inf(-1))
		case models.Bool:
			full.Data[4], row.Data[8] = 2, 255
		}
		for _, operands := range [][2]Array{{full, full}, {full, row}, {column, row}, {scalar, full}, {full, column}} {
			a, b := operands[0], operands[1]
			strides := [][]int{steps(a.Shape, full.Shape), steps(b.Shape, full.Shape)}
			for k, o := range operations {
				for _, element := range []models.Element{models.Bool, e} {
					want, got := New(element, full.Shape...), New(element, full.Shape...)
					walk(full.Shape, strides, func(i int, places []int) {
						if whole(e) {
							putWhole(element, want.elem(i), o.Whole(a.Whole(places[0]), b.Whole(places[1])))
						} else {
							want.Put(i, o.Number(a.Number(places[0]), b.Number(places[1])))
						}
					})
					combine(o, got, a, b)
					same(want, got, "%v, operation %d, to %v", e, k, element)
					got = got.unaligned()
					combine(o, got, a.unaligned(), b.unaligned())
					same(want, got, "%v, operation %d, to %v", e, k, element)
				}
			}
		}
		for _, condition := range []Array{truthsOf(3, width), truthsOf(width), truthsOf(3, 1)} {
			want := New(e, full.Shape...)
			walk(full.Shape, [][]int{steps(condition.Shape, full.Shape), steps(row.Shape, full.Shape)},
				func(i int, places []int) {
					if condition.Data[places[0]] != 0 {
						copy(want.elem(i), full.elem(i))
					} else {
						copy(want.elem(i), row.elem(places[1]))
					}
				})
			for _, mask := range []Array{condition, condition.retyped(models.Float32)} {
				got := New(e, full.Shape...)
				selectRows(got, mask, full, row)
				require.Equal(t, want.Data, got.Data, "%v", e)
				got = got.unaligned()
				selectRows(got, mask, full.unaligned(), row.unaligned())
				require.Equal(t, want.Data, got.Data, "%v", e)
			}
		}
	}
}

// truthsOf returns booleans of which about half are true, some of them by another byte than 1.
func truthsOf(shape ...int) Array {
	a := New(models.Bool, shape...)
	for i := range a.Data {
		a.Data[i] = byte(i*i%7%3) * 3
	}
	return a
}

func TestRowsAreLookedUpAndNothingElse(t *testing.T) {
	table := arrayOf(models.Float32, []int{3, 2}, 1, 2, 3, 4, 5, 6)
	for _, e := range []models.Element{models.Int32, models.Int64, models.Uint8} {
		out := arrayOf(models.Float32, []int{1, 2, 2})
		run(Gather(0, 0), out, table, arrayOf(e, []int{1, 2}, 2, 0))
		require.Equal(t, []float64{5, 6, 1, 2}, out.list())
	}
	for _, n := range []float64{-1, 3, math.MinInt32} {
		out, index := arrayOf(models.Float32, []int{1, 2}), arrayOf(models.Int32, []int{1}, n)
		require.ErrorIs(t, fault.Try(func() { run(Gather(0, 0), out, table, index) }), ErrIndex)
	}
}

func TestPartsOfAnArrayAreCopied(t *testing.T) {
	in := arrayOf(models.Int16, []int{2, 3}, 1, 2, 3, 4, 5, 6)
	for _, c := range []struct {
		shape, strides []int
		offset         int
		want           []float64
	}{
		{[]int{3, 2}, []int{1, 3}, 0, []float64{1, 4, 2, 5, 3, 6}},
		{[]int{2, 2}, []int{3, 2}, 0, []float64{1, 3, 4, 6}},
		{[]int{2, 2}, []int{0, 1}, 4, []float64{5, 6, 5, 6}},
	} {
		t.Run(fmt.Sprint(c.shape, c.strides), func(t *testing.T) {
			out := arrayOf(models.Int16, c.shape)
			Strided(out, in, c.offset, c.strides)
			require.Equal(t, c.want, out.list())
		})
	}
}

func TestTheLargestElementsPlaceIsFound(t *testing.T) {
	in := arrayOf(models.Float32, []int{2, 3}, 1, 7, 7, math.NaN(), 9, 2)
	rows := arrayOf(models.Int64, []int{2})
	arg(rows, in, 1, false)
	require.Equal(t, []float64{1, 0}, rows.list())
	columns := arrayOf(models.Int32, []int{3})
	arg(columns, arrayOf(models.Int8, []int{2, 3}, 1, 7, 7, -3, 9, 2), 0, false)
	require.Equal(t, []float64{0, 1, 0}, columns.list())
}

func TestNumbersAreReducedAndNormalised(t *testing.T) {
	in := arrayOf(models.Float32, []int{2, 3}, 1, 7, -7, 0, 9, 2)
	largest := arrayOf(models.Float32, []int{2})
	reduce(Maximum, largest, in, []int{2, 1})
	require.Equal(t, []float64{7, 9}, largest.list())
	smallest := arrayOf(models.Int8, []int{3})
	reduce(Minimum, smallest, arrayOf(models.Int8, []int{2, 3}, 1, 7, -7, 0, 9, 2), []int{1, 3})
	require.Equal(t, []float64{0, 7, -7}, smallest.list())
	reduce(Maximum, largest, arrayOf(models.Float32, []int{2, 1}, math.NaN(), 1), []int{2, 1})
	require.True(t, math.IsNaN(largest.list()[0]))

	out := arrayOf(models.Float32, []int{2, 2})
	logSoftmax(out, arrayOf(models.Float32, []int{2, 2}, 1000, 0, 1000, 0), 1)
	require.Equal(t, []float64{0, -1000, 0, -1000}, out.list())
	logSoftmax(out, arrayOf(models.Float32, []int{2, 2}, 3, 4, 3, 4), 0)
	require.InDeltaSlice(t, []float64{-math.Ln2, -math.Ln2, -math.Ln2, -math.Ln2}, out.list(), 1e-6)
	apply(math.Abs, out, arrayOf(models.Float32, []int{2, 2}, -1, 2, -3, 4))
	require.Equal(t, []float64{1, 2, 3, 4}, out.list())
}

func TestShapesThatFitAreBroadcast(t *testing.T) {
	shape, ok := Broadcast([]int{2, 1}, []int{3}, []int{1, 1, 1})
	require.True(t, ok)
	require.Equal(t, []int{1, 2, 3}, shape)
	_, ok = Broadcast([]int{2}, []int{3})
	require.False(t, ok)
}

func TestRowsAreCombinedInTheRowThatTheyName(t *testing.T) {
	in := arrayOf(models.Int32, []int{4, 2}, 1, 2, 3, 4, 5, 6, 7, 8)
	out := arrayOf(models.Int32, []int{3, 2})
	segments(Product, out, in, arrayOf(models.Int64, []int{4}, 2, -1, 0, 2), 1)
	require.Equal(t, []float64{5, 6, 1, 1, 7, 16}, out.list())
	wrong := arrayOf(models.Int64, []int{4}, 0, 1, 3, 0)
	require.ErrorIs(t, fault.Try(func() { segments(Sum, out, in, wrong, 0) }), ErrIndex)
}

func TestQuotientsOfDoublesAndLargeIntegersAreExact(t *testing.T) {
	for _, c := range []struct {
		o       Operation
		a, b, q float64
	}{
		{FloorQuotient, 1e10, 3, 3333333333},
		{FloorQuotient, -1e10, 3, -3333333334},
		{TruncatedQuotient, -1e10, 3, -3333333333},
	} {
		out := New(models.Float64, 1)
		combine(c.o, out, arrayOf(models.Float64, []int{1}, c.a), arrayOf(models.Float64, []int{1}, c.b))
		require.Equal(t, c.q, out.Number(0))
	}
	require.Equal(t, int64(math.MinInt64/3-1), FloorQuotient.Whole(math.MinInt64, 3))
	require.Equal(t, int64(-2), FloorQuotient.Whole(-4, 3))
	require.Equal(t, int64(1), FloorQuotient.Whole(-4, -3))
}

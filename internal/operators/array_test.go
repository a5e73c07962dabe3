package operators

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/fault"
	"xpwc/models"
)

// of makes an array.
func of(e models.Element, shape []int, numbers ...float64) Array {
	a := Array{e, shape, make([]byte, e.Size()*product(shape))}
	for i, n := range numbers {
		putNumber(e, a.elem(i), n)
	}
	return a
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
	models.Float32, models.Float64, models.Float16, models.Int8, models.Uint8, models.Int16, models.Int32, models.Int64,
}

var comparisons = []Operation{Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual}

func TestNumbersAreComparedAndConvertedWhateverTheyAre(t *testing.T) {
	for _, e := range everyElement {
		a, b := of(e, []int{2, 1}, 1, 5), of(e, []int{3}, 1, 5, 7)
		for i, want := range [][]float64{
			{1, 0, 0, 0, 1, 0}, {0, 1, 1, 1, 0, 1}, {0, 1, 1, 0, 0, 1}, {1, 1, 1, 0, 1, 1}, {0, 0, 0, 1, 0, 0},
			{1, 0, 0, 1, 1, 0},
		} {
			out := of(models.Bool, []int{2, 3})
			combine(comparisons[i], out, a, b)
			require.Equal(t, want, out.list(), "%v %d", e, i)
		}
		for _, to := range everyElement {
			out := of(to, []int{3})
			cast(out, b)
			require.Equal(t, b.list(), out.list())
		}
		out := of(models.Int64, []int{2, 3})
		combine(Operation{Whole: func(a, b int64) int64 { return a*10 + b },
			Number: func(a, b float64) float64 { return a*10 + b }}, out, a, b)
		require.Equal(t, []float64{11, 15, 17, 51, 55, 57}, out.list())
	}
	large := of(models.Int64, []int{1})
	putWhole(models.Int64, large.elem(0), 1<<53+1)
	for _, e := range []models.Element{models.Bool, models.Float32} {
		out := of(e, []int{1})
		combine(Equal, out, large, of(models.Int64, []int{1}, 1<<53))
		require.Equal(t, []float64{0}, out.list(), "integers are not compared as floats")
	}
	nan := of(models.Float32, []int{1}, math.NaN())
	for i, want := range []float64{0, 1, 0, 0, 0, 0} {
		out := of(models.Bool, []int{1})
		combine(comparisons[i], out, nan, nan)
		require.Equal(t, []float64{want}, out.list())
	}
}

func TestMasksAreMadeOfBooleans(t *testing.T) {
	in := of(models.Bool, []int{2, 3}, 0, 1, 0, 0, 0, 0)
	out := of(models.Bool, []int{2})
	reduce(Or, out, in, []int{2, 1})
	require.Equal(t, []float64{1, 0}, out.list())
	reduce(And, out, in, []int{2, 1})
	require.Equal(t, []float64{0, 0}, out.list())
	columns := of(models.Bool, []int{3})
	reduce(Or, columns, in, []int{1, 3})
	require.Equal(t, []float64{0, 1, 0}, columns.list())

	negated := of(models.Bool, []int{2, 3})
	not(negated, in)
	require.Equal(t, []float64{1, 0, 1, 1, 1, 1}, negated.list())
	combine(And, negated, in, columns)
	require.Equal(t, []float64{0, 1, 0, 0, 0, 0}, negated.list())

	chosen := of(models.Float32, []int{2, 3})
	where(chosen, columns, of(models.Float32, []int{2, 1}, 5, 6), of(models.Float32, []int{1}, -1))
	require.Equal(t, []float64{-1, 5, -1, -1, 6, -1}, chosen.list())
}

func TestRowsAreLookedUpAndNothingElse(t *testing.T) {
	table := of(models.Float32, []int{3, 2}, 1, 2, 3, 4, 5, 6)
	for _, e := range []models.Element{models.Int32, models.Int64, models.Uint8} {
		out := of(models.Float32, []int{1, 2, 2})
		gather(out, table, of(e, []int{1, 2}, 2, 0), 0, 0)
		require.Equal(t, []float64{5, 6, 1, 2}, out.list())
	}
	for _, n := range []float64{-1, 3, math.MinInt32} {
		out, index := of(models.Float32, []int{1, 2}), of(models.Int32, []int{1}, n)
		require.ErrorIs(t, fault.Try(func() { gather(out, table, index, 0, 0) }), ErrIndex)
	}
}

func TestPartsOfAnArrayAreCopied(t *testing.T) {
	in := of(models.Int16, []int{2, 3}, 1, 2, 3, 4, 5, 6)
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
			out := of(models.Int16, c.shape)
			Strided(out, in, c.offset, c.strides)
			require.Equal(t, c.want, out.list())
		})
	}
}

func TestTheLargestElementsPlaceIsFound(t *testing.T) {
	in := of(models.Float32, []int{2, 3}, 1, 7, 7, math.NaN(), 9, 2)
	rows := of(models.Int64, []int{2})
	arg(rows, in, 1, 1)
	require.Equal(t, []float64{1, 0}, rows.list())
	columns := of(models.Int32, []int{3})
	arg(columns, of(models.Int8, []int{2, 3}, 1, 7, 7, -3, 9, 2), 0, 1)
	require.Equal(t, []float64{0, 1, 0}, columns.list())
}

func TestNumbersAreReducedAndNormalised(t *testing.T) {
	in := of(models.Float32, []int{2, 3}, 1, 7, -7, 0, 9, 2)
	most := of(models.Float32, []int{2})
	reduce(Greatest, most, in, []int{2, 1})
	require.Equal(t, []float64{7, 9}, most.list())
	least := of(models.Int8, []int{3})
	reduce(Least, least, of(models.Int8, []int{2, 3}, 1, 7, -7, 0, 9, 2), []int{1, 3})
	require.Equal(t, []float64{0, 7, -7}, least.list())
	reduce(Greatest, most, of(models.Float32, []int{2, 1}, math.NaN(), 1), []int{2, 1})
	require.True(t, math.IsNaN(most.list()[0]))

	out := of(models.Float32, []int{2, 2})
	logSoftmax(out, of(models.Float32, []int{2, 2}, 1000, 0, 1000, 0), 1)
	require.Equal(t, []float64{0, -1000, 0, -1000}, out.list())
	logSoftmax(out, of(models.Float32, []int{2, 2}, 3, 4, 3, 4), 0)
	require.InDeltaSlice(t, []float64{-math.Ln2, -math.Ln2, -math.Ln2, -math.Ln2}, out.list(), 1e-6)
	apply(math.Abs, out, of(models.Float32, []int{2, 2}, -1, 2, -3, 4))
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
	in := of(models.Int32, []int{4, 2}, 1, 2, 3, 4, 5, 6, 7, 8)
	out := of(models.Int32, []int{3, 2})
	segments(Product, out, in, of(models.Int64, []int{4}, 2, -1, 0, 2), 1)
	require.Equal(t, []float64{5, 6, 1, 1, 7, 16}, out.list())
	wrong := of(models.Int64, []int{4}, 0, 1, 3, 0)
	require.ErrorIs(t, fault.Try(func() { segments(Sum, out, in, wrong, 0) }), ErrIndex)
}

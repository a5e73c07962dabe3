package operators

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/fault"
	"xpwc/models"
)

func TestElementsAreTakenFromWhereTheirPlacesSay(t *testing.T) {
	in := of(models.Int16, []int{2, 3}, 1, 2, 3, 4, 5, 6)
	out := of(models.Int16, []int{3, 4})
	take(out, in, [][]int{{1, -1, 0}, {2, 2, -1, 0}}, nil)
	require.Equal(t, []float64{6, 6, 0, 4, 0, 0, 0, 0, 3, 3, 0, 1}, out.list())
	take(out, in, [][]int{{1, -1, 0}, {2, 2, -1, 0}}, of(models.Int16, nil, 9).Data)
	require.Equal(t, []float64{6, 6, 9, 4, 9, 9, 9, 9, 3, 3, 9, 1}, out.list())
	scalar := of(models.Int16, nil)
	take(scalar, of(models.Int16, nil, 7), nil, nil)
	require.Equal(t, []float64{7}, scalar.list())
}

func TestArraysAreJoinedAlongAnAxis(t *testing.T) {
	a, b := of(models.Int32, []int{2, 1, 2}, 1, 2, 3, 4), of(models.Int32, []int{2, 2, 2}, 5, 6, 7, 8, 9, 10, 11, 12)
	out := of(models.Int32, []int{2, 3, 2})
	join(out, 1, a, b)
	require.Equal(t, []float64{1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12}, out.list())
}

func TestSlicesAreGatheredAlongAnAxis(t *testing.T) {
	table := of(models.Float32, []int{2, 3, 2}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	out := of(models.Float32, []int{2, 2, 2})
	gather(out, table, of(models.Int64, []int{2}, 2, 0), 1, 0)
	require.Equal(t, []float64{4, 5, 0, 1, 10, 11, 6, 7}, out.list())
	gather(out, table, of(models.Int32, []int{2, 2}, 2, 0, 1, 1), 1, 1)
	require.Equal(t, []float64{4, 5, 0, 1, 8, 9, 8, 9}, out.list(), "each batch has indices of its own")
	last := of(models.Float32, []int{2, 3, 1})
	gather(last, table, of(models.Uint8, []int{1}, 1), 2, 0)
	require.Equal(t, []float64{1, 3, 5, 7, 9, 11}, last.list())

	pairs := of(models.Int32, []int{2, 2}, 1, 2, 0, 1)
	found := of(models.Float32, []int{2, 2})
	gatherSlices(found, table, pairs)
	require.Equal(t, []float64{10, 11, 2, 3}, found.list())
	spread := of(models.Float32, []int{2, 3, 2})
	scatterSlices(spread, pairs, found)
	require.Equal(t, []float64{0, 0, 2, 3, 0, 0, 0, 0, 0, 0, 10, 11}, spread.list())
	twice := of(models.Int64, []int{3})
	scatterSlices(twice, of(models.Int64, []int{2, 1}, 2, 2), of(models.Int64, []int{2}, 5, 6))
	require.Equal(t, []float64{0, 0, 11}, twice.list(), "what comes to one place is added")

	for _, n := range []float64{-1, 3} {
		wrong := of(models.Int32, []int{1, 2}, 0, n)
		index, out := of(models.Int32, []int{1}, n), of(models.Float32, []int{2, 1, 2})
		require.ErrorIs(t, fault.Try(func() { gather(out, table, index, 1, 0) }), ErrIndex)
		row := of(models.Float32, []int{1, 2})
		require.ErrorIs(t, fault.Try(func() { gatherSlices(row, table, wrong) }), ErrIndex)
		require.ErrorIs(t, fault.Try(func() { scatterSlices(spread, wrong, row) }), ErrIndex)
	}
}

func TestTheLargestComeFirst(t *testing.T) {
	in := of(models.Float32, []int{2, 4}, 3, 9, 9, 1, -1, -5, -2, -3)
	values, at := of(models.Float32, []int{2, 3}), of(models.Int32, []int{2, 3})
	topK(values, at, in)
	require.Equal(t, []float64{9, 9, 3, -1, -2, -3}, values.list())
	require.Equal(t, []float64{1, 2, 0, 0, 2, 3}, at.list())
}

func TestOneIsHot(t *testing.T) {
	on, off := of(models.Float32, nil, 5), of(models.Float32, nil, -1)
	out := of(models.Float32, []int{2, 3})
	oneHot(out, of(models.Int64, []int{2}, 2, 7), on, off, 1)
	require.Equal(t, []float64{-1, -1, 5, -1, -1, -1}, out.list())
	columns := of(models.Float32, []int{3, 2})
	oneHot(columns, of(models.Int64, []int{2}, 2, 0), on, off, 0)
	require.Equal(t, []float64{-1, 5, -1, -1, 5, -1}, columns.list())
}

func TestOperationsCombineReduceAndAddUp(t *testing.T) {
	for _, e := range everyElement {
		in := of(e, []int{2, 3}, 1, 5, 2, 3, 4, 0)
		for _, c := range []struct {
			operation Operation
			combined  []float64
			reduced   []float64
		}{
			{Sum, []float64{2, 6, 3, 4, 5, 1}, []float64{8, 7}},
			{Product, []float64{1, 5, 2, 3, 4, 0}, []float64{10, 0}},
			{Greatest, []float64{1, 5, 2, 3, 4, 1}, []float64{5, 4}},
			{Least, []float64{1, 1, 1, 1, 1, 0}, []float64{1, 0}},
		} {
			combined, reduced := of(e, []int{2, 3}), of(e, []int{2})
			combine(c.operation, combined, in, of(e, nil, 1))
			require.Equal(t, c.combined, combined.list())
			reduce(c.operation, reduced, in, []int{2, 1})
			require.Equal(t, c.reduced, reduced.list())
		}
		for _, c := range []struct {
			axis               int
			exclusive, reverse bool
			want               []float64
		}{
			{1, false, false, []float64{1, 6, 8, 3, 7, 7}}, {1, true, false, []float64{0, 1, 6, 0, 3, 7}},
			{1, false, true, []float64{8, 7, 2, 7, 4, 0}}, {1, true, true, []float64{7, 2, 0, 4, 0, 0}},
			{0, false, false, []float64{1, 5, 2, 4, 9, 2}},
		} {
			sums := of(e, []int{2, 3})
			cumulativeSum(sums, in, c.axis, c.exclusive, c.reverse)
			require.Equal(t, c.want, sums.list())
		}
	}
}

func TestDiagonalsAreSetInMatricesOfAnyShape(t *testing.T) {
	out := of(models.Int32, []int{2, 2, 3}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	setDiagonals(out, of(models.Int32, []int{2, 2}, 20, 21, 22, 23))
	require.Equal(t, []float64{20, 1, 2, 3, 21, 5, 22, 7, 8, 9, 23, 11}, out.list())
	tall := of(models.Float32, []int{3, 1}, 1, 2, 3)
	setDiagonals(tall, of(models.Float32, []int{1}, 7))
	require.Equal(t, []float64{7, 2, 3}, tall.list())
}

func TestSequencesAreReversedAsFarAsTheyGo(t *testing.T) {
	in, out := of(models.Int16, []int{2, 3, 2}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), of(models.Int16, []int{2, 3, 2})
	reverseSequences(out, in, of(models.Int64, []int{2}, 2, 3), 1, 0)
	require.Equal(t, []float64{2, 3, 0, 1, 4, 5, 10, 11, 8, 9, 6, 7}, out.list())
	reverseSequences(out, in, of(models.Int32, []int{2}, 0, 3), 1, 2)
	require.Equal(t, []float64{0, 5, 2, 3, 4, 1, 6, 11, 8, 9, 10, 7}, out.list())
	for _, n := range []float64{-1, 4} {
		lengths := of(models.Int32, []int{2}, 1, n)
		require.ErrorIs(t, fault.Try(func() { reverseSequences(out, in, lengths, 1, 0) }), ErrIndex)
	}
}

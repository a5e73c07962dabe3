package operators

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/fault"
	"xpwc/models"
)

func TestWindowsAreGatheredWhereIndexVectorsPoint(t *testing.T) {
	table := arrayOf(models.Float32, []int{3, 4}, 0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23)
	out := arrayOf(models.Float32, []int{2, 2, 2})
	w := Windows{Inside: []int{1, 2}, Start: []int{0, 1}, Vector: 1}
	run(GatherWindows(w, []int{2, 2}), out, table, arrayOf(models.Int32, []int{2, 2}, 0, 1, 9, -3))
	require.Equal(t, []float64{1, 2, 11, 12, 10, 11, 20, 21}, out.list(), "a window out of the table is moved into it")

	columns := arrayOf(models.Float32, []int{3, 2})
	w = Windows{Inside: []int{0}, Collapsed: []int{1}, Start: []int{1}, Vector: 1}
	run(GatherWindows(w, []int{3, 1}), columns, table, arrayOf(models.Int64, []int{2}, 3, 0))
	require.Equal(t, []float64{3, 0, 13, 10, 23, 20}, columns.list(), "each number is an index vector")
}

func TestWindowsAreScatteredWhereIndexVectorsPoint(t *testing.T) {
	table := arrayOf(models.Int32, []int{3, 3}, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	updates := arrayOf(models.Int32, []int{2, 2, 2}, 10, 20, 30, 40, 50, 60, 70, 80)
	indices := arrayOf(models.Int32, []int{2, 2}, 2, 1, 0, -1)
	w := Windows{Inside: []int{1, 2}, Start: []int{0, 1}, Vector: 1}
	out := arrayOf(models.Int32, []int{3, 3})
	run(ScatterWindows(w, nil), out, table, indices, updates)
	require.Equal(t, []float64{60, 2, 3, 80, 5, 6, 7, 10, 20}, out.list(), "elements outside are dropped")
	run(ScatterWindows(w, &Sum), out, table, indices, updates)
	require.Equal(t, []float64{61, 2, 3, 84, 5, 6, 7, 18, 29}, out.list())
	require.Equal(t, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, table.list(), "the table stays")
}

func TestElementsArePaddedInside(t *testing.T) {
	out := arrayOf(models.Int16, []int{1, 6})
	op := PadInside([]int{0, -1}, []int{0, 2}, []int{0, 1})
	run(op, out, arrayOf(models.Int16, []int{1, 3}, 1, 2, 3), arrayOf(models.Int16, nil, 9))
	require.Equal(t, []float64{9, 2, 9, 3, 9, 9}, out.list())
}

func TestWindowsThatDoNotFitAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		op     Operator
		shapes [][]int
	}{
		"larger than the table": {GatherWindows(Windows{Inside: []int{1}, Start: []int{0}, Vector: 1}, []int{4}),
			[][]int{{3}, {2, 1}}},
		"a dimension twice": {GatherWindows(Windows{Inside: []int{1, 1}, Start: []int{0}, Vector: 1}, []int{1, 1}),
			[][]int{{3, 3}, {2, 1}}},
		"a start of no dimension": {GatherWindows(Windows{Inside: []int{1}, Start: []int{1}, Vector: 1}, []int{1}),
			[][]int{{3}, {2, 1}}},
		"a vector too long": {GatherWindows(Windows{Inside: []int{1}, Start: []int{0}, Vector: 1}, []int{1}),
			[][]int{{3}, {2, 2}}},
		"a wide window without its dimension": {GatherWindows(Windows{Collapsed: []int{0}, Start: []int{0}, Vector: 1},
			[]int{2}), [][]int{{3}, {2, 1}}},
		"a vector beyond the indices": {GatherWindows(Windows{Inside: []int{1}, Start: []int{0}, Vector: 3}, []int{1}),
			[][]int{{3}, {2, 1}}},
		"updates of another shape": {ScatterWindows(Windows{Inside: []int{1}, Start: []int{0}, Vector: 1}, nil),
			[][]int{{3}, {2, 1}, {3, 1}}},
		"updates without the dimension": {ScatterWindows(Windows{Inside: []int{4}, Start: []int{0}, Vector: 1}, nil),
			[][]int{{3}, {2, 1}, {2, 1}}},
		"nothing left":    {PadInside([]int{-3}, []int{0}, []int{0}), [][]int{{3}, nil}},
		"much around":     {PadInside([]int{MostIndices}, []int{0}, []int{0}), [][]int{{3}, nil}},
		"much in between": {PadInside([]int{0}, []int{0}, []int{MostIndices + 1}), [][]int{{3}, nil}},
		"less than none":  {PadInside([]int{0}, []int{0}, []int{-1}), [][]int{{3}, nil}},
	} {
		require.Error(t, fault.Try(func() { c.op(c.shapes) }), name)
	}
}

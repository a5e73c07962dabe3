package operators

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/fault"
	"xpwc/models"
)

func TestElementsAreTakenFromWhereTheirPlacesSay(t *testing.T) {
	in := arrayOf(models.Int16, []int{2, 3}, 1, 2, 3, 4, 5, 6)
	out := arrayOf(models.Int16, []int{3, 4})
	take(out, in, [][]int{{1, -1, 0}, {2, 2, -1, 0}}, nil)
	require.Equal(t, []float64{6, 6, 0, 4, 0, 0, 0, 0, 3, 3, 0, 1}, out.list())
	take(out, in, [][]int{{1, -1, 0}, {2, 2, -1, 0}}, arrayOf(models.Int16, nil, 9).Data)
	require.Equal(t, []float64{6, 6, 9, 4, 9, 9, 9, 9, 3, 3, 9, 1}, out.list())
	scalar := arrayOf(models.Int16, nil)
	take(scalar, arrayOf(models.Int16, nil, 7), nil, nil)
	require.Equal(t, []float64{7}, scalar.list())
}

func TestArraysAreJoinedAlongAnAxis(t *testing.T) {
	a, b := arrayOf(models.Int32, []int{2, 1, 2}, 1, 2, 3, 4),
		arrayOf(models.Int32, []int{2, 2, 2}, 5, 6, 7, 8, 9, 10, 11, 12)
	out := arrayOf(models.Int32, []int{2, 3, 2})
	run(Concatenate(1), out, a, b)
	require.Equal(t, []float64{1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12}, out.list())
}

func TestSlicesAreGatheredAlongAnAxis(t *testing.T) {
	table := arrayOf(models.Float32, []int{2, 3, 2}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	out := arrayOf(models.Float32, []int{2, 2, 2})
	run(Gather(1, 0), out, table, arrayOf(models.Int64, []int{2}, 2, 0))
	require.Equal(t, []float64{4, 5, 0, 1, 10, 11, 6, 7}, out.list())
	run(Gather(1, 1), out, table, arrayOf(models.Int32, []int{2, 2}, 2, 0, 1, 1))
	require.Equal(t, []float64{4, 5, 0, 1, 8, 9, 8, 9}, out.list(), "each batch has indices of its own")
	last := arrayOf(models.Float32, []int{2, 3, 1})
	run(Gather(2, 0), last, table, arrayOf(models.Uint8, []int{1}, 1))
	require.Equal(t, []float64{1, 3, 5, 7, 9, 11}, last.list())

	pairs := arrayOf(models.Int32, []int{2, 2}, 1, 2, 0, 1)
	gathered := arrayOf(models.Float32, []int{2, 2})
	run(GatherSlices(), gathered, table, pairs)
	require.Equal(t, []float64{10, 11, 2, 3}, gathered.list())
	spread := arrayOf(models.Float32, []int{2, 3, 2})
	run(ScatterSlices([]int{2, 3, 2}), spread, pairs, gathered)
	require.Equal(t, []float64{0, 0, 2, 3, 0, 0, 0, 0, 0, 0, 10, 11}, spread.list())
	twice := arrayOf(models.Int64, []int{3})
	run(ScatterSlices([]int{3}), twice, arrayOf(models.Int64, []int{2, 1}, 2, 2), arrayOf(models.Int64, []int{2}, 5, 6))
	require.Equal(t, []float64{0, 0, 11}, twice.list(), "what comes to one place is added")

	for _, n := range []float64{-1, 3} {
		wrong := arrayOf(models.Int32, []int{1, 2}, 0, n)
		index, out := arrayOf(models.Int32, []int{1}, n), arrayOf(models.Float32, []int{2, 1, 2})
		require.ErrorIs(t, fault.Try(func() { run(Gather(1, 0), out, table, index) }), ErrIndex)
		row := arrayOf(models.Float32, []int{1, 2})
		require.ErrorIs(t, fault.Try(func() { run(GatherSlices(), row, table, wrong) }), ErrIndex)
		require.ErrorIs(t, fault.Try(func() { run(ScatterSlices([]int{2, 3, 2}), spread, wrong, row) }), ErrIndex)
	}
}

// Also columns, as keys and values have them whose tokens are the last dimension.
func TestAnUpdateOfAnyShapeIsWrittenWhereItBegins(t *testing.T) {
	shape := []int{2, 3, 4}
	numbers := make([]float64, product(shape))
	for i := range numbers {
		numbers[i] = float64(i)
	}
	for a := range 2 * 3 * 4 {
		part := []int{a%2 + 1, a/2%3 + 1, a/6 + 1}
		for b := range 2 * 3 * 4 {
			start := []int{min(b%2, 2-part[0]), min(b/2%3, 3-part[1]), min(b/6, 4-part[2])}
			want, update := slices.Clone(numbers), arrayOf(models.Int16, part)
			for i := range product(part) {
				place := []int{i / (part[1] * part[2]), i / part[2] % part[1], i % part[2]}
				putNumber(models.Int16, update.elem(i), 100+float64(i))
				want[((place[0]+start[0])*3+place[1]+start[1])*4+place[2]+start[2]] = 100 + float64(i)
			}
			in, out := arrayOf(models.Int16, shape, numbers...), arrayOf(models.Int16, shape)
			places := arrayOf(models.Int32, []int{3}, float64(start[0]), float64(start[1]), float64(start[2]))
			run(Update(), out, in, update, places)
			require.Equal(t, want, out.list(), "%v at %v", part, start)
			require.Equal(t, numbers, in.list())
			run(Update(), in, in, update, places)
			require.Equal(t, want, in.list(), "%v at %v, in place", part, start)
		}
	}
}

func TestTheLargestComeFirst(t *testing.T) {
	in := arrayOf(models.Float32, []int{2, 4}, 3, 9, 9, 1, -1, -5, -2, -3)
	values, indices := arrayOf(models.Float32, []int{2, 3}), arrayOf(models.Int32, []int{2, 3})
	topK(values, indices, in)
	require.Equal(t, []float64{9, 9, 3, -1, -2, -3}, values.list())
	require.Equal(t, []float64{1, 2, 0, 0, 2, 3}, indices.list())
}

func TestOneIsHot(t *testing.T) {
	on, off := arrayOf(models.Float32, nil, 5), arrayOf(models.Float32, nil, -1)
	out := arrayOf(models.Float32, []int{2, 3})
	run(OneHot(1, 3), out, arrayOf(models.Int64, []int{2}, 2, 7), on, off)
	require.Equal(t, []float64{-1, -1, 5, -1, -1, -1}, out.list())
	columns := arrayOf(models.Float32, []int{3, 2})
	run(OneHot(0, 3), columns, arrayOf(models.Int64, []int{2}, 2, 0), on, off)
	require.Equal(t, []float64{-1, 5, -1, -1, 5, -1}, columns.list())
}

func TestOperationsCombineReduceAndAddUp(t *testing.T) {
	for _, e := range everyElement {
		in := arrayOf(e, []int{2, 3}, 1, 5, 2, 3, 4, 0)
		for _, c := range []struct {
			operation Operation
			combined  []float64
			reduced   []float64
		}{
			{Sum, []float64{2, 6, 3, 4, 5, 1}, []float64{8, 7}},
			{Product, []float64{1, 5, 2, 3, 4, 0}, []float64{10, 0}},
			{Maximum, []float64{1, 5, 2, 3, 4, 1}, []float64{5, 4}},
			{Minimum, []float64{1, 1, 1, 1, 1, 0}, []float64{1, 0}},
		} {
			combined, reduced := arrayOf(e, []int{2, 3}), arrayOf(e, []int{2})
			combine(c.operation, combined, in, arrayOf(e, nil, 1))
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
			sums := arrayOf(e, []int{2, 3})
			cumulativeSum(sums, in, c.axis, c.exclusive, c.reverse)
			require.Equal(t, c.want, sums.list())
		}
	}
}

func TestDiagonalsAreSetInMatricesOfAnyShape(t *testing.T) {
	out := arrayOf(models.Int32, []int{2, 2, 3}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	setDiagonals(out, arrayOf(models.Int32, []int{2, 2}, 20, 21, 22, 23))
	require.Equal(t, []float64{20, 1, 2, 3, 21, 5, 22, 7, 8, 9, 23, 11}, out.list())
	tall := arrayOf(models.Float32, []int{3, 1}, 1, 2, 3)
	setDiagonals(tall, arrayOf(models.Float32, []int{1}, 7))
	require.Equal(t, []float64{7, 2, 3}, tall.list())
}

func TestSequencesAreReversedAsFarAsTheyGo(t *testing.T) {
	in, out := arrayOf(models.Int16, []int{2, 3, 2}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
		arrayOf(models.Int16, []int{2, 3, 2})
	run(ReverseSequences(1, 0), out, in, arrayOf(models.Int64, []int{2}, 2, 3))
	require.Equal(t, []float64{2, 3, 0, 1, 4, 5, 10, 11, 8, 9, 6, 7}, out.list())
	run(ReverseSequences(1, 2), out, in, arrayOf(models.Int32, []int{2}, 0, 3))
	require.Equal(t, []float64{0, 5, 2, 3, 4, 1, 6, 11, 8, 9, 10, 7}, out.list())
	for _, n := range []float64{-1, 4} {
		lengths := arrayOf(models.Int32, []int{2}, 1, n)
		require.ErrorIs(t, fault.Try(func() { run(ReverseSequences(1, 0), out, in, lengths) }), ErrIndex)
	}
}

func TestPaddingIsAroundElementsOfEverySize(t *testing.T) {
	for _, e := range everyElement {
		out := arrayOf(e, []int{3, 1, 2})
		run(Pad([]int{1, 0, 0}, []int{1, 0, 0}), out, arrayOf(e, []int{1, 1, 2}, 5, 6), arrayOf(e, nil, 9))
		require.Equal(t, []float64{9, 9, 5, 6, 9, 9}, out.list(), "%v", e)
		mirror := arrayOf(e, []int{6})
		run(MirrorPad([]int{2}, []int{1}, false), mirror, arrayOf(e, []int{3}, 1, 2, 3))
		require.Equal(t, []float64{3, 2, 1, 2, 3, 2}, mirror.list(), "%v", e)
		edges := arrayOf(e, []int{6})
		run(MirrorPad([]int{2}, []int{1}, true), edges, arrayOf(e, []int{3}, 1, 2, 3))
		require.Equal(t, []float64{2, 1, 1, 2, 3, 3}, edges.list(), "%v", e)
		tiles := arrayOf(e, []int{2, 4})
		run(Tile([]int{2, 2}), tiles, arrayOf(e, []int{2}, 1, 2))
		require.Equal(t, []float64{1, 2, 1, 2, 1, 2, 1, 2}, tiles.list(), "%v", e)
	}
}

func TestIndicesOfSeveralDimensionsAreTogetherOrFirst(t *testing.T) {
	table := arrayOf(models.Float32, []int{2, 2, 3}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	rows, columns := arrayOf(models.Int64, []int{2}, 1, 0), arrayOf(models.Int32, []int{2}, -1, 0)
	out := arrayOf(models.Float32, []int{2, 2})
	run(Index([]int{1, 2}), out, table, rows, columns)
	require.Equal(t, []float64{5, 0, 11, 6}, out.list(), "the dimensions follow each other")
	run(Index([]int{0, 2}), out, table, rows, columns)
	require.Equal(t, []float64{8, 11, 0, 3}, out.list(), "the indices come first")
	sums := arrayOf(models.Float32, table.Shape)
	run(IndexPut([]int{0, 2}, true), sums, arrayOf(models.Float32, table.Shape), arrayOf(models.Float32, nil, 1),
		arrayOf(models.Int64, []int{2}, 1, 1), columns)
	require.Equal(t, []float64{0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 1}, sums.list())
	wrong := arrayOf(models.Int64, []int{2}, 0, 2)
	require.ErrorIs(t, fault.Try(func() { run(Index([]int{0}), sums, table, wrong) }), ErrIndex)
}

func TestShapesThatContradictAnOperatorAreFaults(t *testing.T) {
	for name, c := range map[string]struct {
		op     Operator
		shapes [][]int
	}{
		"an axis":           {Reverse([]int{2}), [][]int{{2, 3}}},
		"times":             {Tile([]int{2}), [][]int{{2, 3}}},
		"too many times":    {Tile([]int{MostIndices}), [][]int{{2}}},
		"a mirror":          {MirrorPad([]int{3}, []int{0}, false), [][]int{{3}}},
		"padding":           {Pad([]int{1}, []int{1}), [][]int{{2, 3}}},
		"a part":            {Slice([]int{1}, []int{3}), [][]int{{3}}},
		"an order":          {Transpose([]int{0, 0}), [][]int{{2, 3}}},
		"a new shape":       {Reshape([]int{4}), [][]int{{2, 3}}},
		"joined":            {Concatenate(0), [][]int{{2, 3}, {2, 4}}},
		"expanded":          {Expand([]int{3}), [][]int{{2}}},
		"strides":           {AsStrided([]int{3}, []int{2}, 0), [][]int{{4}}},
		"operands":          {Combine(Sum), [][]int{{2}, {3}}},
		"batches":           {Gather(1, 1), [][]int{{2, 3}, {3, 1}}},
		"slices":            {GatherSlices(), [][]int{{2}, {1, 2}}},
		"an update":         {Update(), [][]int{{2}, {3}, {1}}},
		"indices":           {Index([]int{0, 1}), [][]int{{2, 3}, {2}, {3}}},
		"more than k":       {TopK(4), [][]int{{3}}},
		"a reduced axis":    {Reduce(Sum, []int{1}, false), [][]int{{3}}},
		"a window":          {MeanPool(Window{Size: []int{2}}, []int{2}, 0), [][]int{{1, 1, 3}}},
		"rows of segments":  {Segments(Sum, 0, 0, 0), [][]int{{2}, {2}}},
		"boxes":             {Suppress(1, false), [][]int{{2, 3}, {2}, nil, nil}},
		"lengths":           {ReverseSequences(0, 0), [][]int{{2, 3}, {2}}},
		"elements along":    {GatherElements(0), [][]int{{2, 3}, {2, 4}}},
		"slices in a shape": {ScatterSlices([]int{2}), [][]int{{1, 1}, {2}}},
	} {
		require.Error(t, fault.Try(func() { c.op(c.shapes) }), name)
	}
}

func TestPixelsOfBlocksComeBackFromTheImagesTheyWentInto(t *testing.T) {
	for _, e := range []models.Element{models.Float32, models.Int8, models.Int64} {
		pixels := make([]float64, 2*4*6*3)
		for i := range pixels {
			pixels[i] = float64(i % 127)
		}
		in, blocks, out := arrayOf(e, []int{2, 4, 6, 3}, pixels...), New(e, 12, 2, 2, 3), New(e, 2, 4, 6, 3)
		run(SpaceToBatch(2, 3), blocks, in)
		run(BatchToSpace(2, 3), out, blocks)
		require.Equal(t, pixels, out.list(), "%v", e)
		run(BatchToSpace(1, 2), New(e, 6, 2, 4, 3), blocks)
	}
	require.Error(t, fault.Try(func() { BatchToSpace(2, 3)([][]int{{8, 2, 2, 3}}) }))
}

func TestAMaskTakesElementsInTheirOrder(t *testing.T) {
	for _, e := range []models.Element{models.Float32, models.Int8, models.Int64} {
		table, values := arrayOf(e, []int{2, 3}, 1, 2, 3, 4, 5, 6), arrayOf(e, []int{4}, 10, 20, 30, 40)
		out := New(e, 2, 3)
		run(MaskedScatter(), out, table, arrayOf(models.Bool, []int{2, 3}, 0, 1, 0, 1, 1, 0), values)
		require.Equal(t, []float64{1, 10, 3, 20, 30, 6}, out.list(), "%v", e)
		run(MaskedScatter(), out, table, arrayOf(models.Bool, []int{3}, 1, 0, 1), values)
		require.Equal(t, []float64{10, 2, 20, 30, 5, 40}, out.list(), "%v: a mask for each row", e)
		run(MaskedScatter(), out, table, arrayOf(models.Bool, []int{2, 1}, 0, 1), values)
		require.Equal(t, []float64{1, 2, 3, 10, 20, 30}, out.list(), "%v: a mask for each column", e)
		run(MaskedScatter(), out, table, New(models.Bool, 2, 3), New(e, 0))
		require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, out.list(), "%v: an empty mask takes nothing", e)
	}
}

package operators

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/fault"
	"xpwc/models"
)

func TestASpanIsReadAndWrittenWhereAnInferenceTells(t *testing.T) {
	table := arrayOf(models.Float32, []int{2, 4, 1}, 0, 1, 2, 3, 10, 11, 12, 13)
	position := arrayOf(models.Int64, []int{1}, 1)
	part := arrayOf(models.Float32, []int{2, 2, 1})
	run(Span(1, 2, 1), part, table, position)
	require.Equal(t, []float64{2, 3, 12, 13}, listed(part))
	run(Span(1, 2, 0), part, table)
	require.Equal(t, []float64{0, 1, 10, 11}, listed(part), "without a position the offset is it")
	run(PutSpan(1, 0), table, table, arrayOf(models.Float32, []int{2, 2, 1}, 5, 6, 7, 8), position)
	require.Equal(t, []float64{0, 5, 6, 3, 10, 7, 8, 13}, listed(table), "in place")
	for _, n := range []float64{-2, 2, math.MaxInt32} {
		position.Put(0, n)
		require.ErrorIs(t, fault.Try(func() { run(Span(1, 2, 1), part, table, position) }), ErrIndex)
		require.ErrorIs(t, fault.Try(func() { run(PutSpan(1, 1), table, table, part, position) }), ErrIndex)
	}
	for name, try := range map[string]func(){
		"a dimension":  func() { Span(3, 1, 0)([][]int{{2, 4, 1}}) },
		"a length":     func() { Span(1, 5, 0)([][]int{{2, 4, 1}}) },
		"a part":       func() { PutSpan(1, 0)([][]int{{2, 4, 1}, {1, 2, 1}}) },
		"a long part":  func() { PutSpan(1, 0)([][]int{{2, 4, 1}, {2, 5, 1}}) },
		"heads":        func() { Attention(1, CausalMask, 0)([][]int{{1, 2, 3, 4}, {1, 9, 2, 4}, {1, 9, 2, 4}}) },
		"more queries": func() { Attention(1, CausalMask, 0)([][]int{{1, 9, 2, 4}, {1, 8, 2, 4}, {1, 8, 2, 4}}) },
		"other values": func() { Attention(1, CausalMask, 0)([][]int{{1, 2, 2, 4}, {1, 8, 2, 4}, {1, 7, 2, 4}}) },
		"a mask":       func() { Attention(1, AddedMask, 0)([][]int{{1, 2, 2, 4}, {1, 8, 2, 4}, {1, 8, 2, 4}}) },
		"a short mask": func() {
			Attention(1, AddedMask, 0)([][]int{{1, 1, 1, 1}, {1, 8, 1, 1}, {1, 8, 1, 1}, {1, 7}})
		},
	} {
		require.Error(t, fault.Try(try), name)
	}
}

// C computes what Go does, and both what the definition is: a query of one number sees keys of one number.
func TestAttentionIsToTheKeysThatAQuerySees(t *testing.T) {
	queries := arrayOf(models.Float32, []int{1, 2, 2, 1}, 1, 2, 3, 4) // two positions, two heads of one group
	keys := arrayOf(models.Float32, []int{1, 4, 1, 1}, 0.5, -0.25, 1, 100)
	values := arrayOf(models.Float32, []int{1, 4, 1, 1}, 10, 20, 40, 1000)
	position := arrayOf(models.Int64, []int{1}, 1)
	mask := arrayOf(models.Float32, []int{2, 4}, 0, -1, -2, math.Inf(-1), 0, 0, 0, math.Inf(-1))
	attended := func(query, scale float64, seen int, masked []float64) float64 {
		sum, shares := 0.0, 0.0
		for j := range seen {
			share := math.Exp(scale*query*keys.Number(j) + masked[j])
			sum, shares = sum+share*values.Number(j), shares+share
		}
		return sum / shares
	}
	none := make([]float64, 4)
	for _, c := range []struct {
		mask AttentionMask
		in   []Array
		want []float64
	}{
		{CausalMask, []Array{position}, []float64{attended(1, 0.5, 2, none), attended(2, 0.5, 2, none),
			attended(3, 0.5, 3, none), attended(4, 0.5, 3, none)}},
		{NoMask, []Array{position}, []float64{attended(1, 0.5, 3, none), attended(2, 0.5, 3, none),
			attended(3, 0.5, 3, none), attended(4, 0.5, 3, none)}},
		{AddedMask, []Array{mask, position}, []float64{attended(1, 0.5, 3, []float64{0, -1, -2}),
			attended(2, 0.5, 3, []float64{0, -1, -2}), attended(3, 0.5, 3, none), attended(4, 0.5, 3, none)}},
	} {
		out := arrayOf(models.Float32, []int{1, 2, 2, 1})
		run(Attention(0.5, c.mask, 0), out, append([]Array{queries, keys, values}, c.in...)...)
		require.InDeltaSlice(t, c.want, listed(out), 1e-4)
	}
	position.Put(0, 3)
	require.ErrorIs(t, fault.Try(func() {
		run(Attention(1, CausalMask, 0), New(models.Float32, 1, 2, 2, 1), queries, keys, values, position)
	}), ErrIndex, "two queries from the last place on")
}

func TestAttentionInGoAndInCAreTheSame(t *testing.T) {
	const width, count, step = 19, 37, 40
	number := func(i int) float32 { return float32(math.Sin(float64(i * i))) }
	a := attending{scores: make([]float32, count), query: make([]float32, width), keys: make([]float32, count*step),
		values: make([]float32, count*step), mask: make([]float32, count), step: step}
	for _, list := range [][]float32{a.query, a.keys, a.values, a.mask} {
		for i := range list {
			list[i] = number(i + len(list))
		}
	}
	got, want := make([]float32, width), make([]float32, width)
	if !attendRow(got, a, 0.3) {
		t.Skip("without cgo there is no loop in C")
	}
	a.row(want, 0.3)
	require.InDeltaSlice(t, want, got, 1e-5)

	a.query[0] = 1e30 // scores that a float rounds off by more than an exponent has
	require.True(t, attendRow(got, a, 0.3))
	a.row(want, 0.3)
	require.InDeltaSlice(t, got, want, 1e-5)
}

// listed returns the numbers of an array.
func listed(a Array) (numbers []float64) {
	for i := range product(a.Shape) {
		numbers = append(numbers, a.Number(i))
	}
	return numbers
}

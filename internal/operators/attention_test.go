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
	for name, a := range map[string]attention{
		"one token, groups of three": {queries: 1, heads: 9, groups: 3, width: 64, capacity: 40, position: 36},
		"a prompt":                   {queries: 7, heads: 6, groups: 2, width: 16, capacity: 40, position: 3},
		"a head a group":             {queries: 5, heads: 3, groups: 3, width: 32, capacity: 40, position: 0},
		"heads of an odd width":      {queries: 3, heads: 2, groups: 1, width: 19, capacity: 40, position: 2},
		"of one number":              {queries: 2, heads: 5, groups: 1, width: 1, capacity: 40, position: 9},
		"a mask":                     {queries: 6, heads: 4, groups: 2, width: 24, capacity: 40, mask: AddedMask},
		"no mask":                    {queries: 6, heads: 4, groups: 2, width: 24, capacity: 40, mask: NoMask},
	} {
		t.Run(name, func(t *testing.T) {
			a.scale = 0.3
			in := attendingOf(a)
			got, want := make([]float32, len(in.queries)), make([]float32, len(in.queries))
			if !attendAll(got, a, in) {
				t.Skip("without cgo there is no loop in C")
			}
			a.each(want, in)
			require.InDeltaSlice(t, want, got, 1e-5)

			in.queries[0] = 1e30 // scores that a float rounds off by more than an exponent has
			require.True(t, attendAll(got, a, in))
			a.each(want, in)
			require.InDeltaSlice(t, want, got, 1e-5)
		})
	}
}

// attendingOf returns numbers for an attention. Those of keys that no query sees are none.
func attendingOf(a attention) attending {
	in := attending{queries: make([]float32, a.queries*a.heads*a.width),
		keys: make([]float32, a.capacity*a.groups*a.width), values: make([]float32, a.capacity*a.groups*a.width),
		scores: make([]float32, scoredRows*a.seen(a.queries-1))}
	lists := [][]float32{in.queries, in.keys, in.values}
	if a.mask == AddedMask {
		in.mask = make([]float32, a.queries*a.capacity)
		lists = append(lists, in.mask)
	}
	for k, list := range lists {
		for i := range list {
			list[i] = float32(math.Sin(float64((i + k) * (i + k))))
		}
	}
	seen := a.seen(a.queries-1) * a.groups * a.width
	for _, list := range [][]float32{in.keys[seen:], in.values[seen:]} {
		for i := range list {
			list[i] = float32(math.NaN())
		}
	}
	return in
}

func TestAQueryIsNotSpoiltByAValueThatItDoesNotSee(t *testing.T) {
	a := attention{queries: 3, heads: 2, groups: 1, width: 16, capacity: 8, scale: 1}
	in, out := attendingOf(a), make([]float32, 3*2*16)
	in.values[2*16] = float32(math.Inf(1)) // of the last query
	if !attendAll(out, a, in) {
		a.each(out, in)
	}
	for i, x := range out[:2*2*16] {
		require.False(t, math.IsInf(float64(x), 0) || math.IsNaN(float64(x)), "number %d is %v", i, x)
	}
	require.True(t, math.IsInf(float64(out[2*2*16]), 1))
}

// listed returns the numbers of an array.
func listed(a Array) (numbers []float64) {
	for i := range product(a.Shape) {
		numbers = append(numbers, a.Number(i))
	}
	return numbers
}

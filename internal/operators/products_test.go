package operators

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/fault"
	"xpwc/models"
)

func TestMatricesOfEveryTypeAreMultiplied(t *testing.T) {
	for _, e := range everyElement {
		t.Run(fmt.Sprint(e), func(t *testing.T) {
			a := arrayOf(e, []int{2, 2, 3}, 1, 2, 3, 4, 5, 6, 0, 1, 0, 1, 0, 1)
			b := arrayOf(e, []int{2, 3, 2}, 1, 0, 0, 1, 2, 1, 3, 4, 5, 6, 7, 8)
			product := []float64{7, 5, 16, 11, 5, 6, 10, 12}
			out := New(e, 2, 2, 2)
			run(Products(1, 1), out, a, b)
			require.Equal(t, product, out.list())

			out = New(e, 2, 2)
			run(Products(2, 3), out, a.part(0, 6).shaped([]int{2, 3}), b.part(0, 6).shaped([]int{3, 2}),
				arrayOf(e, []int{2}, 1, 2))
			require.Equal(t, []float64{17, 16, 35, 28}, out.list())

			weights := arrayOf(e, []int{2, 3}, 1, 0, 2, 0, 1, 1) // the first matrix of b, transposed
			out = New(e, 2, 1, 2)
			run(Linear(), out, a.part(0, 6).shaped([]int{2, 1, 3}), weights, arrayOf(e, []int{2}, 10, 20))
			require.Equal(t, []float64{17, 25, 26, 31}, out.list())
		})
	}
}

func TestSoftmaxAndLayerNormWorkAlongTheirDimensions(t *testing.T) {
	ln := math.Log
	x := arrayOf(models.Float64, []int{2, 2}, ln(1), ln(3), ln(3), ln(1))
	for axis, want := range [][]float64{{0.25, 0.75, 0.75, 0.25}, {0.25, 0.75, 0.75, 0.25}} {
		out := New(models.Float64, 2, 2)
		run(Softmax(axis), out, x)
		require.InDeltaSlice(t, want, out.list(), 1e-15)
	}
	in := arrayOf(models.Float64, []int{2, 1, 2}, 1, 3, -2, 2)
	scale, shift := arrayOf(models.Float64, []int{1, 2}, 1, 10), arrayOf(models.Float64, []int{1, 2}, 5, 0)
	for _, c := range []struct {
		operands []Array
		want     []float64
	}{
		{nil, []float64{-1, 1, -1, 1}},
		{[]Array{scale}, []float64{-1, 10, -1, 10}},
		{[]Array{scale, shift}, []float64{4, 10, 4, 10}},
	} {
		out, n := New(models.Float64, 2, 1, 2), len(c.operands)
		run(LayerNorm(2, 0, n > 0, n > 1), out, append([]Array{in}, c.operands...)...)
		require.InDeltaSlice(t, c.want, out.list(), 1e-15)
	}
}

func TestProductsOfOtherShapesAreFaults(t *testing.T) {
	for name, c := range map[string]struct {
		op     Operator
		shapes [][]int
	}{
		"inner dimensions":  {Products(1, 1), [][]int{{2, 3}, {2, 3}}},
		"batches":           {Products(1, 1), [][]int{{2, 2, 3}, {3, 3, 2}}},
		"vectors":           {Products(1, 1), [][]int{{3}, {3}}},
		"a longer addend":   {Products(1, 1), [][]int{{2, 3}, {3, 2}, {3}}},
		"weights":           {Linear(), [][]int{{2, 3}, {4, 2}}},
		"no dimension":      {LayerNorm(0, 0, false, false), [][]int{{2}}},
		"too many":          {LayerNorm(3, 0, false, false), [][]int{{2, 2}}},
		"a scale elsewhere": {LayerNorm(1, 0, true, false), [][]int{{2, 3}, {2}}},
		"an axis":           {Softmax(2), [][]int{{2, 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Error(t, fault.Try(func() { c.op(c.shapes) }))
		})
	}
}

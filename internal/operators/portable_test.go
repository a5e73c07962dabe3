package operators

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/fault"
	"xpwc/models"
)

func TestAnIndexOutOfRangeIsAFault(t *testing.T) {
	table, out := arrayOf(models.Float32, []int{2, 2}, 1, 2, 3, 4), arrayOf(models.Float32, []int{2, 2})
	src := arrayOf(models.Float32, []int{1, 2}, 5, 6)
	for _, n := range []float64{-1, 2} {
		indices := arrayOf(models.Int64, []int{1, 2}, 0, n)
		for _, op := range []Operator{Scatter(0, false), Scatter(0, true)} {
			require.ErrorIs(t, fault.Try(func() { run(op, out, table, indices, src) }), ErrIndex)
		}
		require.ErrorIs(t, fault.Try(func() { run(ScatterNumber(1, 7), out, table, indices) }), ErrIndex)
	}
	mask := arrayOf(models.Bool, []int{2, 2}, 1, 1, 0, 1)
	require.ErrorIs(t, fault.Try(func() { run(MaskedScatter(), out, table, mask, src) }), ErrIndex)
	repeated := arrayOf(models.Int64, []int{3})
	for _, counts := range [][]float64{{1, 1}, {4, 0}, {-1, 4}} {
		in := arrayOf(models.Int64, []int{2}, counts...)
		require.ErrorIs(t, fault.Try(func() { run(RepeatIndices(3), repeated, in) }), ErrIndex, counts)
	}
}

func TestShapesThatContradictAnOperatorAreAFault(t *testing.T) {
	window := Window{Size: []int{2, 2}, Stride: []int{1, 1}, Dilation: []int{1, 1}, Pre: []int{0, 0},
		Padded: []int{0, 0}}
	zeroStride := window
	zeroStride.Stride = []int{0, 1}
	for name, try := range map[string]func(){
		"scatter: an axis":          func() { Scatter(2, false)([][]int{{2, 2}, {1, 2}, {1, 2}}) },
		"scatter: too few elements": func() { Scatter(0, false)([][]int{{2, 2}, {2, 2}, {1, 2}}) },
		"scatter: a wide index":     func() { ScatterNumber(0, 1)([][]int{{2, 2}, {1, 3}}) },
		"diagonal: beyond":          func() { Diagonal(3, 0, 1)([][]int{{2, 3}}) },
		"diagonal: one dimension":   func() { Diagonal(0, 1, 1)([][]int{{2, 3}}) },
		"triangle":                  func() { Triangle(0)([][]int{{4}}) },
		"roll":                      func() { Roll([]int{0}, nil)([][]int{{4}}) },
		"surround":                  func() { Surround([]int{-1}, []int{0})([][]int{{4}}) },
		"distances: rows":           func() { Distances(2)([][]int{{2, 3}, {2, 4}}) },
		"distances: a power":        func() { Distances(math.NaN())([][]int{{2, 3}, {2, 3}}) },
		"distances: one row":        func() { PairDistances(2)([][]int{{1, 3}}) },
		"a grid": func() {
			SampleGrid(Bilinear, ZeroBorder, true)([][]int{{1, 1, 2, 2}, {2, 1, 1,
				2}})
		},
		"a grid: a mode":        func() { SampleGrid(9, ZeroBorder, true)([][]int{{1, 1, 2, 2}, {1, 1, 1, 2}}) },
		"a size":                func() { ResizeBilinear(Resizing{Size: []int{0, 2}})([][]int{{1, 1, 2, 2}}) },
		"nearest":               func() { ResizeNearest([]int{2, 2}, []float64{1})([][]int{{1, 1, 2, 2}}) },
		"parts":                 func() { AdaptiveMean([]int{2, 0})([][]int{{1, 1, 2, 2}}) },
		"parts of no rows":      func() { AdaptiveMean([]int{2, 2})([][]int{{1, 1, 0, 2}}) },
		"parts of no columns":   func() { AdaptiveMean([]int{2, 2})([][]int{{1, 1, 2, 0}}) },
		"a pool: a stride":      func() { MaxPool(zeroStride, []int{1, 1})([][]int{{1, 1, 2, 2}}) },
		"a fold: channels":      func() { Fold(window, 1, []int{1, 2, 2}, []int{1, 1})([][]int{{1, 1, 3}}) },
		"a fold: no batch":      func() { Fold(window, 2, []int{1, 2, 2}, []int{1, 1})([][]int{{1, 1, 4}}) },
		"a spectrum: twice":     func() { RealFourier([]int{0, 0}, 1, true)([][]int{{4}}) },
		"a spectrum: no axis":   func() { RealFourier(nil, 1, true)([][]int{{4}}) },
		"a spectrum: too short": func() { InverseFourier([]int{0}, 1, 9)([][]int{{4}}) },
		"extremes":              func() { Extremes(0, 5, true)([][]int{{4}}) },
	} {
		require.Error(t, fault.Try(try), name)
	}
}

func TestAPlaceThatIsNoNumberIsInNoImage(t *testing.T) {
	in := arrayOf(models.Float32, []int{1, 1, 2, 2}, 1, 2, 3, 4)
	nan, inf := math.NaN(), math.Inf(1)
	grid := arrayOf(models.Float32, []int{1, 1, 3, 2}, nan, nan, inf, -inf, 1e30, -1e30)
	out := arrayOf(models.Float32, []int{1, 1, 1, 3})
	for mode := Bilinear; mode <= Bicubic; mode++ {
		for border := ZeroBorder; border <= MirrorBorder; border++ {
			for _, corners := range []bool{false, true} {
				require.NoError(t, fault.Try(func() { run(SampleGrid(mode, border, corners), out, in, grid) }))
			}
		}
	}
}

func TestATransformOfAnyLengthIsThatOfTheDefinition(t *testing.T) {
	for n := 1; n <= 17; n++ {
		in, want := make([]complex128, n), make([]complex128, n)
		for k := range in {
			in[k] = complex(math.Sin(float64(k*k)), math.Cos(float64(3*k)))
		}
		for k := range want {
			for i, c := range in {
				want[k] += c * cmplx.Rect(1, -2*math.Pi*float64(k*i)/float64(n))
			}
		}
		got := append([]complex128{}, in...)
		d := newDFT(n)
		d.transform(got, false)
		for k := range want {
			require.InDelta(t, 0, cmplx.Abs(got[k]-want[k]), 1e-10, "%d of %d", k, n)
		}
		d.transform(got, true)
		for k := range in {
			require.InDelta(t, 0, cmplx.Abs(got[k]/complex(float64(n), 0)-in[k]), 1e-10, "%d of %d, back", k, n)
		}
	}
}

func TestPatchesThatAreFoldedAddUpWhereTheyOverlap(t *testing.T) {
	window := Window{Size: []int{2}, Stride: []int{1}, Dilation: []int{1}, Pre: []int{0}, Padded: []int{0}}
	in := arrayOf(models.Float32, []int{1, 2, 3}, 1, 2, 3, 4, 5, 6)
	columns := arrayOf(models.Float32, []int{1, 2, 4})
	run(Patches(window, []int{2}, 1), columns, in)
	out := arrayOf(models.Float32, []int{1, 2, 3})
	run(Fold(window, 1, []int{2, 3}, []int{2}), out, columns)
	require.Equal(t, []float64{1, 4, 3, 4, 10, 6}, out.list())
}

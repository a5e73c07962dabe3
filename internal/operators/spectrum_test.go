package operators

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models"
)

// TestASpectrumIsThatOfTheDefinition compares images of all kinds of sizes with the sum over their pixels.
func TestASpectrumIsThatOfTheDefinition(t *testing.T) {
	for _, c := range []struct{ rows, columns, height, width int }{
		{1, 1, 1, 1}, {1, 16, 1, 16}, {1, 13, 1, 16}, {1, 20, 1, 16}, {8, 4, 8, 4}, {5, 9, 4, 8}, {3, 3, 8, 2},
		{4, 3, 4, 1}, {2, 64, 2, 64}, {16, 30, 16, 32}, {0, 8, 1, 8}, {0, 8, 2, 8},
	} {
		const images = 21 // more than are transformed at a time, and no multiple
		in := arrayOf(models.Float32, []int{images, c.rows, c.columns})
		for i := range product(in.Shape) {
			in.Put(i, math.Sin(float64(i*i)))
		}
		half := c.width/2 + 1
		out := Array{models.Int64, []int{images, c.height, half}, make([]byte, 8*images*c.height*half)}
		RealFFT2D(c.height, c.width)([][]int{in.Shape}).Run([]Array{out}, []Array{in})
		of32 := func(f func(complex128) float64) []float64 {
			parts := arrayOf(models.Float32, out.Shape)
			fromComplex(f, parts, out)
			return parts.list()
		}
		re := of32(func(z complex128) float64 { return real(z) })
		im, size := of32(func(z complex128) float64 { return imag(z) }), of32(magnitude)
		for i := range product(out.Shape) {
			n, v, u := i/half/c.height, i/half%c.height, i%half
			var want complex128
			for y := range min(c.rows, c.height) {
				for x := range min(c.columns, c.width) {
					turns := float64(v*y)/float64(c.height) + float64(u*x)/float64(c.width)
					want += complex(in.Number((n*c.rows+y)*c.columns+x), 0) * cmplx.Rect(1, -2*math.Pi*turns)
				}
			}
			require.InDelta(t, real(want), re[i], 5e-5, "%v %d", c, i)
			require.InDelta(t, imag(want), im[i], 5e-5, "%v %d", c, i)
			require.InDelta(t, cmplx.Abs(want), size[i], 5e-5, "%v %d", c, i)
		}
	}
}

func TestTheSpectraOfRowsAreScaledAndHaveHalfTheNumbers(t *testing.T) {
	for _, length := range []int{2, 4, 12, 32} {
		for _, e := range []models.Element{models.Float32, models.Float64} {
			const count = 19
			in := New(e, count, length)
			for i := range count * length {
				in.Put(i, math.Sin(float64(i*i)))
			}
			out := Array{models.Int64, nil, make([]byte, complexSize*count*(length/2+1))}
			run(RealFourier([]int{1}, 0.5, true), out, in)
			for i := range count {
				for k := range length/2 + 1 {
					var want complex128
					for x := range length {
						want += complex(in.Number(i*length+x)/2, 0) *
							cmplx.Rect(1, -2*math.Pi*float64(k*x)/float64(length))
					}
					got := complexOf(out.Data[complexSize*(i*(length/2+1)+k):])
					require.InDelta(t, 0, cmplx.Abs(want-got), 1e-5, "%v of %d: row %d, %d", e, length, i, k)
				}
			}
		}
	}
}

func TestAMagnitudeIsInfiniteIfAPartIs(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	parts := arrayOf(models.Float32, []int{18}, inf, nan, nan, -inf, -inf, 1, 3, -4, nan, 1, 0, 0, 3e38, 0, inf, inf,
		1, nan)
	in := Array{models.Int64, []int{9}, parts.Data}
	for name, a := range map[string]Array{"C": in, "Go": in.unaligned()} {
		out := New(models.Float32, 9)
		run(Magnitudes(), out, a)
		got := out.list()
		require.True(t, math.IsNaN(got[4]) && math.IsNaN(got[8]), name)
		got[4], got[8] = 0, 0
		require.InDeltaSlice(t, []float64{5, 0, 0}, got[3:6], 0, name)
		require.InEpsilon(t, 3e38, got[6], 1e-6, name)
		for _, i := range []int{0, 1, 2, 7} {
			require.Equal(t, inf, got[i], "%s %d", name, i)
		}
	}
}

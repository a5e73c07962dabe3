package half_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/half"
)

func TestEveryFiniteNumberHasItsBits(t *testing.T) {
	for bits := range uint32(1 << 16) {
		v := half.Float64(uint16(bits))
		if math.IsNaN(v) || math.IsInf(v, 0) {
			require.Equal(t, uint32(31), bits>>10&31, "%#04x", bits)
			continue
		}
		require.Equal(t, uint16(bits), half.Bits(v), "%v", v)
	}
}

func TestNumbersAreRoundedToTheNearest(t *testing.T) {
	require.True(t, math.IsNaN(half.Float64(half.Bits(math.NaN()))))
	for v, want := range map[float64]float64{65520: math.Inf(1), math.Inf(-1): math.Inf(-1),
		1 + 0x1p-12: 1, 1 + 0x1.8p-11: 1 + 0x1p-10, -2 + 0x1p-14: -2, 0x1p-26: 0,
		65519: 65504, 0.1: 0.0999755859375} {
		require.Equal(t, want, half.Float64(half.Bits(v)), "%v", v)
	}
}

func TestBfloat16IsTheUpperHalfOfSinglePrecisionRounded(t *testing.T) {
	for bits := range uint32(1 << 16) {
		if v := half.Brain(uint16(bits)); !math.IsNaN(v) {
			require.Equal(t, uint16(bits), half.BrainBits(v), "%v", v)
		}
	}
	require.True(t, math.IsNaN(half.Brain(half.BrainBits(math.NaN()))))
	for v, want := range map[float64]float64{math.MaxFloat32: math.Inf(1), 1 + 0x1p-8: 1, 1 + 0x1.8p-7: 1 + 0x1p-6,
		-1 - 0x1.1p-8: -1 - 0x1p-7, 0.1: 0.10009765625} {
		require.Equal(t, want, half.Brain(half.BrainBits(v)), "%v", v)
	}
}

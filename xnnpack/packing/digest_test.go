package packing_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/xnnpack/packing"
)

// manyScales is an identity of 12,000 bytes of bias and 22,002 of scales.
func manyScales() packing.Identity {
	id := packing.Identity{
		Operator: packing.FullyConnected, Shape: []int{3000, 64}, Input: packing.Operand{Type: 9},
		Kernel: packing.Operand{Type: 6}, Bias: packing.Operand{Type: 12},
	}
	for i := range 3000 {
		id.Kernel.Scales = append(id.Kernel.Scales, float32(i+1)/4096)
		id.HiddenBias = append(id.HiddenBias, byte(i), byte(i>>8), 7, 9)
	}
	for i := range 5001 {
		id.Bias.BlockScales = append(id.Bias.BlockScales, uint16(i))
	}
	return id
}

// Cache files have these digests.
func TestTheDigestOfALargeIdentityStaysTheSame(t *testing.T) {
	many := manyScales()
	require.Equal(t, "f9d7c7247776474d0bdb747cf5ca671e", many.Digest().String())
	for n, want := range map[int]string{
		1022: "9fe2b98841abac0573f882230adafbea", 1023: "87e283ff5c438fbd0b7d7b8eca22be18",
	} {
		opaque := packing.Opaque(make([]byte, n))
		require.Equal(t, want, opaque.Digest().String(), n)
	}
}

func TestTheDigestOfManyScalesTakesNoMemoryForThem(t *testing.T) {
	many := manyScales()
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	many.Digest()
	runtime.ReadMemStats(&end)
	require.Less(t, end.TotalAlloc-start.TotalAlloc, uint64(8<<10))
}

// Cache files have these digests too.
func TestTheDigestHasEachOfFewScales(t *testing.T) {
	for n, want := range map[int]string{
		1: "966da8d3f140e1a2074978657a270850", 3: "da584c8211ad7c096506095439613fd6",
		4: "512bdf3ae721327e632983895a48be2e", 7: "bb3080060c49a1da4bf2b87d0e8484c1",
		8: "f2f801a6b92673dbb67a4e06752ce623", 509: "561e8926f4422d19c3f1eb44d05a2488",
	} {
		id := packing.Identity{
			Operator: packing.FullyConnected, Shape: []int{n, 8}, Input: packing.Operand{Type: 9},
			Kernel: packing.Operand{Type: 6},
		}
		for i := range n {
			id.Kernel.Scales = append(id.Kernel.Scales, float32(i+1)/4096)
		}
		digest := id.Digest()
		require.Equal(t, want, digest.String(), n)
		for i := range n {
			id.Kernel.Scales[i]++
			require.NotEqual(t, digest, id.Digest(), "scale %d of %d", i, n)
			id.Kernel.Scales[i]--
		}
	}
}

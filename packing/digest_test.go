package packing_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/packing"
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
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	many.Digest()
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<10))
}

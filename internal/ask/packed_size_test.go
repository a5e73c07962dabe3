//go:build cgo

package ask

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/xnnpack/packing"
)

// A host may give any geometry, and XNNPACK checks little of it.
func TestXNNPACKCanBeAskedAboutAnyGeometry(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(numbers ...int) int { return numbers[r.IntN(len(numbers))] }
	answered := 0
	unit := packing.Size{Height: 1, Width: 1}
	types := [][4]packing.Datatype{{1, 1, 1, 1}, {9, 6, 1, 1}, {9, 8, 1, 1}, {9, 12, 1, 1}, {3, 3, 5, 3}, {3, 6, 7, 3},
		{4, 4, 5, 4},
		{2, 2, 2, 2}, {2, 1, 1, 2}, {1, 6, 1, 1}}
	for range 20_000 {
		datatypes := types[r.IntN(len(types))]
		g := packing.Geometry{Groups: 1, Stride: unit, Dilation: unit, BlockSize: 32,
			Family: packing.Family{Operator: packing.Operator(1 + r.IntN(5)), Input: datatypes[0],
				Kernel: datatypes[1], Bias: datatypes[2], Output: datatypes[3]}}
		g.Dims = []int{0, 2, 4, 4, 4, 3}[g.Family.Operator]
		for i := range g.Dims {
			g.Shape[i] = pick(1, 2, 3, 5, 7, 32, 33, 64)
		}
		looksUp := g.Family.Operator == packing.FullyConnected || g.Family.Operator == packing.Convolution2D
		for range r.IntN(4) {
			switch r.IntN(11) {
			case 0:
				g.Family.Input = packing.Datatype(r.IntN(30))
			case 1:
				g.Family.Kernel = packing.Datatype(r.IntN(30))
			case 2:
				g.Family.Bias = packing.Datatype(r.IntN(30))
			case 3:
				g.Family.Output = packing.Datatype(r.IntN(30))
			case 4:
				g.Dims = r.IntN(packing.MaxDims + 1)
			case 5:
				g.Groups = pick(-1, 0, 2, 3, 1<<33)
			case 6:
				g.Stride = packing.Size{Height: pick(-1, 0, 2, 1<<20), Width: pick(1, 2, 0)}
			case 7:
				g.Dilation = packing.Size{Height: pick(-1, 0, 2, 1<<20), Width: pick(1, 2, 0)}
			case 8:
				g.ChannelDim, g.BlockSize = pick(-1, 1, 2, 3, 4), pick(-1, 0, 7, 64)
			case 9:
				g.Flags = packing.Flags(r.IntN(32))
			case 10:
				g.Shape[r.IntN(packing.MaxDims)] = pick(0, -1)
				if looksUp { // others may be packed to answer
					g.Shape[r.IntN(packing.MaxDims)] = pick(1<<20, 1<<40)
				}
			}
		}
		if size := measure(g); size.bytes > 0 {
			answered++
			require.GreaterOrEqual(t, size.bytes, g.LeastBytes(), "%+v", g)
		}
	}
	require.Greater(t, answered, 100)
}

// Kernels that XNNPACK of 2026 has, and older ones do not: those are asked all the same, and answer nothing.
func TestXNNPACKCanBeAskedAboutWhatItHasLearnt(t *testing.T) {
	unit := packing.Size{Height: 1, Width: 1}
	geometry := func(types ...packing.Datatype) packing.Geometry {
		g := packing.Geometry{Dims: 2, Groups: 1, Stride: unit, Dilation: unit, BlockSize: 32, Family: packing.Family{
			Operator: packing.FullyConnected, Input: types[0], Kernel: types[1], Bias: types[2], Output: types[3]}}
		g.Shape[0], g.Shape[1] = 8, 32
		return g
	}
	geom := geometry(1, 1, 1, 1)
	isNew := measure(geom).fingerprintID != 0 // which came with the last of these
	for name, g := range map[string]packing.Geometry{
		"float16 weights of float32":  geometry(1, 2, 1, 1),
		"bfloat16":                    geometry(14, 14, 1, 1),
		"2 bits":                      geometry(9, 18, 1, 1),
		"2 bits, int8 activations":    geometry(3, 18, 7, 3),
		"4 bits, int8 activations":    geometry(3, 8, 7, 3),
		"4-bit blocks, bfloat16 out":  geometry(9, 12, 1, 14),
		"a datatype nobody has named": geometry(1, 29, 1, 1),
	} {
		size := measure(g)
		if !isNew || g.Family.Kernel == 29 {
			require.Zero(t, size.bytes, name)
			continue
		}
		require.GreaterOrEqual(t, size.bytes, g.LeastBytes(), name)
		require.NotZero(t, size.bytes, name)
	}
}

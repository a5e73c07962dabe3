//go:build cgo

package xpwc

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/packing"
)

// A host may tell anything, and XNNPACK takes much of it on trust.
func TestXNNPACKCanBeAskedAboutAnyGeometry(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(numbers ...int) int { return numbers[r.IntN(len(numbers))] }
	answered := 0
	for range 20_000 {
		known := func() packing.Datatype { return packing.Datatype(pick(1, 2, 3, 4, 5, 6, 7, 8, 9, 12)) }
		g := packing.Geometry{
			Family:   packing.Family{Operator: packing.Operator(r.IntN(7)), Input: known(), Kernel: known(), Output: known()},
			Flags:    packing.Flags(r.IntN(4)),
			Dims:     pick(0, 1, 2, 2, 3, 4, 4, 4, 5),
			Groups:   pick(-1, 0, 1, 1, 1, 2, 3, 1<<33),
			Stride:   packing.Size{Height: pick(-1, 0, 1, 1, 1, 2, 1<<20), Width: pick(1, 1, 2, 0)},
			Dilation: packing.Size{Height: pick(-1, 0, 1, 1, 1, 2, 1<<20), Width: pick(1, 1, 2, 0)},

			ChannelDim: pick(-1, 0, 0, 0, 1, 2, 3, 4), BlockSize: pick(-1, 0, 7, 32, 64),
		}
		if r.IntN(3) == 0 {
			g.Family.Bias = packing.Datatype(r.IntN(30))
		}
		if r.IntN(3) == 0 {
			g.Family.Kernel, g.Family.Input = packing.Datatype(r.IntN(30)), packing.Datatype(r.IntN(30))
		}
		for i := range g.Dims {
			g.Shape[i] = pick(1, 2, 3, 5, 7, 32, 33, 64, 0, -1)
			if g.Family.Operator == packing.FullyConnected || g.Family.Operator == packing.Convolution2D { // others may be packed to answer
				g.Shape[i] = pick(g.Shape[i], g.Shape[i], g.Shape[i], 1<<20, 1<<40)
			}
		}
		if size := measure(&g); size.bytes > 0 {
			answered++
			require.GreaterOrEqual(t, size.bytes, g.LeastBytes(), "%+v", g)
		}
	}
	require.Greater(t, answered, 100)
}

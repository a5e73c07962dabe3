//go:build cgo

package xpwc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/ask"
	"xpwc/xnnpack/packing"
)

// A question takes memory in proportion to the kernel, some gigabytes for these.
func TestXNNPACKIsNotAskedAboutKernelsThatTheTensorHasNoRoomFor(t *testing.T) {
	kernel := packing.Operand{Type: 1}
	for _, id := range []packing.Identity{
		{Operator: packing.FullyConnected, Shape: []int{1 << 28, 1}, Input: kernel, Kernel: kernel, Output: kernel},
		{Operator: packing.FullyConnected, Shape: []int{1, 1 << 28}, Input: kernel, Kernel: kernel, Output: kernel},
		{Operator: packing.FullyConnected, Shape: []int{1 << 28, 1}, Input: kernel, Kernel: packing.Operand{Type: 99},
			Output: kernel},
	} {
		src := &source{content: make([]byte, 64)}
		src.addIdentity(packingIdentity{id.Digest(), id.Geometry()})
		w := &weight{kernel: src}
		err := w.checkSize(make([]byte, 128))
		if id.Geometry().LeastBytes() > 0 {
			require.ErrorIs(t, err, ErrDamaged)
		}
		g := id.Geometry()
		require.False(t, ask.Asked(g), "%v", id.Shape)
	}
}

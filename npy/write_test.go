package npy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/npy"
	"xpwc/safetensors"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, shape := range [][]int{{}, {3}, {2, 3}, {1, 1, 4, 5, 6}, {0, 2}} {
		size := 2
		for _, n := range shape {
			size *= n
		}
		header := npy.Header("<i2", shape)
		require.Zero(t, len(header)%64, "as NumPy aligns arrays")
		a, err := npy.Read(append(header, make([]byte, size)...))
		require.NoError(t, err)
		require.Equal(t, safetensors.I16, a.Dtype)
		require.Equal(t, len(shape), len(a.Shape))
		if len(shape) > 0 {
			require.Equal(t, shape, a.Shape)
		}
		require.Len(t, a.Data, size)
	}
}

//go:build cgo

package files

import (
	"bytes"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
)

func TestTheFileIsSmallAndPrivate(t *testing.T) {
	big := harness.Chain{Width: 512, Layers: [][2]string{{"w1", "b1"}, {"w2", "b2"}, {"w3", "b3"}}}
	path := harness.Path(t)
	c := harness.OpenCache(t, path, nil)
	big.Run(t, c, xpwc.MapOf(big.Weights(1)))
	require.NoError(t, c.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	s := c.Stats()
	require.Less(t, float64(s.FileBytes-s.PayloadBytes), 0.01*float64(s.PayloadBytes))
	require.EqualValues(t, info.Size(), s.FileBytes, "nothing stays preallocated")
}

func TestLoadingAndUnloadingLeavesTheFileAlone(t *testing.T) {
	path, tensors := harness.Path(t), harness.ThreeLayers.Weights(1)
	c := harness.OpenCache(t, path, nil)
	want := harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors))
	require.NoError(t, c.Save())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	infoBefore, err := os.Stat(path)
	require.NoError(t, err)
	for i := range 100 {
		require.Equal(t, want, harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors)))
		if i%10 == 9 { // in a newly opened cache too
			require.NoError(t, c.Close())
			c = harness.OpenCache(t, path, nil)
		}
	}
	require.NoError(t, c.Close())
	infoAfter, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, infoBefore.ModTime(), infoAfter.ModTime())
	repeated, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, repeated))
}

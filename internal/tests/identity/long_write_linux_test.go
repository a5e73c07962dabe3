//go:build cgo

package identity

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/testkit"
	"xpwc/models/safetensors"
)

// written makes a model's file.
func written(t *testing.T, tensors map[string][]byte) string {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	require.NoError(t, os.WriteFile(path, harness.Safetensors(t, tensors), 0o600))
	return testkit.Settled(t, path)
}

// opened opens a model's file, until the end of the test.
func opened(t *testing.T, path string) *safetensors.File {
	data, err := safetensors.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, data.Close()) })
	return data
}

// aWhileAgo returns when the write that is under way began so long ago that another would have another time.
func aWhileAgo(t *testing.T, path string) {
	data := opened(t, path)
	tensor, err := data.Tensor("w1")
	require.NoError(t, err)
	_, err = tensor.Identity.Watch.Changed()
	require.NoError(t, err)
}

// A file system notes the time of a write when it begins. Weights that are packed before it ends are of the old
// content, or of a mixture, and the times already are the times of the new.
func TestAStartDuringALongWriteLeavesNoWrongWeights(t *testing.T) {
	old, new := harness.ThreeLayers.Weights(1), harness.ThreeLayers.Weights(2)
	path, cache := written(t, old), harness.Path(t)
	end := testkit.HoldUpWrite(t, path, harness.Safetensors(t, new))
	aWhileAgo(t, path)
	data := opened(t, path)
	c := harness.OpenCache(t, cache, nil)
	harness.ThreeLayers.Run(t, c, data)
	require.NoError(t, c.Close())
	end()
	want := harness.ThreeLayers.Plain(t, new)
	for range 2 {
		c := harness.OpenCache(t, cache, nil)
		require.Equal(t, want, harness.ThreeLayers.Run(t, c, opened(t, path)))
		require.NoError(t, c.Close())
	}
}

// The end of such a write shows nowhere but in the content.
func TestALongWriteThatEndsDuringAStartIsDetected(t *testing.T) {
	old, new := harness.ThreeLayers.Weights(1), harness.ThreeLayers.Weights(2)
	for name, warm := range map[string]bool{"cold": false, "warm": true} {
		t.Run(name, func(t *testing.T) {
			path, cache := written(t, old), harness.Path(t)
			retained := 0
			if warm {
				c := harness.OpenCache(t, cache, nil)
				harness.ThreeLayers.Run(t, c, opened(t, path))
				require.NoError(t, c.Close())
				retained = c.Stats().Entries
			}
			end := testkit.HoldUpWrite(t, path, harness.Safetensors(t, new))
			aWhileAgo(t, path)
			c := harness.OpenCache(t, cache, nil)
			s, err := c.NewSession(opened(t, path))
			require.NoError(t, err)
			r, err := harness.ThreeLayers.Create(s, s.Load)
			require.NoError(t, err)
			end()
			require.ErrorIs(t, s.Finalize(), xpwc.ErrSourceChanged)
			require.NoError(t, r.Delete())
			require.NoError(t, s.Close())
			require.NoError(t, c.Close())
			require.Equal(t, retained, c.Stats().Entries)
			c = harness.OpenCache(t, cache, nil)
			require.Equal(t, harness.ThreeLayers.Plain(t, new), harness.ThreeLayers.Run(t, c, opened(t, path)))
			require.NoError(t, c.Close())
		})
	}
}

package tflite

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/flow"
	"xpwc/internal/tests/modeltest"
)

// counted is a data map that counts how often each tensor's content is computed.
type counted struct {
	xpwc.DataMap
	mu       sync.Mutex
	computed map[string]int
}

func (c *counted) Tensor(name string) (xpwc.Tensor, error) {
	t, err := c.DataMap.Tensor(name)
	if fill := t.Fill; fill != nil {
		t.Fill = func(dst []byte) error {
			c.mu.Lock()
			c.computed[name]++
			c.mu.Unlock()
			return fill(dst)
		}
	}
	return t, err
}

// cached runs a model on a cache file, and returns its outputs, which constants were computed, and what the cache did.
func cached(t *testing.T, m *Model, path string, input []float32) ([][]float32, map[string]int, xpwc.Stats) {
	t.Helper()
	cache, err := xpwc.Open(path, nil)
	require.NoError(t, err)
	data := &counted{DataMap: m.DataMap(), computed: map[string]int{}}
	out := modeltest.RunCached(t, m, cache, data, input)
	require.NoError(t, cache.Save())
	stats := cache.Stats()
	require.NoError(t, cache.Close())
	return out, data.computed, stats
}

func TestAWarmStartComputesNothingThatHits(t *testing.T) {
	for _, name := range []string{"face_detection_full_range_sparse.tflite", "hand_landmark_lite.tflite",
		"selfie_segmentation.tflite"} {
		t.Run(name, func(t *testing.T) {
			m := openModel(t, modelPath(t, name))
			path := filepath.Join(t.TempDir(), "cache.xpwc")
			input := cut(portrait(t, "input/portrait_256.u8"), 256, m.Inputs()[0].Shape)
			without := modeltest.Run(t, m, input)

			cold, computed, stats := cached(t, m, path, input)
			require.Equal(t, without, cold)
			require.Positive(t, stats.Packed.Entries)
			lazy := 0
			for _, c := range m.plan.constants {
				constant := c.name
				if c.widened() {
					require.Equal(t, 1, computed[constant], constant)
				}
				if c.widened() && c.use == flow.Packed {
					lazy++
				}
			}
			require.Positive(t, lazy)

			warm, computed, stats := cached(t, m, path, input)
			require.Equal(t, without, warm)
			require.Zero(t, stats.Packed.Entries)
			require.Zero(t, stats.WrittenBytes)
			for _, c := range m.plan.constants {
				if c.use == flow.Packed {
					require.Zero(t, computed[c.name], "computed although it hits")
				}
			}
		})
	}
}

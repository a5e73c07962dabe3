package modeltest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models"
	"xpwc/xnnpack"
)

// PackWhole has the cache file hold all that a runtime of the model looks up, as any program that loads it does.
func PackWhole(t testing.TB, m models.Model, path string) xpwc.Stats {
	t.Helper()
	cache, err := xpwc.Open(path, nil)
	require.NoError(t, err)
	for _, subgraph := range models.SubgraphsOf(m) {
		err := models.Pack(cache, m.DataMap(), subgraph)
		if errors.Is(err, xnnpack.ErrKnownDefect) {
			t.Skip(err)
		}
		require.NoError(t, err)
	}
	require.NoError(t, cache.Save())
	stats := cache.Stats()
	require.NoError(t, cache.Close())
	return stats
}

// CheckPacked checks that a model packs something, and that whoever loads it then packs nothing and leaves the file as
// it is. It returns the path of the cache file.
func CheckPacked(t testing.TB, m models.Model) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cache.xpwc")
	cold := PackWhole(t, m, path)
	require.Positive(t, cold.Packed.Entries)
	require.Empty(t, cold.Private)
	want, err := os.ReadFile(path)
	require.NoError(t, err)

	warm := PackWhole(t, m, path)
	require.Zero(t, warm.Packed)
	require.Zero(t, warm.WrittenBytes)
	require.Equal(t, cold.Packed.Entries, warm.Hits.Entries+warm.Reused.Entries)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
	return path
}

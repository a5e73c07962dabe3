package modeltest

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models"
)

// PackShares packs a model into a cache file in up to n shares, with a goroutine for each.
func PackShares(t testing.TB, m models.Model, path string, n int) xpwc.Stats {
	t.Helper()
	return pack(t, m, path, m.Shares(n))
}

// PackWhole has the cache file hold all that a runtime of the model looks up, as any program that loads it does.
func PackWhole(t testing.TB, m models.Model, path string) xpwc.Stats {
	t.Helper()
	var whole []models.Share
	stages, _ := models.StagesOf(m)
	for _, s := range stages {
		if s.Subgraph != nil {
			whole = append(whole, models.Share{Subgraph: s.Subgraph})
		}
	}
	return pack(t, m, path, whole)
}

func pack(t testing.TB, m models.Model, path string, shares []models.Share) xpwc.Stats {
	t.Helper()
	cache, err := xpwc.Open(path, nil)
	require.NoError(t, err)
	errs := make([]error, len(shares))
	var group sync.WaitGroup
	for i, s := range shares {
		group.Go(func() { errs[i] = models.Pack(cache, m.DataMap(), s.Subgraph) })
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
	require.NoError(t, cache.Save())
	stats := cache.Stats()
	require.NoError(t, cache.Close())
	return stats
}

// CheckShares checks that n shares of a model pack what a runtime of all of it looks up, and nothing else. It returns
// the path of the cache file.
func CheckShares(t testing.TB, m models.Model, n int) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "shares.xpwc")
	alone := PackWhole(t, m, filepath.Join(dir, "alone.xpwc"))
	packed := PackShares(t, m, path, n)
	require.Positive(t, packed.Packed.Entries)
	require.Equal(t, alone.Packed, packed.Packed)
	require.Empty(t, packed.Private)
	before, err := os.ReadFile(path)
	require.NoError(t, err)

	warm := PackWhole(t, m, path)
	require.Zero(t, warm.Packed)
	require.Zero(t, warm.WrittenBytes)
	require.Equal(t, alone.Packed.Entries, warm.Hits.Entries+warm.Reused.Entries)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)

	shares, whole := m.Shares(n), m.Shares(1)
	require.Len(t, whole, 1)
	var sum int64
	for _, s := range shares {
		require.LessOrEqual(t, s.Bytes, shares[0].Bytes, "the largest is the first")
		sum += s.Bytes
	}
	require.Equal(t, whole[0].Bytes, sum)
	require.Empty(t, m.Shares(0))
	require.Empty(t, m.Shares(-1))
	return path
}

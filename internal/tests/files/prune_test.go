//go:build cgo

package files

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/optable"
)

// layoutsOf returns how many entries of each layout a file has.
func layoutsOf(t testing.TB, path string) map[xpwc.Digest]int {
	t.Helper()
	problems, err := cachefile.Verify(path, nil)
	require.NoError(t, err)
	require.Empty(t, problems)
	f, err := cachefile.Open(path)
	require.NoError(t, err)
	info, err := f.Info()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	subject := map[xpwc.Digest]int{}
	for _, l := range info.Layouts {
		subject[l.Fingerprint] = l.Entries
	}
	return subject
}

func TestPruningKeepsTheNamedLayouts(t *testing.T) {
	dir := os.Getenv(harness.EnvDir)
	if dir == "" {
		dir = t.TempDir()
	}
	path := filepath.Join(dir, "model.xpwc")
	tensors := harness.ThreeLayers.Weights(1)
	c := harness.OpenCache(t, path, nil)
	want := harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors))
	require.NoError(t, c.Close())
	if os.Getenv(harness.EnvDir) != "" {
		return // the other machine has packed
	}
	local, err := xpwc.CurrentLayout()
	require.NoError(t, err)
	require.Equal(t, map[xpwc.Digest]int{local.Fingerprint: 3}, layoutsOf(t, path))
	if runtime.GOARCH != "amd64" {
		return // other layouts are made by hiding features of this one's CPUs
	}
	harness.InProcess(t, "TestPruningKeepsTheNamedLayouts", optable.CPUs()[0].Environment,
		harness.EnvDir+"="+dir)
	subject := layoutsOf(t, path)
	require.Len(t, subject, 2)
	var second xpwc.Digest
	for l, n := range subject {
		require.Equal(t, 3, n)
		if l != local.Fingerprint {
			second = l
		}
	}

	c = harness.OpenCache(t, path, nil)
	require.NoError(t, c.Prune(xpwc.PruneOptions{KeepLayouts: []xpwc.Digest{local.Fingerprint, second}}))
	require.Equal(t, subject, layoutsOf(t, path))
	size := c.Stats().FileBytes
	require.NoError(t, c.Close())
	for _, single := range []xpwc.Digest{local.Fingerprint, second} { // there is room for one, whichever was used last
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		oneEntry := harness.Path(t)
		require.NoError(t, os.WriteFile(oneEntry, content, 0o600))
		c = harness.OpenCache(t, oneEntry, &xpwc.Options{MaxBytes: size * 2 / 3})
		require.NoError(t, c.Prune(xpwc.PruneOptions{KeepLayouts: []xpwc.Digest{single}}))
		require.NoError(t, c.Close())
		require.Equal(t, map[xpwc.Digest]int{single: 3}, layoutsOf(t, oneEntry))
	}
	c = harness.OpenCache(t, path, nil)
	running := harness.ThreeLayers.Open(t, c, xpwc.MapOf(tensors))
	require.NoError(t, c.Prune(xpwc.PruneOptions{KeepLayouts: []xpwc.Digest{second}}))
	require.Equal(t, map[xpwc.Digest]int{second: 3}, layoutsOf(t, path))
	require.Equal(t, want, harness.ThreeLayers.Infer(t, running.Runtime), "what runs keeps its memory")
	running.MustClose(t)
	require.Equal(t, want, harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors)), "what was dropped is packed again")
	require.NoError(t, c.Close())
	require.Equal(t, subject, layoutsOf(t, path))
}

func TestPruningReducesTheFileToASize(t *testing.T) {
	path := harness.Path(t)
	c := harness.OpenCache(t, path, nil)
	harness.ThreeLayers.Run(t, c, xpwc.MapOf(harness.ThreeLayers.Weights(1)))
	require.NoError(t, c.Save())
	whole := c.Stats().FileBytes
	require.NoError(t, c.Prune(xpwc.PruneOptions{MaxBytes: 2 * whole}))
	require.Equal(t, 3, c.Stats().Entries)
	require.NoError(t, c.Prune(xpwc.PruneOptions{MaxBytes: whole - 1000}))
	require.Equal(t, 2, c.Stats().Entries)
	require.LessOrEqual(t, c.Stats().FileBytes, whole-1000)
	require.NoError(t, c.Prune(xpwc.PruneOptions{MaxBytes: 1}))
	require.Zero(t, c.Stats().Entries)
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.Prune(xpwc.PruneOptions{}), xpwc.ErrClosed)
	layoutsOf(t, path)

	c = harness.OpenCache(t, path, &xpwc.Options{ReadOnly: true})
	require.ErrorIs(t, c.Prune(xpwc.PruneOptions{}), xpwc.ErrReadOnly)
	require.NoError(t, c.Close())
}

// A file that root has packed for other users, as xpwc pack makes them.
func TestAFileThatIsRewrittenKeepsItsMode(t *testing.T) {
	path := harness.Path(t)
	c := harness.OpenCache(t, path, nil)
	harness.ThreeLayers.Run(t, c, xpwc.MapOf(harness.ThreeLayers.Weights(1)))
	require.NoError(t, c.Save())
	for _, mode := range []os.FileMode{0o644, 0o640, 0o600} {
		require.NoError(t, os.Chmod(path, mode))
		require.NoError(t, c.Compact())
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm())
	}
	require.NoError(t, c.Close())
}

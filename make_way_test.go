package xpwc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/osdisk"
	"xpwc/internal/writer"
)

// executorchCache puts a file as ExecuTorch writes it into a directory.
func executorchCache(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.WriteFile(path, executorchFileOf(someTensors(3, 3000)), 0o600))
	return path
}

func TestExecuTorchsFileStaysWhileNothingIsPacked(t *testing.T) {
	for name, do := range map[string]func(c *Cache) error{
		"compact": (*Cache).Compact,
		"prune":   func(c *Cache) error { return c.Prune(PruneOptions{MaxBytes: 1 << 20}) },
		"trim":    (*Cache).Trim,
		"save":    (*Cache).Save,
		"a session without weights": func(c *Cache) error {
			open(t, c, nil).close(t)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := executorchCache(t)
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			c := mustOpen(t, path, nil)
			require.NoError(t, do(c))
			require.NoError(t, c.Close())
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, before, after)
		})
	}
}

func TestAFileThatReplacedExecuTorchsIsCompacted(t *testing.T) {
	path := executorchCache(t)
	c := mustOpen(t, path, nil)
	other := otherProcess(t, path)
	open(t, other, someTensors(3, 3000)).close(t)
	require.NoError(t, other.Close())
	require.NoError(t, c.Prune(PruneOptions{KeepLayouts: []Digest{{1}}}))
	require.NoError(t, c.Close())
	c = mustOpen(t, path, nil)
	require.Zero(t, c.Stats().Entries, "all is of another layout")
	require.NoError(t, c.Close())
}

func TestAFileThatIsBeingCopiedOverExecuTorchsIsLeftToWhomCopiesIt(t *testing.T) {
	was := writer.Arrival
	writer.Arrival = time.Hour
	defer func() { writer.Arrival = was }()
	native := filepath.Join(t.TempDir(), "native")
	c := mustOpen(t, native, nil)
	open(t, c, someTensors(3, 3000)).close(t)
	require.NoError(t, c.Close())
	whole, err := os.ReadFile(native)
	require.NoError(t, err)

	path := executorchCache(t)
	c = mustOpen(t, path, &Options{WriterWait: time.Nanosecond})
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err)
	_, err = f.Write(whole[:len(whole)/2])
	require.NoError(t, err)
	open(t, c, someTensors(3, 3000)).close(t)
	_, err = f.Write(whole[len(whole)/2:])
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, c.Close())
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1)
	c = mustOpen(t, path, &Options{Strict: true})
	require.Equal(t, 3, c.Stats().Entries)
	require.NoError(t, c.Close())
}

// ExecuTorch locks the file while it writes.
func TestExecuTorchIsWaitedForOnce(t *testing.T) {
	path := executorchCache(t)
	theirs, err := osdisk.Files{}.Open(path, true)
	require.NoError(t, err)
	locked, err := theirs.TryLock()
	require.NoError(t, err)
	require.True(t, locked)

	var l listener
	o := l.options()
	o.WriterWait = time.Second // which a first try never takes
	c := mustOpen(t, path, o)
	for range 3 {
		open(t, c, someTensors(3, 3000)).close(t)
	}
	waits := 0
	for _, message := range l.messages(c) {
		if strings.HasPrefix(message, "waiting for another process") {
			waits++
		}
	}
	require.Equal(t, 1, waits)
	require.NoError(t, theirs.Close())
	open(t, c, someTensors(3, 3000)).close(t)
	require.NoError(t, c.Close())
	require.Equal(t, 3, c.Stats().Entries)
}

package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/osdisk"
	"xpwc/internal/tests/harness"
	"xpwc/internal/writer"
)

// executorchCache puts a file as ExecuTorch writes it into a directory.
func executorchCache(t *testing.T) (path string) {
	t.Helper()
	path = harness.Path(t)
	require.NoError(t, os.WriteFile(path, harness.ExecuTorchFile(harness.Tensors(3, 3000)), 0o600))
	return path
}

func TestExecuTorchsFileStaysUntilAWeightIsPacked(t *testing.T) {
	for name, do := range map[string]func(c *xpwc.Cache) error{
		"compact": (*xpwc.Cache).Compact,
		"prune":   func(c *xpwc.Cache) error { return c.Prune(xpwc.PruneOptions{MaxBytes: 1 << 20}) },
		"trim":    (*xpwc.Cache).Trim,
		"save":    (*xpwc.Cache).Save,
		"a session without weights": func(c *xpwc.Cache) error {
			harness.PackTensors(t, c, nil).MustClose(t)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := executorchCache(t)
			original, err := os.ReadFile(path)
			require.NoError(t, err)
			c := harness.Open(t, path, nil)
			require.NoError(t, do(c))
			require.NoError(t, c.Close())
			rewritten, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, original, rewritten)
		})
	}
}

func TestAFileThatReplacedExecuTorchsIsCompacted(t *testing.T) {
	path := executorchCache(t)
	c := harness.Open(t, path, nil)
	second := harness.OpenProcess(t, path)
	harness.PackTensors(t, second, harness.Tensors(3, 3000)).MustClose(t)
	require.NoError(t, second.Close())
	require.NoError(t, c.Prune(xpwc.PruneOptions{KeepLayouts: []xpwc.Digest{{1}}}))
	require.NoError(t, c.Close())
	c = harness.Open(t, path, nil)
	require.Zero(t, c.Stats().Entries, "all is of another layout")
	require.NoError(t, c.Close())
}

func TestAFileBeingCopiedOverExecuTorchsIsLeftAlone(t *testing.T) {
	saved := writer.Arrival
	writer.Arrival = time.Hour
	defer func() { writer.Arrival = saved }()
	native := filepath.Join(t.TempDir(), "native")
	c := harness.Open(t, native, nil)
	harness.PackTensors(t, c, harness.Tensors(3, 3000)).MustClose(t)
	require.NoError(t, c.Close())
	whole, err := os.ReadFile(native)
	require.NoError(t, err)

	path := executorchCache(t)
	c = harness.Open(t, path, &xpwc.Options{WriterWait: time.Nanosecond})
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err)
	_, err = f.Write(whole[:len(whole)/2])
	require.NoError(t, err)
	harness.PackTensors(t, c, harness.Tensors(3, 3000)).MustClose(t)
	_, err = f.Write(whole[len(whole)/2:])
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, c.Close())
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1)
	c = harness.Open(t, path, &xpwc.Options{Strict: true})
	require.Equal(t, 3, c.Stats().Entries)
	require.NoError(t, c.Close())
}

// ExecuTorch locks the file while it writes.
func TestASessionWaitsOnceForExecuTorch(t *testing.T) {
	path := executorchCache(t)
	theirs, err := osdisk.Files{}.Open(path, true)
	require.NoError(t, err)
	locked, err := theirs.TryLock()
	require.NoError(t, err)
	require.True(t, locked)

	var l harness.Listener
	o := l.Options()
	o.WriterWait = time.Second // which a first try never takes
	c := harness.Open(t, path, o)
	for range 3 {
		harness.PackTensors(t, c, harness.Tensors(3, 3000)).MustClose(t)
	}
	waits := 0
	for _, message := range l.Messages(c) {
		if strings.HasPrefix(message, "waiting for another process") {
			waits++
		}
	}
	require.Equal(t, 1, waits)
	require.NoError(t, theirs.Close())
	harness.PackTensors(t, c, harness.Tensors(3, 3000)).MustClose(t)
	require.NoError(t, c.Close())
	require.Equal(t, 3, c.Stats().Entries)
}

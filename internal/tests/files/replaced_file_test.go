package files

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
)

// What once went wrong, or nearly.

// What was committed to a file that is gone is not in the file that takes its place.
func TestAFileDeletedWhileOpenLeavesNothingOfItsIndex(t *testing.T) {
	path := harness.Path(t)
	a, b := harness.Content("a", 1000), harness.Content("b", 1000)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, map[string][]byte{"a": a}).MustClose(t)
	require.NoError(t, c.Save())
	require.NoError(t, os.Remove(path))
	harness.PackTensors(t, c, map[string][]byte{"b": b}).MustClose(t)
	require.NoError(t, c.Close())

	c = harness.Open(t, path, &xpwc.Options{Strict: true})
	harness.PackTensors(t, c, map[string][]byte{"b": b}).MustClose(t)
	harness.PackTensors(t, c, map[string][]byte{"a": a}).MustClose(t)
	require.NoError(t, c.Close())
}

func TestAFileDeletedWhileOpenLeavesNothingOfItsPayloads(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, map[string][]byte{"a": harness.Content("a", 1000)}).MustClose(t)
	require.NoError(t, c.Save())
	require.NoError(t, os.Remove(path))
	harness.PackTensors(t, c, map[string][]byte{"b": harness.Content("b", 5000)}).MustClose(t)
	require.NoError(t, c.Close())
	c = harness.Open(t, path, &xpwc.Options{Strict: true})
	require.NoError(t, c.Close())
}

func TestAnEntryOfAReplacedFileDoesNotMatchTheNewFile(t *testing.T) {
	path := harness.Path(t)
	v1, v2 := harness.Content("one", 1000), harness.Content("two", 1000)
	c := harness.Open(t, path, nil)
	o := harness.PackTensors(t, c, map[string][]byte{"w": v1})
	require.NoError(t, c.Save())

	require.NoError(t, os.Remove(path))
	theirs := harness.OpenProcess(t, path)
	harness.PackTensors(t, theirs, map[string][]byte{"w": v2}).MustClose(t)
	require.NoError(t, theirs.Close())

	harness.PackTensors(t, c, map[string][]byte{"x": harness.Content("x", 100)}).MustClose(t)
	o.MustClose(t)
	require.NoError(t, c.Close())

	c = harness.Open(t, path, &xpwc.Options{Strict: true})
	harness.PackTensors(t, c, map[string][]byte{"w": v1}).MustClose(t)
	require.NoError(t, c.Close())
}

func TestSaveReportsAMissingFile(t *testing.T) {
	for _, noticedBefore := range []bool{false, true} {
		path := harness.Path(t)
		c := harness.Open(t, path, nil)
		s := harness.NewSession(t, c, map[string][]byte{"w": harness.Content("w", 100)})
		harness.PackWeight(t, s, 7, harness.Load(t, s, "w"), 0, make([]byte, 200))
		require.NoError(t, os.Remove(path))
		harness.Finish(t, s)
		if noticedBefore {
			_ = harness.AwaitCommit(c)
		}
		err := c.Save()
		_, statErr := os.Stat(path)
		require.True(t, err != nil || statErr == nil, "Save: %v, file: %v", err, statErr)
		require.NoError(t, c.Close())
	}
}

package files

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/harness"
)

// Two models have a tensor of one name. A session of one runs during a compaction: afterwards both are still found.
func TestAModelThatRanDuringACompactionIsFoundAfterwards(t *testing.T) {
	path := harness.Path(t)
	a := map[string][]byte{"w": harness.Content("a", 30_000)}
	b := map[string][]byte{"w": harness.Content("b", 30_000)}
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, b).MustClose(t)
	running := harness.PackTensors(t, c, a)
	require.NoError(t, c.Save())
	require.NoError(t, c.Compact())
	harness.PackTensors(t, c, b).MustClose(t)
	running.MustClose(t)
	prior, err := os.Stat(path)
	require.NoError(t, err)
	packed := c.Stats().Packed.Entries
	harness.PackTensors(t, c, a).MustClose(t)
	require.NoError(t, c.Save())
	require.Equal(t, packed, c.Stats().Packed.Entries, "it was packed again")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, prior.Size(), info.Size())
	require.Equal(t, 2, c.Stats().Entries)
}

package bench

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThisProcessHasMemory(t *testing.T) {
	m, err := measureMemory()
	if runtime.GOOS != "linux" {
		require.ErrorIs(t, err, errNoMemoryFigures)
		return
	}
	require.NoError(t, err)
	require.Positive(t, m.RSSAnon)
	require.GreaterOrEqual(t, m.RSS, m.RSSAnon+m.RSSFile)
	require.Positive(t, m.Peak)
	require.Positive(t, m.PSS)
	require.Positive(t, m.PrivateDirty)
	require.GreaterOrEqual(t, m.Peak, m.RSS)
	require.Less(t, m.Peak, int64(1)<<40, "bytes")
}

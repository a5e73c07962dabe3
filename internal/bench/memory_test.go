package bench

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThisProcessHasMemory(t *testing.T) {
	r := run{Figures: figures{}}
	require.NoError(t, r.takeMemory())
	m := r.Figures
	if runtime.GOOS != "linux" {
		require.Empty(t, m)
		return
	}
	require.Positive(t, m[rssAnon])
	require.GreaterOrEqual(t, m[rss], m[rssAnon]+m[rssFile])
	require.Positive(t, m[pss])
	require.Positive(t, m[dirty])
	require.GreaterOrEqual(t, m[peakBytes], m[rss])
	require.Less(t, m[peakBytes], float64(1<<40), "bytes")
}

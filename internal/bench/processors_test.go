package bench

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// The demo on a busy machine says that its times are those of a busy machine.
func TestWhatOthersUseOfTheProcessorsIsSaid(t *testing.T) {
	before := use{busy: 100, all: 1000, own: 5}
	for says, after := range map[string]use{
		"":     {busy: 104, all: 1020, own: 7},
		"45 %": {busy: 114, all: 1020, own: 10},
		"75 %": {busy: 120, all: 1020, own: 10},
	} {
		said := disturbed(before, after)
		require.Contains(t, said, says)
		require.Equal(t, says == "", said == "")
	}
	require.Empty(t, disturbed(use{}, use{}), "where the system does not say it")
	if runtime.GOOS == "linux" {
		now := processors()
		require.Positive(t, now.own)
		require.Less(t, now.busy, now.all)
	}
}

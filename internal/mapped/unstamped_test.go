package mapped

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whoever reads a model at each start is to know what to change.
func TestAFileWithoutAStampHasAReason(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		others writers
		age    time.Duration
		why    string
	}{
		{aWriter, time.Hour, Written},
		{noWriter, time.Millisecond, Written},
		{writersUnknown, time.Millisecond, Written},
		{writersUnknown, time.Hour, Owner},
		{writersUnknown, 2 * aDay, FileSystem},
		{noWriter, time.Hour, FileSystem},
	} {
		last := now.Add(-c.age).UnixNano()
		require.Equal(t, c.why, State{Changed: last, Modified: last}.unstamped(c.others, now), "%+v", c)
	}
}

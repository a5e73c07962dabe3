package mapped

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The reason must tell the user what to change if a model is read at each start.
func TestAFileWithoutAStampHasAReason(t *testing.T) {
	clock := time.Now()
	for _, c := range []struct {
		others writers
		age    time.Duration
		reason string
	}{
		{aWriter, time.Hour, Written},
		{noWriter, time.Millisecond, Written},
		{writersUnknown, time.Millisecond, Written},
		{writersUnknown, time.Hour, Owner},
		{writersUnknown, 2 * aDay, FileSystem},
		{noWriter, time.Hour, FileSystem},
	} {
		last := clock.Add(-c.age).UnixNano()
		require.Equal(t, c.reason, State{Changed: last, Modified: last}.unstamped(c.others, clock), "%+v", c)
	}
}

package store

import (
	"testing"
	"time"
)

// SetPatience changes how long a reservation waits for what is prepared, until the test ends.
func SetPatience(t *testing.T, d time.Duration) {
	was := patience
	patience = d
	t.Cleanup(func() { patience = was })
}

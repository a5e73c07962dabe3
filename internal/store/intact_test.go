package store

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A failingOnce file reports a write error once, as Linux does.
type failingOnce struct{ reported bool }

func (f *failingOnce) Failed() error {
	if f.reported {
		return nil
	}
	f.reported = true
	return syscall.EIO
}

// No goroutine may use bytes that the disk has lost.
func TestEveryCheckReturnsTheErrorThatTheSystemReportsOnce(t *testing.T) {
	f := &failures{teller: &failingOnce{}}
	first, second := &Loaded{failed: f}, &Loaded{failed: f}
	for range 2 {
		require.ErrorIs(t, first.Check(), ErrFlush)
		require.ErrorIs(t, second.Check(), syscall.EIO)
	}
}

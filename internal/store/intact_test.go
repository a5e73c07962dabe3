package store

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A failingOnce file says once that the system has failed to write it, as Linux does.
type failingOnce struct{ said bool }

func (f *failingOnce) Failed() error {
	if f.said {
		return nil
	}
	f.said = true
	return syscall.EIO
}

// Of several that ask, each is to know: none may use what the disk has lost.
func TestEachWhoAsksIsGivenTheFailureThatTheSystemSaysOnce(t *testing.T) {
	f := &failures{teller: &failingOnce{}}
	first, second := &Loaded{failed: f}, &Loaded{failed: f}
	for range 2 {
		require.ErrorIs(t, first.Check(), ErrFlush)
		require.ErrorIs(t, second.Check(), syscall.EIO)
	}
}

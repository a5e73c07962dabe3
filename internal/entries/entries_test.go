package entries

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
)

func TestAnEntryIsGivenIfItIsPrivateOrItsFileIsInPlace(t *testing.T) {
	here, elsewhere := [16]byte{1}, [16]byte{2}
	for state, usable := range map[State][2]bool{
		Private: {true, true}, Packed: {true, false}, Orphaned: {true, false}, Durable: {true, false},
		Dropped: {false, false},
	} {
		e := &Entry{State: state, File: here}
		require.Equal(t, usable[0], e.Usable(here), state)
		require.Equal(t, usable[1], e.Usable(elsewhere), state)
		e.Withhold(errors.New("it is damaged"))
		require.False(t, e.Usable(here), state)
	}
}

// Sessions that use an entry whose source changed get that error, also if the entry is damaged.
func TestThatASourceChangedIsNotForgotten(t *testing.T) {
	damaged := errors.New("damaged")
	for _, order := range [][]error{{damaged, ErrSourceChanged}, {ErrSourceChanged, damaged}} {
		e := &Entry{}
		for _, reason := range order {
			e.Withhold(reason)
		}
		require.ErrorIs(t, e.Withheld, ErrSourceChanged)
	}
}

type endsGoroutine struct{}

func (endsGoroutine) ReadDigest() (format.Digest, error) {
	runtime.Goexit()
	return format.Digest{}, nil
}

// A data map's Digest may call runtime.Goexit in the background. The session's thread must not crash afterwards.
func TestADigestWhoseGoroutineEndedIsAnError(t *testing.T) {
	c := Content{Reader: endsGoroutine{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.Digest()
	}()
	<-ended
	_, err := c.Digest()
	require.ErrorIs(t, err, errNoDigest)
	_, computed, err := c.Computed()
	require.True(t, computed)
	require.ErrorIs(t, err, errNoDigest)
}

package entries

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnEntryIsGivenIfItIsPrivateOrItsFileIsInPlace(t *testing.T) {
	here, elsewhere := [16]byte{1}, [16]byte{2}
	for state, given := range map[State][2]bool{
		Private: {true, true}, Packed: {true, false}, Orphaned: {true, false}, Durable: {true, false},
		Dropped: {false, false},
	} {
		e := &Entry{State: state, File: here}
		require.Equal(t, given[0], e.Usable(here), state)
		require.Equal(t, given[1], e.Usable(elsewhere), state)
		e.Withhold(errors.New("it is damaged"))
		require.False(t, e.Usable(here), state)
	}
}

// Sessions that use what was packed from a source that changed are given that, whatever else is wrong with it.
func TestThatASourceChangedIsNotForgotten(t *testing.T) {
	damaged := errors.New("damaged")
	for _, order := range [][]error{{damaged, ErrSourceChanged}, {ErrSourceChanged, damaged}} {
		e := &Entry{}
		for _, why := range order {
			e.Withhold(why)
		}
		require.ErrorIs(t, e.Withheld, ErrSourceChanged)
	}
}

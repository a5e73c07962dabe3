package entries

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnEntryChangesAsTheTableSaysAndNotOtherwise(t *testing.T) {
	// One row a state: o where that of the column may follow it.
	table := map[State]string{
		//        unplaced, private, written, durable, dropped
		Unplaced: "- o o o -",
		Private:  "- - - - o",
		Written:  "- - - o o",
		Durable:  "- - - - o",
		Dropped:  "- - - - -",
	}
	require.Len(t, following, len(table))
	for from, row := range table {
		for to := Unplaced; to <= Dropped; to++ {
			t.Run(fmt.Sprintf("%v, %v", from, to), func(t *testing.T) {
				e := &Entry{state: from}
				err := e.Become(to)
				if row[2*to] == 'o' {
					require.NoError(t, err)
					require.Equal(t, to, e.State())
				} else {
					require.ErrorIs(t, err, ErrState)
					require.Equal(t, from, e.State())
					require.False(t, e.Given([16]byte{}), "nobody is given what is not known to be right")
				}
			})
		}
	}
}

func TestAnEntryIsGivenIfItIsPrivateOrItsFileIsInPlace(t *testing.T) {
	here, elsewhere := [16]byte{1}, [16]byte{2}
	for state, given := range map[State][2]bool{
		Private: {true, true}, Written: {true, false}, Durable: {true, false}, Dropped: {false, false},
	} {
		e := &Entry{state: state, File: here}
		require.Equal(t, given[0], e.Given(here), state)
		require.Equal(t, given[1], e.Given(elsewhere), state)
		e.Withhold(errors.New("it is damaged"))
		require.False(t, e.Given(here), state)
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

package xpwc

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnEntryChangesAsTheTableSaysAndNotOtherwise(t *testing.T) {
	// One row a state: o where that of the column may follow it.
	table := map[entryState]string{
		//                unplaced, private, uncommitted, committed, loaded, moved, stray, dropped
		stateUnplaced:    "- o o - o - o -",
		statePrivate:     "- - - - - - - o",
		stateUncommitted: "- - - o - - o o",
		stateCommitted:   "- - - - o o - o",
		stateLoaded:      "- - - - - o - o",
		stateMoved:       "- - - - - o - o",
		stateStray:       "- - - - - - - o",
		stateDropped:     "- - - - - - - -",
	}
	require.Len(t, following, len(table))
	for from, row := range table {
		for to := stateUnplaced; to <= stateDropped; to++ {
			t.Run(fmt.Sprintf("%v, %v", from, to), func(t *testing.T) {
				c := mustOpen(t, "", nil)
				e := &entry{state: from}
				c.become(e, to)
				if row[2*to] == 'o' {
					require.Equal(t, to, e.state)
					require.NoError(t, c.Stats().LastError)
				} else {
					require.Equal(t, from, e.state)
					require.ErrorIs(t, c.Stats().LastError, errEntryState)
				}
			})
		}
	}
}

func TestOfTwoDoubtsTheWorseStays(t *testing.T) {
	e := &entry{}
	e.suspectFor(mixed)
	e.suspectFor(suspect)
	require.Equal(t, mixed, e.doubt)
}

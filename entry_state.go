package xpwc

import (
	"errors"
	"fmt"
	"slices"
)

// An entryState is where the bytes of an entry are in the course of its life, and what has them.
type entryState uint8

const (
	// stateUnplaced: it has no memory yet.
	stateUnplaced entryState = iota
	// statePrivate: in memory of this process, as long as sessions use it or a cache without a file has it.
	statePrivate
	// stateUncommitted: in the space of the file, in no generation of it.
	stateUncommitted
	// stateCommitted: in a generation that this process wrote, and not in the loaded index.
	stateCommitted
	// stateLoaded: in a generation that was loaded, and mapped where that has it.
	stateLoaded
	// stateMoved: in the file, which has it elsewhere. What is in memory here lasts as long as sessions use it.
	stateMoved
	// stateStray: in the space of a file, and will be in no generation of it. It lasts as long as sessions use it.
	stateStray
	// stateDropped: its memory was given up.
	stateDropped
)

// following says which state may follow which.
//
//	unplaced     what XNNPACK packed is placed; what the index has is loaded
//	private      is dropped when no session uses it
//	uncommitted  is committed; stray when its file ended or was replaced, or there is a doubt about it
//	committed    is in the next index that is loaded; moves with a compaction
//	loaded       moves with a compaction
//	moved        moves again
//	stray        is dropped when no session uses it
//
// Each but the first may be dropped, and nothing follows that.
var following = [...][]entryState{
	stateUnplaced:    {statePrivate, stateUncommitted, stateLoaded, stateStray},
	statePrivate:     {stateDropped},
	stateUncommitted: {stateCommitted, stateStray, stateDropped},
	stateCommitted:   {stateLoaded, stateMoved, stateDropped},
	stateLoaded:      {stateMoved, stateDropped},
	stateMoved:       {stateMoved, stateDropped},
	stateStray:       {stateDropped},
	stateDropped:     {},
}

func (s entryState) String() string {
	return [...]string{
		"unplaced", "private", "uncommitted", "committed", "loaded", "moved", "stray", "dropped",
	}[s]
}

// fresh reports whether the entry was packed here and is not in the loaded index: core.fresh has it.
func (s entryState) fresh() bool {
	return s == stateUncommitted || s == stateCommitted
}

// inGeneration reports whether a generation on the disk has the entry.
func (s entryState) inGeneration() bool {
	return s == stateCommitted || s == stateLoaded || s == stateMoved
}

// errEntryState: this package has made a mistake.
var errEntryState = errors.New("an entry cannot change like that")

// become changes an entry's state. What may not follow the state that it is in is refused, and reported as the cache's
// last error. Nothing else changes a state.
func (c *core) become(e *entry, next entryState) {
	if !slices.Contains(following[e.state], next) {
		c.note(fmt.Errorf("cache %s: %q is %v and was to be %v: %w", c.name(), e.name(), e.state, next, errEntryState))
		return
	}
	e.state = next
}

// A doubt is why no further session is given an entry. Those that use it keep it. It says nothing of where the entry
// is.
type doubt uint8

const (
	sound   doubt = iota
	suspect       // its bytes may not be what was packed, or nobody knows what that was packed from
	mixed         // what it was packed from was changed meanwhile
)

// suspectFor says that an entry is not to be used any more, for a reason. The worse of two stays.
func (e *entry) suspectFor(why doubt) { e.doubt = max(e.doubt, why) }

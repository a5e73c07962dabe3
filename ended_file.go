package xpwc

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"xpwc/internal/store"
)

// A disk that fails may lose at any time what was written since the last commit, and says so once. So a failed flush
// ends the file: nothing is tried again. Who uses what was not committed is told; others begin a new file at once, and
// this process after a while.

// endedPause is how long a process packs into private memory whose file has ended.
const endedPause = time.Minute

// endFile gives up the file because it could not be flushed, or what a commit consists of could not be written.
func (c *core) endFile(cause error) {
	uncommitted := c.freshOnes((*entry).uncommitted)
	if len(uncommitted) > 0 {
		c.uncommittedLost = cause
	}
	c.lose(uncommitted, cause)
	c.ended, c.endedUntil = cause, time.Now().Add(endedPause)
	c.setAside(cause)
}

// lost takes note of what is wrong with a file, once nothing is being written to it.
func (c *core) lost(file [16]byte, err error) {
	c.await(func() bool { return !c.storing })
	switch {
	case c.closed || c.store.ID() != file: // somebody else has
	case errors.Is(err, store.ErrFlush):
		c.endFile(err)
	default:
		c.note(c.accept(err))
	}
}

// setAside gives up the file that this process writes to, and leaves its path to others.
func (c *core) setAside(cause error) {
	as, err := c.store.End()
	c.note(err)
	c.note(cause)
	if as != "" {
		c.reportSetAside(as, cause)
	}
	c.noticeReload()
}

func (c *core) reportSetAside(as string, cause error) {
	c.events.add(slog.LevelWarn, "damaged cache file was set aside", slog.String("as", as), slog.Any("error", cause))
}

// loseAll does so with all that a file has, which is not what it was.
func (c *core) loseAll(file [16]byte, why error) {
	var entries []*entry
	for _, f := range c.live {
		for _, e := range f.entries {
			if e.reason == "" && e.file == file {
				entries = append(entries, e)
			}
		}
	}
	c.lose(entries, why)
}

// lose takes note that the bytes of entries are gone, or may be, and has the sessions know that use or pack them.
func (c *core) lose(entries []*entry, why error) {
	lost, inUse := map[*entry]bool{}, 0
	for _, e := range entries {
		e.suspectFor(suspect)
		if e.sessions > 0 {
			lost[e] = true
		}
		if e.sessions > 0 || e.by != nil {
			inUse++
		}
		if e.by != nil {
			e.by.lose(e, why)
		}
	}
	if inUse == 0 {
		return
	}
	for s := range c.sessions {
		if len(lost) == 0 {
			break // each was just packed, and only its session knows of it
		}
		if i := slices.IndexFunc(s.used, func(e *entry) bool { return lost[e] }); i >= 0 {
			s.lose(s.used[i], why)
		}
	}
	c.stats.LostPayloads += int64(inUse)
	c.events.add(slog.LevelError, "packed weights in use were lost",
		slog.Int("payloads", inUse), slog.Any("error", why))
}

// lose takes note that the runtime must not be used, for want of an entry's bytes. c.mu is held.
func (s *Session) lose(e *entry, why error) {
	s.lostWeights = cmp.Or(s.lostWeights, fmt.Errorf("packed weights of %q: %w: %w", e.name(), ErrLost, why))
}

package xpwc

import (
	"errors"
	"log/slog"
	"slices"

	"xpwc/internal/format"
	"xpwc/internal/store"
)

// What it means for the entries in memory that the store has loaded another generation, or another file.

// refresh picks up a newer generation that another process committed.
func (c *core) refresh() error {
	if c.store == nil || c.damaged && !c.options.ReadOnly {
		return nil // it is set aside with the first miss
	}
	c.damaged = false // or somebody else has
	defer c.noticeReload()
	was := c.store.ID()
	err := c.store.Refresh()
	if err == nil {
		c.noticeReplacement(was)
	}
	return c.accept(err)
}

// accept turns what loading the file found into what it means for the cache. The error is one for the caller of Open.
func (c *core) accept(err error) error {
	if errors.Is(err, store.ErrOverwritten) {
		c.loseAll(c.store.ID(), err)
	}
	for _, gone := range []error{ErrDamaged, ErrForeign, ErrVersion, ErrNotCache} {
		if errors.Is(err, gone) { // what was mapped may be cut off or written over
			c.distrust(err)
			break
		}
	}
	switch {
	case err == nil:
		if c.blocked == ReasonVersion || c.blocked == ReasonDisk {
			c.blocked = ""
		}
		if c.options.ReadOnly {
			c.blocked = ReasonReadOnly
		}
		return nil
	case c.options.Strict:
		return errors.Join(err, c.store.Close())
	case errors.Is(err, ErrDamaged):
		if known := c.stats.Damaged; known == nil || known.Error() != err.Error() {
			c.events.add(slog.LevelWarn, "cache file is damaged", slog.Any("error", err))
		}
		c.damaged, c.stats.Damaged = true, err
		if c.options.ReadOnly {
			c.blocked = ReasonReadOnly
		}
		return nil
	case errors.Is(err, ErrVersion) && !c.store.Foreign(): // a newer one, of programs that are to go on with it
		if c.blocked != ReasonVersion {
			c.events.add(slog.LevelWarn, "cache file of a newer format version is left alone", slog.Any("error", err))
		}
		c.damaged, c.blocked = false, ReasonVersion
		c.note(err)
		return nil
	case errors.Is(err, store.ErrUnmappable):
		if c.blocked != ReasonDisk {
			c.events.add(slog.LevelWarn, "cache file cannot be mapped", slog.Any("error", err))
		}
		c.damaged, c.blocked = false, ReasonDisk
		c.note(err)
		return nil
	case errors.Is(err, ErrForeign), errors.Is(err, ErrVersion):
		c.damaged = false
		if c.options.ReadOnly {
			c.blocked = ReasonReadOnly
		}
		return nil
	default:
		return err
	}
}

// noticeReload compares what the store has loaded with what the cache knows of it. It follows everything that may load
// another generation or another file.
func (c *core) noticeReload() {
	if now := (loadedIndex{c.store.ID(), c.store.Index()}); now != c.liveFrom {
		if now.file != c.liveFrom.file {
			c.damagedAt = map[uint64]bool{}
		}
		c.liveFrom, c.evidence = now, nil
		if now.index != nil {
			c.evidence = gather(now.index.Layouts())
		}
		c.forgetLoaded()
		if len(c.live) == 0 && now.index != nil {
			c.live = make(map[string]*family, min(now.index.Len(), manyEntries))
		}
	}
}

// noticeReplacement reports a file that is no longer the one at the path, if it was one.
func (c *core) noticeReplacement(was [16]byte) {
	if was != [16]byte{} && was != c.store.ID() {
		c.events.add(slog.LevelInfo, "cache file was replaced by another process")
	}
}

// A loadedIndex is a loaded generation of a file.
type loadedIndex struct {
	file  [16]byte
	index *format.Index
}

// forgetLoaded drops what was found through an index that is no longer the loaded one. Entries in use stay: their
// memory does not change.
func (c *core) forgetLoaded() {
	here := c.store.ID()
	c.fresh = slices.DeleteFunc(c.fresh, func(e *entry) bool {
		switch {
		case e.state == stateCommitted: // it is in the new index, unless that is of another file
			c.become(e, stateLoaded)
		case e.file == here:
			return false
		default: // it is lost with the file
			c.become(e, stateStray)
		}
		return true
	})
	for kernel := range c.live {
		c.without(kernel, func(e *entry) bool {
			if e.sessions > 0 || e.reason != "" || e.state.fresh() || e.changed && e.file == here {
				return false
			}
			c.note(e.region.Release())
			c.become(e, stateDropped)
			return true
		})
	}
}

package xpwc

import (
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"xpwc/internal/store"
)

// busyPause is how long a process that has waited for another one in vain does not wait again.
const busyPause = time.Minute

// forbidden reports whether an error is that this process may not write to the file, which it does not try again.
func (c *core) forbidden(err error) bool {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errReadOnlyFileSystem) {
		return false
	}
	c.blocked = ReasonReadOnly
	return true
}

// beginWriting makes this process the writer of the file, waiting for another one within limits. It returns the reason
// why it is not, or "". c.mu is held, but not while waiting.
func (c *core) beginWriting(compacting bool) Reason {
	deadline := time.Now().Add(c.options.WriterWait)
	if !compacting && time.Now().Before(c.busyUntil) {
		deadline = time.Now()
	}
	reported := false
	found := 0 // times that another file than the one loaded was found: with it, it is tried again at once
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if c.blocked != "" {
			return c.blocked
		}
		var ok bool
		var err error
		was := c.store.ID()
		if compacting || !c.compacting {
			ok, err = c.tryBegin()
		}
		if ok {
			c.busyUntil = time.Time{}
			return ""
		}
		busy := err == nil // another process is writing, or this one compacts
		retry := busy
		if errors.Is(err, ErrReplaced) {
			if err = c.accept(c.store.Reopen()); err == nil {
				c.noticeReplacement(was)
			}
			retry = err == nil
		} else if errors.Is(err, ErrDamaged) || errors.Is(err, ErrForeign) || errors.Is(err, ErrVersion) {
			err = c.accept(err)
			retry = err == nil
		}
		c.noticeReload()
		switch {
		case c.forbidden(err):
			c.note(err)
			return c.blocked
		case !retry:
			c.note(err)
			return ReasonDisk
		case !busy && found < 3:
			found++
			continue
		case !time.Now().Before(deadline):
			c.busyUntil = time.Now().Add(busyPause)
			return ReasonBusy
		case busy && (compacting || !c.compacting) && !reported:
			reported = true
			c.events.add(slog.LevelInfo, "waiting for another process that packs into the cache file",
				slog.Duration("at_most", c.options.WriterWait))
		}
		c.unlocked(func() { time.Sleep(pause) })
	}
}

// arrival is how long after the last write a file that is too short may still be one that is copied to its place. Tests
// change it.
var arrival = 2 * time.Second

// tryBegin makes this process the writer of the file, if no other is. The error may be why its last file ended.
func (c *core) tryBegin() (bool, error) {
	if time.Now().Before(c.endedUntil) {
		return false, c.ended
	}
	defer c.noticeReload()
	if c.damaged {
		if errors.Is(c.stats.Damaged, store.ErrShort) && writtenSince(c.place.path, time.Now().Add(-arrival)) {
			return false, nil // it may be on its way here: who sets it aside takes it from whom copies it
		}
		as, err := c.store.SetAsideDamaged()
		if as != "" {
			c.reportSetAside(as, c.stats.Damaged)
		}
		if err != nil {
			return false, err
		}
		c.damaged = false
	}
	ok, err := c.store.Begin()
	if errors.Is(err, store.ErrFlush) {
		c.endFile(err)
	}
	return ok, err
}

// commitChanges starts a commit of changed flags and stamps, if this process can become the writer at once. If not, the
// next commit brings them along.
func (c *core) commitChanges() {
	if c.store == nil || c.blocked != "" || c.damaged || c.compacting || c.store.Foreign() || c.store.CopiesUp() {
		return
	}
	if ok, err := c.tryBegin(); err != nil || !ok {
		if !c.forbidden(err) {
			c.note(c.accept(err))
		}
		return
	}
	c.startCommit()
}

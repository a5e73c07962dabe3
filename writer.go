package xpwc

import (
	"errors"
	"io/fs"
	"time"
)

// beginWriting makes this process the writer of the file, waiting for another one within limits. It returns the reason
// why it is not, or "". c.mu is held, but not while waiting.
func (c *Cache) beginWriting(compacting bool) Reason {
	deadline := time.Now().Add(c.options.WriterWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if c.blocked != "" {
			return c.blocked
		}
		var ok bool
		var err error
		if compacting || !c.compacting {
			ok, err = c.tryBegin()
		}
		if ok {
			return ""
		}
		retry := err == nil
		if errors.Is(err, ErrReplaced) {
			err = c.accept(c.store.reopen())
			retry = err == nil
		} else if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrForeign) {
			err = c.accept(err)
			retry = err == nil
		}
		c.noticeReload()
		switch {
		case errors.Is(err, fs.ErrPermission), errors.Is(err, errReadOnlyFileSystem):
			c.note(err)
			c.blocked = ReasonReadOnly
			return c.blocked
		case !retry:
			c.note(err)
			return ReasonDisk
		case time.Now().After(deadline):
			return ReasonBusy
		}
		c.mu.Unlock()
		time.Sleep(pause)
		c.mu.Lock()
	}
}

func (c *Cache) tryBegin() (bool, error) {
	defer c.noticeReload()
	if c.damaged {
		if err := c.store.setAsideDamaged(); err != nil {
			return false, err
		}
		c.damaged = false
	}
	return c.store.begin()
}

// commitChanges starts a commit of changed flags and stamps, if this process can become the writer at once. If not, the
// next commit brings them along.
func (c *Cache) commitChanges() {
	if c.store == nil || c.blocked != "" || c.damaged || c.compacting || c.store.foreign != nil {
		return
	}
	if ok, err := c.tryBegin(); err != nil || !ok {
		c.note(c.accept(err))
		return
	}
	c.startCommit()
}

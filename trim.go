package xpwc

import (
	"fmt"
)

// Trim gives back the memory of packed weights that no session uses. A cache without a file forgets them. One with a
// file maps it anew, if no session is open, so that its pages no longer count as this process's: they stay in the file,
// and in the system's page cache. Trim waits for a commit that is being written, or about to be. Errors: ErrClosed, and
// those of mapping.
func (c *Cache) Trim() error {
	if err := c.checkOpen("trim"); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commitTimer != nil && len(c.sessions) == 0 {
		c.startCommit()
	}
	for !c.closing && (c.committing || c.compacting) {
		c.idle.Wait()
	}
	switch {
	case c.closing:
		return fmt.Errorf("trim cache %s: %w", c.name(), ErrClosed)
	case c.store == nil:
		return c.trimMemory()
	case len(c.sessions) > 0 || c.store.Writing() || !c.store.HasFile() || c.damaged:
		return nil // what is mapped is in use, or yet to be committed, or nothing
	}
	defer c.noticeReload()
	return c.accept(c.store.Reopen())
}

func (c *core) trimMemory() error {
	for kernel := range c.live {
		c.without(kernel, func(e *entry) bool {
			if e.sessions > 0 {
				return false
			}
			c.become(e, stateDropped)
			c.note(e.region.Release())
			return true
		})
	}
	if len(c.sessions) > 0 {
		return nil
	}
	return c.arena.drop()
}

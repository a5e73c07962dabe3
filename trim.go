package xpwc

import (
	"fmt"
	"slices"
)

// Trim gives back the memory of packed weights that no session uses. A cache without a file forgets them. One with a file
// maps it anew, if no session is open, so that its pages no longer count as this process's: they stay in the file, and in
// the system's page cache. Trim waits for a commit that is being written, or about to be. Errors: ErrClosed, and those of mapping.
func (c *Cache) Trim() error {
	if err := c.checkOpen("trim"); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.soon != nil && len(c.sessions) == 0 {
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
	c.forgetSeeds()
	if len(c.sessions) > 0 {
		return nil
	}
	return c.arena.drop()
}

// Names returns the sorted names of the packed weights in the cache that XNNPACK could use on this machine, each the
// weights' name directly followed by the bias' name. Variants of one name are one.
func (c *Cache) Names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, f := range c.live {
		for _, e := range f.entries {
			if e.doubt == sound {
				names = append(names, e.name())
			}
		}
	}
	here, _ := currentLayout()
	if c.store != nil && c.store.Index() != nil {
		index := c.store.Index()
		for i := range index.Len() {
			r, err := index.Record(i)
			if err != nil {
				c.note(c.accept(c.store.Damaged(err)))
				break
			}
			if r.Layout == here.Fingerprint && !c.bad[r.Offset] {
				names = append(names, r.Kernel+r.Bias)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

package xpwc

import "xpwc/internal/store"

// Tests put faults between a cache's store and the system.

func filesOf(c *Cache) (now store.Files) {
	c.store.Intercept(func(f store.Files) store.Files { now = f; return f }, nil)
	return now
}

func setFiles(c *Cache, f store.Files) {
	c.store.Intercept(func(store.Files) store.Files { return f }, nil)
}

// diskOf returns the disk of the file that is open, or nil.
func diskOf(c *Cache) (now store.Disk) {
	c.store.Intercept(nil, func(d store.Disk) store.Disk { now = d; return d })
	return now
}

func setDisk(c *Cache, d store.Disk) {
	c.store.Intercept(nil, func(store.Disk) store.Disk { return d })
}

// openStore has a cache that was opened in memory use a store.
func openStore(c *Cache, path string, st *store.Store) error {
	c.place, c.store = place{path: path}, st
	err := c.accept(st.Load())
	c.noticeReload()
	return err
}

package xpwc

import (
	"xpwc/internal/store"
	"xpwc/internal/writer"
)

// NotFound is the answer of a look-up that misses: SIZE_MAX (xnnpack.h).
const missing = ^uintptr(0)

// lookUp makes XNNPACK's call to look_up.
func lookUp(s *Session, seed uint32, kernel, bias uintptr) uintptr {
	return s.lookUp(lookUpKey{seed, kernel, bias, 0})
}

// reserve makes XNNPACK's call to reserve_space.
func reserve(s *Session, size uint64) []byte { return s.reserve(size) }

// insert makes XNNPACK's call to look_up_or_insert, for the bytes packed at an address.
func insert(s *Session, seed uint32, kernel, bias, address uintptr, size uint64) uintptr {
	return s.insert(lookUpKey{seed, kernel, bias, 0}, address, size)
}

// alias makes XNNPACK's call to alias_data.
func alias(s *Session, duplicate, original uintptr) { s.alias(duplicate, original) }

// openAlone opens a cache on these files, with a writer of its own, as another process does.
func openAlone(path string, o *Options, f store.Files) (*Cache, error) {
	return newHandle(place{path: path}, o.withDefaults(), f, nil)
}

// openShared opens a cache on these files. It shares its writer with other handles of the path.
func openShared(path string, o *Options, f store.Files) (*Cache, error) {
	return openPlace(place{path: path}, o.withDefaults(), f, nil)
}

// writerOf returns the writer that all handles of a path share.
func writerOf(c *Cache) *writer.Writer { return c.writer }

// userOf returns the session's part in its writer.
func userOf(s *Session) *writer.User { return s.user }

// probe looks into a cache's writer.
func probe(c *Cache) writer.Probe { return writerOf(c).Probe() }

// awaitEvents returns when the cache's logger has handled all events so far.
func awaitEvents(c *Cache) { c.events.wait() }

// contentIn returns the memory of a tensor that the session has loaded.
func contentIn(s *Session, name string) []byte { b, _ := s.Load(name, Believe()); return b }

// addressTo returns where b starts in memory.
func addressTo(b []byte) uintptr { return addressOf(b) }

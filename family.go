package xpwc

import (
	"slices"

	"xpwc/internal/format"
)

// A family is the entries in memory of all packed weights of one kernel's name. Sources know theirs, so that a look-up
// need not search by name.
type family struct {
	entries []*entry
	usual   [1]*entry // room for what most have
	gone    bool      // it is not the cache's any more
}

// family returns a kernel's family, which may yet be empty.
func (c *core) family(kernel string) *family {
	f := c.live[kernel]
	if f == nil {
		f = c.newFamilies.take()
		f.entries = f.usual[:0]
		c.live[kernel] = f
	}
	return f
}

// under returns the entries that have a key, if f is that of its kernel.
func (f *family) under(key *format.Key) []*entry {
	if f == nil {
		return nil
	}
	return all(f.entries, func(e *entry) bool { return e.record.Key == *key })
}

// without takes the entries that match out of a kernel's family.
func (c *core) without(kernel string, match func(*entry) bool) {
	f := c.live[kernel]
	f.entries = slices.DeleteFunc(f.entries, match)
	if len(f.entries) == 0 {
		f.gone = true
		delete(c.live, kernel)
	}
}

// soundOnes returns the entries that there is no doubt about.
func soundOnes(entries []*entry) []*entry {
	return all(entries, func(e *entry) bool { return e.doubt == sound })
}

// all returns the entries that fulfil a condition: the given slice itself if all do, as is usual.
func all(entries []*entry, condition func(*entry) bool) []*entry {
	except := func(e *entry) bool { return !condition(e) }
	if !slices.ContainsFunc(entries, except) {
		return entries
	}
	return slices.DeleteFunc(slices.Clone(entries), except)
}

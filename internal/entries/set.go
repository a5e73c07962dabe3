package entries

import (
	"iter"
	"slices"

	"xpwc/internal/format"
)

// A Set has the named entries of one cache that are in memory. An unnamed entry belongs to its session alone.
type Set struct {
	kernels map[string][]*Entry // by the kernel's name

	Packed []*Entry // in the state of that name
}

// NewSet returns an empty set.
func NewSet() *Set { return &Set{kernels: map[string][]*Entry{}} }

// Named returns the entries of a kernel's name. The slice is the set's own.
func (s *Set) Named(kernel string) []*Entry { return s.kernels[kernel] }

// ByKey returns the entries that have a key. The slice is the set's own.
func (s *Set) ByKey(key *format.Key) []*Entry {
	return Filter(s.kernels[key.Kernel], func(e *Entry) bool { return e.Record.Key == *key })
}

// Find returns the entry of a record of the loaded index, which is of the file in place, or nil. Records may share a
// payload.
func (s *Set) Find(r *format.Record, inPlace [16]byte) *Entry {
	for _, e := range s.ByKey(&r.Key) {
		if e.Listed(inPlace) && e.Record.Offset == r.Offset && e.Record.Seed == r.Seed {
			return e
		}
	}
	return nil
}

// MarkComplete takes note that all records that an index has under a key are in memory.
func (s *Set) MarkComplete(key *format.Key, index *format.Index) {
	for _, e := range s.ByKey(key) {
		e.complete = index
	}
}

// Supersedes reports whether the next generation has the same weight of the same source as a record, with another
// content, packed here later.
func (s *Set) Supersedes(r *format.Record) bool {
	if r.Source == (format.Digest{}) {
		return false
	}
	for _, e := range slices.Backward(s.ByKey(&r.Key)) {
		if e.Ready() && e.Record.Seed == r.Seed && e.Record.Source == r.Source {
			return e.Record.KernelDigest != r.KernelDigest || e.Record.BiasDigest != r.BiasDigest
		}
	}
	return false
}

// Next returns the records that the next generation adds.
func (s *Set) Next() []format.Record {
	records := make([]format.Record, 0, len(s.Packed))
	for _, e := range s.Packed {
		if e.Ready() && !s.Supersedes(&e.Record) {
			records = append(records, e.Record)
		}
	}
	return records
}

// Add puts an entry under its kernel's name.
func (s *Set) Add(e *Entry) { s.kernels[e.Record.Kernel] = append(s.kernels[e.Record.Kernel], e) }

// AddPacked puts an entry in the state Packed.
func (s *Set) AddPacked(e *Entry) {
	e.State = Packed
	s.Packed = append(s.Packed, e)
}

// SettlePacked takes the entries that match out of Packed. They are Orphaned, unless match has changed their state.
func (s *Set) SettlePacked(match func(*Entry) bool) {
	s.Packed = slices.DeleteFunc(s.Packed, func(e *Entry) bool {
		settled := match(e)
		if settled && e.State == Packed {
			e.State = Orphaned
		}
		return settled
	})
}

// Entries returns the entries.
func (s *Set) Entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, entries := range s.kernels {
			for _, e := range entries {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Remove takes an entry out of the set, but not out of Packed: see SettlePacked.
func (s *Set) Remove(e *Entry) {
	s.removeWhere(e.Record.Kernel, func(x *Entry) bool { return x == e })
}

// RemoveWhere takes the entries that match out of the set.
func (s *Set) RemoveWhere(match func(*Entry) bool) {
	for kernel := range s.kernels {
		s.removeWhere(kernel, match)
	}
}

func (s *Set) removeWhere(kernel string, match func(*Entry) bool) {
	rest := slices.DeleteFunc(s.kernels[kernel], match)
	if len(rest) == 0 {
		delete(s.kernels, kernel)
	} else {
		s.kernels[kernel] = rest
	}
}

// Filter returns the entries that fulfil a condition: the slice itself if all do, which is usual.
func Filter(entries []*Entry, condition func(*Entry) bool) []*Entry {
	except := func(e *Entry) bool { return !condition(e) }
	if !slices.ContainsFunc(entries, except) {
		return entries
	}
	return slices.DeleteFunc(slices.Clone(entries), except)
}

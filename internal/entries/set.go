package entries

import (
	"iter"
	"slices"

	"xpwc/internal/format"
)

// A Set is the entries of one cache that are in memory.
type Set struct {
	families map[string]*Family
	unnamed  map[format.Digest][]*Entry // by digest of the packed bytes

	Unlisted []*Entry // packed here, and not in the loaded index

	newEntries  Stock[Entry]
	newFamilies Stock[Family]
}

// A Family is the entries of all packed weights of one kernel's name. Of nil there are none.
type Family struct {
	entries []*Entry
	usual   [1]*Entry // room for what most have
}

// NewSet returns an empty set.
func NewSet() *Set {
	return &Set{families: map[string]*Family{}, unnamed: map[format.Digest][]*Entry{}}
}

// Expect makes room for n names in a set that is empty.
func (s *Set) Expect(n int) {
	if len(s.families) == 0 {
		s.families = make(map[string]*Family, n)
	}
}

// New returns an entry without a state, which is not in the set.
func (s *Set) New() *Entry { return s.newEntries.Take() }

// Family returns a kernel's family, or nil if there is none.
func (s *Set) Family(kernel string) *Family { return s.families[kernel] }

// Under returns the entries that have a key, if f is the family of its kernel. The slice is the set's own.
func (f *Family) Under(key *format.Key) []*Entry {
	if f == nil {
		return nil
	}
	return Only(f.entries, func(e *Entry) bool { return e.Record.Key == *key })
}

// Of returns the entry of a record of the loaded index, which is of the file in place, or nil. Records may share a
// payload. The family is that of the record's kernel.
func (f *Family) Of(r *format.Record, inPlace [16]byte) *Entry {
	for _, e := range f.Under(&r.Key) {
		if e.Listed(inPlace) && e.Record.Offset == r.Offset && e.Record.Seed == r.Seed {
			return e
		}
	}
	return nil
}

// Survey takes note that all records that an index has under a key are in memory.
func (f *Family) Survey(key *format.Key, index *format.Index) {
	for _, e := range f.Under(key) {
		e.surveyed = index
	}
}

// Supersedes reports whether the next generation has the same weight of the same source as a record, with another
// content, packed here later. The family is that of the record's kernel.
func (f *Family) Supersedes(r *format.Record) bool {
	if r.Source == (format.Digest{}) {
		return false
	}
	for _, e := range slices.Backward(f.Under(&r.Key)) {
		if e.next() && e.Record.Seed == r.Seed && e.Record.Source == r.Source {
			return e.Record.KernelDigest != r.KernelDigest || e.Record.BiasDigest != r.BiasDigest
		}
	}
	return false
}

// next reports whether the next generation has the entry, which was packed here.
func (e *Entry) next() bool { return e.Unlisted && e.state == Durable || e.Ready() }

// Next returns the records of what was packed here that the next generation has.
func (s *Set) Next() (records []format.Record) {
	for _, e := range s.Unlisted {
		if e.next() && e.Withheld == nil && !e.family.Supersedes(&e.Record) {
			records = append(records, e.Record)
		}
	}
	return records
}

// Add puts an entry under its name.
func (s *Set) Add(e *Entry) {
	f := s.families[e.Record.Kernel]
	if f == nil {
		f = s.newFamilies.Take()
		f.entries = f.usual[:0]
		s.families[e.Record.Kernel] = f
	}
	e.family = f
	f.entries = append(f.entries, e)
}

// AddUnnamed puts an entry that has no name under the digest of its bytes.
func (s *Set) AddUnnamed(e *Entry) { s.unnamed[e.Record.Sum] = append(s.unnamed[e.Record.Sum], e) }

// Unnamed returns the entries without a name that have a digest. The slice is the set's own.
func (s *Set) Unnamed(sum format.Digest) []*Entry { return s.unnamed[sum] }

// AddUnlisted takes note that an entry was packed here, and that the loaded index does not have it.
func (s *Set) AddUnlisted(e *Entry) {
	e.Unlisted = true
	s.Unlisted = append(s.Unlisted, e)
}

// List takes the entries that match out of those that the loaded index does not have.
func (s *Set) List(match func(*Entry) bool) {
	s.Unlisted = slices.DeleteFunc(s.Unlisted, func(e *Entry) bool {
		listed := match(e)
		e.Unlisted = e.Unlisted && !listed
		return listed
	})
}

// Named returns all entries that have a name.
func (s *Set) Named() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, f := range s.families {
			for _, e := range f.entries {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Len returns how many names there are.
func (s *Set) Len() int { return len(s.families) }

// Remove takes an entry out of the set, but not out of Unlisted: see List.
func (s *Set) Remove(e *Entry) {
	is := func(other *Entry) bool { return other == e }
	if e.family == nil {
		sum := e.Record.Sum
		s.unnamed[sum] = slices.DeleteFunc(s.unnamed[sum], is)
		if len(s.unnamed[sum]) == 0 {
			delete(s.unnamed, sum)
		}
		return
	}
	s.removeWhere(e.Record.Kernel, e.family, is)
}

// RemoveWhere takes the named entries that match out of the set.
func (s *Set) RemoveWhere(match func(*Entry) bool) {
	for kernel, f := range s.families {
		s.removeWhere(kernel, f, match)
	}
}

func (s *Set) removeWhere(kernel string, f *Family, match func(*Entry) bool) {
	f.entries = slices.DeleteFunc(f.entries, match)
	if len(f.entries) == 0 && s.families[kernel] == f {
		delete(s.families, kernel)
	}
}

// Only returns the entries that fulfil a condition: the given slice itself if all do, as is usual.
func Only(entries []*Entry, condition func(*Entry) bool) []*Entry {
	except := func(e *Entry) bool { return !condition(e) }
	if !slices.ContainsFunc(entries, except) {
		return entries
	}
	return slices.DeleteFunc(slices.Clone(entries), except)
}

// A Stock makes values of one kind, at first some together and then many. There may be a million of them: the garbage
// collector goes over those that lie together faster than it follows a pointer to each. They are freed together, too.
type Stock[T any] struct {
	unused []T
	made   int
}

// The fewest and the most values that a stock makes together.
const (
	leastStock = 8
	mostStock  = 256
)

// Take returns a zero value.
func (s *Stock[T]) Take() *T {
	if len(s.unused) == 0 {
		s.unused = make([]T, min(max(s.made, leastStock), mostStock))
		s.made += len(s.unused)
	}
	v := &s.unused[0]
	s.unused = s.unused[1:]
	return v
}

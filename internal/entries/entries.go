// Package entries has the packed weights in memory, by name and key. It does no I/O and has no lock: package writer
// guards it.
package entries

import (
	"errors"
	"iter"
	"slices"

	"xpwc/internal/format"
	"xpwc/internal/store"
)

// A State is where the bytes of an entry are.
type State uint8

// The states of an entry.
const (
	Private  State = iota // in memory of this process
	Packed                // packed here, into the file in place, and in no generation of it: see Set.Packed
	Orphaned              // in the space of a file that this process no longer writes, and in no generation
	Durable               // in a generation of a file
	Dropped               // its memory is released
)

// An Owner is a session as its entries know it.
type Owner struct {
	Used []*Entry // once for each look-up and insert that returned it
	Lost error    // why the session's runtime must not be used, or nil
}

// An Entry is one packed payload in memory.
type Entry struct {
	State  State
	Record format.Record // without digests until it is identified
	Data   []byte
	Region *store.Region // that has the data; the entry has a reference to it
	File   [16]byte      // identity of the file that it lies in, zero if it is private
	Reason string        // why it is private although the cache has a file, or ""

	Sessions   int      // that use it
	Withheld   error    // why no further session may use it, or nil
	OtherSeeds []uint32 // besides the record's, the seeds under which this process packed the same bytes

	// What an entry was packed from, and by which session. All are nil once the session has identified it.
	Contents
	Packer *Owner

	Changed  bool // the generation in force has other flags, stamps or digests of it
	Verified bool // its bytes were compared with a packing or with its checksum
	Sized    bool // its size is the one that a look-up of its key expected

	complete *format.Index // all records of that index under its key are in memory
}

// Name returns the entry's name in ExecuTorch's trailer: the kernel's name directly followed by the bias' name.
func (e *Entry) Name() string { return e.Record.Kernel + e.Record.Bias }

// Usable reports whether a further session may use the entry: it is not withheld, and it is private or its file is the
// one in place.
func (e *Entry) Usable(inPlace [16]byte) bool {
	return e.Withheld == nil && e.State != Dropped && (e.State == Private || e.File == inPlace)
}

// Withhold keeps the entry from further sessions. Sessions that use it keep it. The first cause stays, unless the new
// one is ErrSourceChanged.
func (e *Entry) Withhold(cause error) {
	if e.Withheld == nil || errors.Is(cause, ErrSourceChanged) {
		e.Withheld = cause
	}
}

// ErrSourceChanged: the source of an entry changed while it was packed.
var ErrSourceChanged = errors.New("changed in place while it was packed; load the model again")

// Listed reports whether a generation of the file in place has the entry.
func (e *Entry) Listed(inPlace [16]byte) bool { return e.State == Durable && e.File == inPlace }

// Uncommitted reports whether the next generation must have the entry, or a session uses it before a commit.
func (e *Entry) Uncommitted() bool { return e.State == Packed && (e.Withheld == nil || e.Sessions > 0) }

// Ready reports whether the entry can be committed: it is not withheld, and its record is complete.
func (e *Entry) Ready() bool {
	return e.State == Packed && e.Withheld == nil && e.Identified() && e.Summed()
}

// Discarded reports whether the entry was packed and no generation is to have it.
func (e *Entry) Discarded() bool {
	return e.Withheld != nil && e.Uncommitted() && e.Identified() && e.Summed()
}

// Summed reports whether the entry's checksum is computed.
func (e *Entry) Summed() bool { return e.Record.Sum != (format.Digest{}) }

// Identified reports whether the record has the source of the entry.
func (e *Entry) Identified() bool { return e.Packer == nil }

// A Set has the named entries of one cache that are in memory. An unnamed entry belongs to its session alone.
type Set struct {
	kernels map[string][]*Entry // by the kernel's name

	Packed []*Entry // in the state of that name
}

// NewSet returns an empty set.
func NewSet() *Set { return &Set{kernels: map[string][]*Entry{}} }

// Find returns the entries that have a key. The slice is the set's own. complete reports whether MarkComplete was
// called for them with the index.
func (s *Set) Find(key *format.Key, index *format.Index) (list []*Entry, complete bool) {
	named := s.kernels[key.Kernel]
	for i, e := range named {
		if e.Record.Key != *key {
			if list == nil { // which stays the set's own slice while all match
				list = slices.Clone(named[:i])
			}
			continue
		}
		complete = complete || e.complete == index
		if list != nil {
			list = append(list, e)
		}
	}
	if list == nil {
		list = named
	}
	return list, complete
}

// MarkComplete records that all records that an index has under a key are in memory.
func (s *Set) MarkComplete(key *format.Key, index *format.Index) {
	list, _ := s.Find(key, index)
	for _, e := range list {
		e.complete = index
	}
}

// Recorded returns the entry of a record of the loaded index, or nil. Records may share a payload.
func (s *Set) Recorded(r *format.Record, inPlace [16]byte) *Entry {
	list, _ := s.Find(&r.Key, nil)
	for _, e := range list {
		if e.Listed(inPlace) && e.Record.Offset == r.Offset && e.Record.Seed == r.Seed {
			return e
		}
	}
	return nil
}

// Supersedes reports whether the next generation has the same weight of the same source as a record, with another
// content, packed here later.
func (s *Set) Supersedes(r *format.Record) bool {
	if r.Source == (format.Digest{}) {
		return false
	}
	list, _ := s.Find(&r.Key, nil)
	for _, e := range slices.Backward(list) {
		if e.Ready() && e.Record.Seed == r.Seed && e.Record.Source == r.Source {
			return e.Record.Digests != r.Digests
		}
	}
	return false
}

// AppendNext appends the records that the next generation adds.
func (s *Set) AppendNext(records []format.Record) []format.Record {
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
	list := s.kernels[kernel]
	rest := slices.DeleteFunc(list, match)
	if len(rest) < len(list) { // the loaded index may still have what was removed
		for _, e := range rest {
			e.complete = nil
		}
	}
	if len(rest) == 0 {
		delete(s.kernels, kernel)
	} else {
		s.kernels[kernel] = rest
	}
}

// Package entries has the packed weights in memory, by name and key. It does no I/O and has no lock: package writer
// guards it.
package entries

import (
	"errors"
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
	Kernel, Bias *Content
	Packer       *Owner

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

// PackedUnder reports whether XNNPACK packs the entry's bytes under a seed of its key, as far as is known.
func (e *Entry) PackedUnder(seed uint32) bool {
	return e.Record.Seed == seed || slices.Contains(e.OtherSeeds, seed)
}

// Complete reports whether all records that an index has under the entry's key are in memory.
func (e *Entry) Complete(index *format.Index) bool { return e.complete == index }

// Package entries has the packed weights that a process knows of, by name and key, and where each lies. It does no I/O
// and has no lock: package writer guards it.
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
	Private State = iota // in memory of this process
	Written              // in the space of a file, and in no generation of it
	Durable              // in a generation of a file
	Dropped              // nowhere any more
)

// An Entry is one packed payload in memory.
type Entry struct {
	State  State
	Record format.Record // without digests until it is identified
	Data   []byte
	Region *store.Region // that has the data; the entry has a reference to it
	File   [16]byte      // identity of the file that it lies in, zero if it is private
	Reason string        // why it is private although the cache has a file, or ""

	Sessions   int      // that use it
	Withheld   error    // why no further session is given it, or nil
	OtherSeeds []uint32 // but the record's, under which this process packed its very bytes

	// Of an entry packed by this process, until it is identified: what it was packed from, and by whom.
	Kernel, Bias *Content
	Packer       any

	Changed  bool // the generation in force has other flags, stamps or digests of it
	Verified bool // its bytes were compared with a packing, or with its sum
	Sized    bool // it has the size that a look-up of its key was answered with
	Unlisted bool // it was packed here, into the file in place, and no generation has it

	complete *format.Index // all records of that index under its key are in memory
}

// Name returns what the entry is called in ExecuTorch's trailer: the kernel's name directly followed by the bias'.
func (e *Entry) Name() string { return e.Record.Kernel + e.Record.Bias }

// Usable reports whether a further session is given the entry: it is not withheld, and it is private or its file is the
// one in place.
func (e *Entry) Usable(inPlace [16]byte) bool {
	return e.Withheld == nil && e.State != Dropped && (e.State == Private || e.File == inPlace)
}

// Withhold has no further session given the entry. Those that use it keep it. The first reason stays, unless the new
// one is that its source changed.
func (e *Entry) Withhold(cause error) {
	if e.Withheld == nil || errors.Is(cause, ErrSourceChanged) {
		e.Withheld = cause
	}
}

// ErrSourceChanged: what an entry was packed from was changed meanwhile.
var ErrSourceChanged = errors.New("changed in place while it was packed; load the model again")

// Listed reports whether a generation of the file in place has the entry.
func (e *Entry) Listed(inPlace [16]byte) bool { return e.State == Durable && e.File == inPlace }

// Uncommitted reports whether the entry is in the space of a file, is in no generation, and is to be in one or used.
func (e *Entry) Uncommitted() bool {
	return e.State == Written && e.Unlisted && (e.Withheld == nil || e.Sessions > 0)
}

// Ready reports whether the entry can be committed: it was packed and is not withheld, and its record says all.
func (e *Entry) Ready() bool {
	return e.State == Written && e.Unlisted && e.Withheld == nil && e.Identified() && e.Summed()
}

// Summed reports whether the sum of the entry's bytes is known.
func (e *Entry) Summed() bool { return e.Record.Sum != (format.Digest{}) }

// Identified reports whether the entry says what it was packed from.
func (e *Entry) Identified() bool { return e.Kernel == nil }

// PackedUnder reports whether the entry's bytes are known to be what XNNPACK packs under a seed of its key.
func (e *Entry) PackedUnder(seed uint32) bool {
	return e.Record.Seed == seed || slices.Contains(e.OtherSeeds, seed)
}

// Complete reports whether all records that an index has under the entry's key are in memory.
func (e *Entry) Complete(index *format.Index) bool { return e.complete == index }

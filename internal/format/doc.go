// Package format is the packed weights cache file as bytes: it encodes, decodes and validates, and does no I/O.
//
// docs/format.md describes them, with a table of each structure. All integers are little-endian. A file is
//
//	header     4,096 bytes: what the file is, and two slots, one of which locates the index in force
//	payloads   packed weights, each 64-byte aligned, in no order, with dead bytes (old indexes, lost tails)
//	           between them
//	index      fixed-size records sorted by payload offset, a hash table and the names; used in place, without
//	           decoding, and with checksums for blocks of it, so that what is read of it can be checked without
//	           the rest
//	trailer    an index in ExecuTorch's form, which lists no payload: the very last bytes of the file
//
// A commit appends an index and a trailer and then writes one slot, always the one that is not in force. A reader takes
// the valid slot with the higher generation, so a crash at any instant leaves the old or the new index.
//
// Nothing is trusted: checksums, bounds, overlaps and integer overflow are checked before anything is returned, of
// the root of an [Index] when it is decoded, of the rest when it is read, or all at once by [Index.Check].
package format

import (
	"encoding/binary"

	"xpwc/internal/digest"
)

const (
	// HeaderSize is the size of the header block, in bytes. Payloads start after it.
	HeaderSize = 4096
	// Alignment of payloads and of the index, in bytes: XNNPACK's XNN_ALLOCATION_ALIGNMENT on every CPU that Go runs on
	// is this or less (common.h).
	Alignment = 64
	// Version of the file format. It changes when an older reader would misunderstand a newer file.
	Version = 4
)

// Digest is the hash of payloads, indexes and layouts in a file.
type Digest = digest.Digest

// Align rounds n up to the next multiple of Alignment. n must be at most 2^63.
func Align(n uint64) uint64 { return AlignUp(n, Alignment) }

// AlignUp rounds n, at most 2^63, up to the next multiple of alignment, a power of two.
func AlignUp(n, alignment uint64) uint64 { return (n + alignment - 1) &^ (alignment - 1) }

var le = binary.LittleEndian

// span reports whether [offset, offset+size) lies within [0, limit) without overflowing.
func span(offset, size, limit uint64) bool {
	return size <= limit && offset <= limit-size
}

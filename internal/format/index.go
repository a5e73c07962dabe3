package format

import (
	"github.com/zeebo/xxh3"

	"xpwc/packing"
)

// The index starts 128-byte aligned, as a root and a body; docs/format.md has the tables.
//
//	root    header, layouts, block sums, zeros up to a multiple of 128
//	body    records, table, strings, directly after each other
//
// The slot holds the root's digest, and the root a checksum of each block of the body, so that what is read of a large
// index can be checked as it is read, without reading the rest.
//
// Records are sorted by payload offset; two records may share one payload, or have disjoint ones. The table is a hash
// table with open addressing and linear probing; a slot is a record's number plus one, or zero. Its hash covers layout,
// fingerprint_id, packing identity and names but not the seed: XNNPACK's seed is not an identity (of batch matrix
// multiply it even differs between processes), so all records of one weight are found together, whatever their seeds.
const (
	indexMagic      = "xpwcidx\x03"
	indexHeaderSize = 128
	layoutSize      = 32
	recordSize      = 192
	sumSize         = 8
	blockSize       = 4 << 10
)

// Offsets in a record of what is read at several places.
const (
	atLayout        = 32
	atFingerprintID = 40
	atFlags         = 44
	atKernel        = 48 // offset and length of the name, as of the bias'
	atBias          = 56
	atPacking       = 64
)

// counts returns how many records, layouts, table slots and bytes of strings the header of an index says there are.
func counts(header []byte) (records, layouts, slots, strings uint64) {
	return le.Uint64(header[16:]), uint64(le.Uint32(header[24:])), le.Uint64(header[32:]), le.Uint64(header[40:])
}

// Flags of a record.
type Flags uint32

const (
	// HasBias: the payload has a (named) bias packed in.
	HasBias Flags = 1 << iota
	// Tied: one model looked this key up several times and packing gave the same bytes each time.
	Tied
	// Variant: there are several payloads under this key; only packing and comparing finds which one is meant.
	Variant

	knownFlags = HasBias | Tied | Variant
)

// A Key is what payloads are looked up by, but for the seed.
type Key struct {
	Layout        Digest
	FingerprintID uint32
	Packing       Digest // of the packing identity
	Kernel        string
	Bias          string
	HasBias       bool
}

// A Record describes one payload.
type Record struct {
	Key
	Seed   uint32
	Flags  Flags  // Tied and Variant; HasBias is taken from the key
	Offset uint64 // of the payload in the file
	Size   uint64
	Sum    Digest // of the payload

	Source       Digest // of where the kernel comes from; zero if unknown, as the next four
	KernelStamp  Digest
	KernelDigest Digest // of the kernel's content
	BiasStamp    Digest
	BiasDigest   Digest

	Family    packing.Family // of the packing identity; zero where none was given
	LeastSize uint64         // that the payload must have, as far as the packing identity says; 0 where none was given

	PackedAt int64 // seconds since 1970
	UsedAt   int64 // when a writer last found it in use, likewise
}

// A Layout is a way of packing. The fingerprint distinguishes it from any other; the description is for people.
type Layout struct {
	Fingerprint Digest
	Description string
}

func (k Key) hash() uint64 {
	b := make([]byte, 0, 256)
	b = append(b, k.Layout[:]...)
	b = append(b, k.Packing[:]...)
	b = le.AppendUint32(b, k.FingerprintID)
	b = le.AppendUint32(b, uint32(len(k.Kernel)))
	b = append(b, k.Kernel...)
	if k.HasBias {
		b = append(b, 1)
		b = append(b, k.Bias...)
	}
	return xxh3.Hash(b)
}

// sections says where the parts of an index begin, from its start. The layouts follow the header.
type sections struct {
	sums, body, table, strings, end uint64
}

func (s sections) blocks() uint64 { return blocksOf(s.end - s.body) }

func blocksOf(body uint64) uint64 { return (body + blockSize - 1) / blockSize }

// arrange places the sections of an index. All of its arguments together must be less than 2^62.
func arrange(layouts, records, slots, strings uint64) (s sections) {
	body := records*recordSize + slots*4 + strings
	s.sums = indexHeaderSize + layouts*layoutSize
	s.body = Align(s.sums + blocksOf(body)*sumSize)
	s.table = s.body + records*recordSize
	s.strings = s.table + slots*4
	s.end = s.body + body
	return s
}

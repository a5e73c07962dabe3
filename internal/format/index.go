package format

import (
	"github.com/zeebo/xxh3"

	"xpwc/packing"
)

// The index starts 128-byte aligned. It is a root and a body:
//
//	root    header, layouts, block sums, zeros up to a multiple of 128
//	body    records, table, strings, directly behind each other
//
// The slot holds the root's digest, and the root a checksum of each block of the body, so that what is read of a large
// index can be checked as it is read, without reading the rest. The header, 128 bytes:
//
//	offset size
//	0      8    magic
//	8      8    generation
//	16     8    number of records
//	24     4    number of layouts
//	28     4    record size (192)
//	32     8    number of table slots, a power of two, at least twice the records
//	40     8    size of the strings
//	48     8    block size (4096)
//	56     72   zero
//
// A layout, 32 bytes: its fingerprint (16), offset (4) and length (4) of its description in the strings, zero (8).
//
// A block sum, 8 bytes: XXH3-64 of 4,096 bytes of the body, the last of what is left.
//
// A record, 192 bytes:
//
//	0      8    payload: file offset
//	8      8    payload: size
//	16     16   payload: digest
//	32     4    layout, an index into the layouts
//	36     4    seed           \ of XNNPACK's look-up key
//	40     4    fingerprint_id /
//	44     4    flags
//	48     8    kernel's name: offset (4) and length (4) in the strings
//	56     8    bias' name, likewise
//	64     16   digest of the packing identity, zero where none was told
//	80     16   kernel: digest of its source
//	96     16   kernel: digest of its stamp, zero where it has none
//	112    16   kernel: digest of its content
//	128    16   bias: digest of its stamp
//	144    16   bias: digest of its content
//	160    8    when it was packed, seconds since 1970
//	168    8    when a writer last found it used, seconds since 1970
//	176    8    family of the packing, see packing.Family, zero where none was told
//	184    8    bytes that the payload has at least, 0 where nothing was told
//
// Records are sorted by payload offset; two records may share one payload, or have disjoint ones. The table is a hash
// table with open addressing and linear probing; a slot is a record's number plus one, or zero. Its hash covers layout,
// fingerprint_id, packing identity and names but not the seed: XNNPACK's seed is not an identity (of batch matrix multiply
// it even differs between processes), so all records of one weight are found together, whatever their seeds.
const (
	indexMagic      = "xpwcidx\x03"
	indexHeaderSize = 128
	layoutSize      = 32
	recordSize      = 192
	sumSize         = 8
	blockSize       = 4 << 10
)

// Flags of a record.
type Flags uint32

const (
	// HasBias: the payload has a (named) bias packed in.
	HasBias Flags = 1 << iota
	// Tied: one model looked this key up several times and packing gave the same bytes each time.
	Tied
	// Variant: there are several payloads under this key, so a look-up cannot tell which one is meant.
	Variant

	knownFlags = HasBias | Tied | Variant
)

// A Key is what payloads are looked up by, except for the seed.
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
	Flags  Flags // Tied and Variant; HasBias is taken from the key
	Offset uint64
	Size   uint64
	Sum    Digest

	Source       Digest
	KernelStamp  Digest
	KernelDigest Digest
	BiasStamp    Digest
	BiasDigest   Digest

	Family    packing.Family // of the packing identity; zero where none was told
	LeastSize uint64         // that the payload must have, as far as the packing identity says; 0 where none was told

	PackedAt int64
	UsedAt   int64
}

// A Layout is a way of packing, told by its fingerprint, with a description for people.
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

package format

import (
	"math"
	"strings"

	"github.com/zeebo/xxh3"

	"xpwc/internal/digest"
	"xpwc/xnnpack/packing"
)

// The index starts 64-byte aligned, as a root and a body; docs/format.md has the tables.
//
//	root    header, layouts, sources, block sums, zeros up to a multiple of 64
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
	indexMagic = "xpwcidx\x04"
	layoutSize = 32
	sourceSize = 16
	recordSize = 164
	sumSize    = 8
	blockSize  = 1 << 10
)

// IndexHeaderSize is the size of the header of an index, in bytes.
const IndexHeaderSize = 128

// atSourceNames is the offset in the header of an index of the place of the source names in the strings.
const atSourceNames = 60

// Offsets of fields in a record.
const (
	atSeed          = 32
	atFingerprintID = 36
	atLayout        = 40
	atFlags         = 42
	atSource        = 48
	atKernel        = 52 // offset and length of the name, as of the bias'
	atBias          = 60
	atPacking       = 68
	atKernelStamp   = 84
	atBiasStamp     = 116
)

// counts holds the number of layouts, sources, records, table slots and bytes of strings of an index.
type counts struct{ layouts, sources, records, slots, strings uint64 }

// countsOf reads the counts in the header of an index.
func countsOf(header []byte) counts {
	return counts{
		records: le.Uint64(header[16:]),
		layouts: uint64(le.Uint32(header[24:])),
		slots:   le.Uint64(header[32:]),
		strings: le.Uint64(header[40:]),
		sources: uint64(le.Uint32(header[56:])),
	}
}

// leastLimit is what names may take in any index.
const leastLimit = 64 << 20

// mostStrings is how many bytes of strings an index may have: a small file must not claim more than there is memory
// for, and records locate their strings with 32 bits.
func (n counts) mostStrings() uint64 {
	return min(math.MaxUint32, leastLimit+8*(n.records*recordSize+n.layouts*layoutSize))
}

// Flags of a record.
type Flags uint8

const (
	// HasBias: the payload has a (named) bias packed in.
	HasBias Flags = 1 << iota
	// Tied: one model looked this key up several times and packing gave the same bytes each time.
	Tied
	// Variant: there are several payloads under this key; only packing and comparing finds which one is meant.
	Variant

	knownFlags = HasBias | Tied | Variant
)

// A Key is the look-up key of a payload, without the seed.
type Key struct {
	Layout        Digest
	Packing       Digest // of the packing identity
	FingerprintID uint32
	HasBias       bool
	Kernel        string
	Bias          string
}

// A Record describes one payload.
type Record struct {
	Key
	Seed   uint32
	Flags  Flags          // Tied and Variant; HasBias is taken from the key
	Family packing.Family // of the packing identity; zero where none was given
	Offset uint64         // of the payload in the file
	Size   uint64
	Sum    Digest // of the payload

	Source     Digest // of where the kernel comes from; zero if unknown, as the next two
	Stamps     Hashes
	Digests    Hashes // of the contents
	SourceName string // of the source, for people to read; "" if unknown
	Copies     Copies // of the model's file; see AddCopy

	LeastSize uint64 // that the payload must have according to its packing identity; 0 without one

	PackedAt int64 // seconds since 1970
	UsedAt   int64 // when a writer last found it in use, likewise
}

// A Layout is a way of packing. The fingerprint distinguishes it from any other; the description is for people. The
// evidence, which need not be there, shows a process that it packs in this way without finding the fingerprint out.
type Layout struct {
	Fingerprint Digest
	Description string
	Evidence    string // bytes
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

// sections holds the offsets of the parts of an index from its start. The layouts follow the header.
type sections struct {
	sources, sums, body, table, strings, end uint64
}

func (s sections) blocks() uint64 { return blocksOf(s.end - s.body) }

func blocksOf(body uint64) uint64 { return (body + blockSize - 1) / blockSize }

// arrange places the sections of an index. All that it has together must be less than 2^62 bytes.
func (n counts) arrange() (s sections) {
	body := n.records*recordSize + n.slots*4 + n.strings
	s.sources = IndexHeaderSize + n.layouts*layoutSize
	s.sums = s.sources + n.sources*sourceSize
	s.body = Align(s.sums + blocksOf(body)*sumSize)
	s.table = s.body + n.records*recordSize
	s.strings = s.table + n.slots*4
	s.end = s.body + body
	return s
}

// arrangeIn is arrange for an index of size bytes. Counts that do not add up to size are damage.
func (n counts) arrangeIn(size uint64) (sections, error) {
	if n.records > size/recordSize || n.layouts > size/layoutSize || n.sources > size/sourceSize || n.strings > size {
		return sections{}, damaged("a section of the index lies outside it")
	}
	if n.slots != tableSlots(n.records) {
		return sections{}, damaged("the index has %d records in %d table slots", n.records, n.slots)
	}
	if n.strings > n.mostStrings() {
		return sections{}, damaged("%d records have %d bytes of names", n.records, n.strings)
	}
	offsets := n.arrange()
	if offsets.end != size {
		return sections{}, damaged("the index has %d bytes, its header says %d", size, offsets.end)
	}
	return offsets, nil
}

// Seal marks a record as one of a model with that digest, which stands for the content of all its tensors: a reader
// that gets the digest need not read them. Unlike the stamp of a file it is the same everywhere. The copies are the
// seals of programs, which are parts of the model, by their digests; a record that was sealed for the model keeps those
// it has.
func (r *Record) Seal(model Digest, programs ...Digest) {
	if sealed, ok := r.Sealed(); !ok || sealed != model {
		r.Copies = ""
	}
	r.Source, r.Stamps = model, r.seal(model)
	for _, program := range programs {
		if stamps := r.seal(program); !r.HasStamps(stamps) {
			r.Copies += stamps.encode()
		}
	}
}

// Sealed returns the digest that the record was sealed with, and false if it was not.
func (r *Record) Sealed() (model Digest, ok bool) {
	return r.Source, r.Source != Digest{} && r.seal(r.Source) == r.Stamps
}

// seal returns the stamps of a record that is sealed for a digest.
func (r *Record) seal(model Digest) Hashes {
	stamps := Hashes{Kernel: sealOf(model, r.Kernel)}
	if r.HasBias {
		stamps.Bias = sealOf(model, r.Bias)
	}
	return stamps
}

// sealOf is the stamp of a tensor of a model: that of a host which gives Identity the source "sealed", and the stamp
// of the model's digest, a space and the tensor's name.
func sealOf(model Digest, name string) Digest {
	return digest.OfStrings("sealed", model.String()+" "+name)
}

// Architecture returns the CPU's architecture, which is the beginning of a layout's description. It is the same in all
// descriptions of one layout.
func Architecture(description string) string {
	name, _, _ := strings.Cut(description, " ")
	return strings.TrimSuffix(name, ",")
}

package format

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/zeebo/xxh3"
)

// The index starts 128-byte aligned:
//
//	offset size
//	0      8    magic
//	8      8    generation
//	16     8    number of records
//	24     4    number of layouts
//	28     4    record size (192)
//	32     8    offset of the layouts  \
//	40     8    offset of the records   | relative to the index,
//	48     8    offset of the table     | each 8-byte aligned
//	56     8    offset of the strings  /
//	64     8    number of table slots, a power of two
//	72     8    size of the strings
//	80     48   zero
//
// A layout, 32 bytes: its fingerprint (16), offset (4) and length (4) of its description in the strings, zero (8).
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
//	64     16   digest of the quantisation parameters, zero where none were given
//	80     16   kernel: digest of its source
//	96     16   kernel: digest of its stamp, zero where it has none
//	112    16   kernel: digest of its content
//	128    16   bias: digest of its stamp
//	144    16   bias: digest of its content
//	160    8    when it was packed, seconds since 1970
//	168    8    when a writer last found it used, seconds since 1970
//	176    16   zero
//
// Records are sorted by payload offset; two records may share one payload, or have disjoint ones. The table is a hash
// table with open addressing and linear probing; a slot is a record's number plus one, or zero. Its hash covers layout,
// fingerprint_id, quantisation and names but not the seed: XNNPACK's seed is not an identity (of batch matrix multiply
// it even differs between processes), so all records of one weight are found together, whatever their seeds.
const (
	indexMagic      = "xpwcidx\x01"
	indexHeaderSize = 128
	layoutSize      = 32
	recordSize      = 192
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
	Quantization  Digest
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
	b = append(b, k.Quantization[:]...)
	b = le.AppendUint32(b, k.FingerprintID)
	b = le.AppendUint32(b, uint32(len(k.Kernel)))
	b = append(b, k.Kernel...)
	if k.HasBias {
		b = append(b, 1)
		b = append(b, k.Bias...)
	}
	return xxh3.Hash(b)
}

// EncodeIndex returns the index of the records, which it sorts by payload offset. Every record's layout must be among
// layouts. Names must add up to less than 4 GiB and there must be fewer than 2^31 records; it returns an error otherwise.
func EncodeIndex(generation uint64, layouts []Layout, records []Record) ([]byte, error) {
	slices.SortStableFunc(records, func(a, b Record) int { return cmp.Compare(a.Offset, b.Offset) })
	if len(records) >= 1<<31-1 {
		return nil, corrupt("%d records are too many", len(records))
	}

	var strings []byte
	interned := map[string]uint32{}
	intern := func(s string) (offset uint32, ok bool) {
		if at, found := interned[s]; found {
			return at, true
		}
		if uint64(len(strings))+uint64(len(s)) > math.MaxUint32 {
			return 0, false
		}
		at := uint32(len(strings))
		interned[s] = at
		strings = append(strings, s...)
		return at, true
	}

	slots := uint64(4)
	for slots < 2*uint64(len(records)) {
		slots *= 2
	}
	layoutsAt := uint64(indexHeaderSize)
	recordsAt := layoutsAt + layoutSize*uint64(len(layouts))
	tableAt := recordsAt + recordSize*uint64(len(records))
	stringsAt := tableAt + 4*slots

	b := make([]byte, stringsAt)
	copy(b, indexMagic)
	le.PutUint64(b[8:], generation)
	le.PutUint64(b[16:], uint64(len(records)))
	le.PutUint32(b[24:], uint32(len(layouts)))
	le.PutUint32(b[28:], recordSize)
	le.PutUint64(b[32:], layoutsAt)
	le.PutUint64(b[40:], recordsAt)
	le.PutUint64(b[48:], tableAt)
	le.PutUint64(b[56:], stringsAt)
	le.PutUint64(b[64:], slots)

	number := map[Digest]uint32{}
	for i, l := range layouts {
		row := b[layoutsAt+layoutSize*uint64(i):]
		at, ok := intern(l.Description)
		if !ok {
			return nil, corrupt("the names are longer than 4 GiB")
		}
		copy(row, l.Fingerprint[:])
		le.PutUint32(row[16:], at)
		le.PutUint32(row[20:], uint32(len(l.Description)))
		number[l.Fingerprint] = uint32(i)
	}
	for i, r := range records {
		layout, known := number[r.Layout]
		if !known {
			return nil, corrupt("record %d has an unlisted layout", i)
		}
		kernelAt, ok1 := intern(r.Kernel)
		biasAt, ok2 := intern(r.Bias)
		if !ok1 || !ok2 {
			return nil, corrupt("the names are longer than 4 GiB")
		}
		flags := r.Flags &^ HasBias
		if r.HasBias {
			flags |= HasBias
		}
		row := b[recordsAt+recordSize*uint64(i):]
		le.PutUint64(row[0:], r.Offset)
		le.PutUint64(row[8:], r.Size)
		copy(row[16:], r.Sum[:])
		le.PutUint32(row[32:], layout)
		le.PutUint32(row[36:], r.Seed)
		le.PutUint32(row[40:], r.FingerprintID)
		le.PutUint32(row[44:], uint32(flags))
		le.PutUint32(row[48:], kernelAt)
		le.PutUint32(row[52:], uint32(len(r.Kernel)))
		le.PutUint32(row[56:], biasAt)
		le.PutUint32(row[60:], uint32(len(r.Bias)))
		copy(row[64:], r.Quantization[:])
		copy(row[80:], r.Source[:])
		copy(row[96:], r.KernelStamp[:])
		copy(row[112:], r.KernelDigest[:])
		copy(row[128:], r.BiasStamp[:])
		copy(row[144:], r.BiasDigest[:])
		le.PutUint64(row[160:], uint64(r.PackedAt))
		le.PutUint64(row[168:], uint64(r.UsedAt))

		at := r.hash() & (slots - 1)
		for le.Uint32(b[tableAt+4*at:]) != 0 {
			at = (at + 1) & (slots - 1)
		}
		le.PutUint32(b[tableAt+4*at:], uint32(i)+1)
	}
	le.PutUint64(b[72:], uint64(len(strings)))
	return append(b, strings...), nil
}

// An Index reads an encoded index in place: it keeps the bytes it was given and copies only what it returns.
type Index struct {
	layouts []Layout
	records []byte
	table   []byte
	strings []byte
}

// DecodeIndex checks the bytes of the index that slot speaks of, and everything they say, against the slot: afterwards
// every payload lies within the file, overlaps neither another nor the index, and no accessor can fail.
func DecodeIndex(b []byte, slot Slot) (*Index, error) {
	if uint64(len(b)) != slot.IndexSize || len(b) < indexHeaderSize {
		return nil, corrupt("the index has %d bytes", len(b))
	}
	if Sum(b) != slot.IndexSum {
		return nil, corrupt("the index' checksum is wrong")
	}
	if string(b[:8]) != indexMagic || le.Uint32(b[28:]) != recordSize {
		return nil, corrupt("the index is of another kind")
	}
	if g := le.Uint64(b[8:]); g != slot.Generation {
		return nil, corrupt("the index is of generation %d, its slot of generation %d", g, slot.Generation)
	}
	size := uint64(len(b))
	section := func(at, count, each uint64) []byte {
		start := le.Uint64(b[at:])
		if count > size/each || !span(start, count*each, size) {
			return nil
		}
		return b[start : start+count*each : start+count*each]
	}
	n, slots := le.Uint64(b[16:]), le.Uint64(b[64:])
	layouts := section(32, uint64(le.Uint32(b[24:])), layoutSize)
	x := &Index{
		records: section(40, n, recordSize),
		table:   section(48, slots, 4),
		strings: section(56, le.Uint64(b[72:]), 1),
	}
	if layouts == nil || x.records == nil || x.table == nil || x.strings == nil {
		return nil, corrupt("a section of the index lies outside it")
	}
	if n != slot.Records || slots&(slots-1) != 0 || slots < n {
		return nil, corrupt("the index has %d records in %d table slots, its slot says %d", n, slots, slot.Records)
	}
	for i := range len(layouts) / layoutSize {
		row := layouts[i*layoutSize:]
		at, length := uint64(le.Uint32(row[16:])), uint64(le.Uint32(row[20:]))
		if !span(at, length, uint64(len(x.strings))) {
			return nil, corrupt("the description of layout %d lies outside the strings", i)
		}
		x.layouts = append(x.layouts, Layout{Digest(row[:16]), string(x.strings[at : at+length])})
	}
	if err := x.checkRecords(slot); err != nil {
		return nil, err
	}
	for at := 0; at < len(x.table); at += 4 {
		if uint64(le.Uint32(x.table[at:])) > n {
			return nil, corrupt("table slot %d speaks of an unknown record", at/4)
		}
	}
	return x, nil
}

func (x *Index) checkRecords(slot Slot) error {
	var previous struct{ offset, size, end uint64 }
	previous.end = HeaderSize
	indexEnd := slot.IndexOffset + slot.IndexSize
	total := uint64(0)
	for i := range x.Len() {
		row := x.row(i)
		offset, size := le.Uint64(row[0:]), le.Uint64(row[8:])
		if size == 0 || offset%Alignment != 0 || !span(offset, size, slot.End) {
			return corrupt("the payload of record %d lies outside the file", i)
		}
		shared := offset == previous.offset && size == previous.size
		if !shared && offset < previous.end {
			return corrupt("the payload of record %d overlaps what is before it", i)
		}
		if offset < indexEnd && slot.IndexOffset < offset+size {
			return corrupt("the payload of record %d overlaps the index", i)
		}
		if !shared {
			total += size
		}
		previous.offset, previous.size, previous.end = offset, size, offset+size
		if uint64(le.Uint32(row[32:])) >= uint64(len(x.layouts)) {
			return corrupt("record %d has an unknown layout", i)
		}
		if Flags(le.Uint32(row[44:]))&^knownFlags != 0 {
			return corrupt("record %d has unknown flags", i)
		}
		for _, at := range []int{48, 56} {
			if !span(uint64(le.Uint32(row[at:])), uint64(le.Uint32(row[at+4:])), uint64(len(x.strings))) {
				return corrupt("a name of record %d lies outside the strings", i)
			}
		}
	}
	if total != slot.PayloadBytes {
		return corrupt("the payloads have %d bytes, the slot says %d", total, slot.PayloadBytes)
	}
	return nil
}

func (x *Index) row(i int) []byte { return x.records[i*recordSize : (i+1)*recordSize] }

func (x *Index) text(row []byte, at int) []byte {
	start, length := le.Uint32(row[at:]), le.Uint32(row[at+4:])
	return x.strings[start:][:length]
}

// Len returns the number of records.
func (x *Index) Len() int { return len(x.records) / recordSize }

// Layouts returns the layouts that the file has packed weights of.
func (x *Index) Layouts() []Layout { return x.layouts }

// Record returns record i, which must be from 0 to Len()-1. Records are in the order of their payloads' offsets.
func (x *Index) Record(i int) Record {
	row := x.row(i)
	flags := Flags(le.Uint32(row[44:]))
	return Record{
		Key: Key{
			Layout:        x.layouts[le.Uint32(row[32:])].Fingerprint,
			FingerprintID: le.Uint32(row[40:]),
			Quantization:  Digest(row[64:80]),
			Kernel:        string(x.text(row, 48)),
			Bias:          string(x.text(row, 56)),
			HasBias:       flags&HasBias != 0,
		},
		Seed:         le.Uint32(row[36:]),
		Flags:        flags &^ HasBias,
		Offset:       le.Uint64(row[0:]),
		Size:         le.Uint64(row[8:]),
		Sum:          Digest(row[16:32]),
		Source:       Digest(row[80:96]),
		KernelStamp:  Digest(row[96:112]),
		KernelDigest: Digest(row[112:128]),
		BiasStamp:    Digest(row[128:144]),
		BiasDigest:   Digest(row[144:160]),
		PackedAt:     int64(le.Uint64(row[160:])),
		UsedAt:       int64(le.Uint64(row[168:])),
	}
}

// Find yields the numbers of all records with that key, without allocating.
func (x *Index) Find(key Key) iter.Seq[int] {
	return func(yield func(int) bool) {
		slots := uint64(len(x.table) / 4)
		if slots == 0 {
			return
		}
		at := key.hash() & (slots - 1)
		for range slots { // a damaged table without an empty slot ends the search too
			number := le.Uint32(x.table[4*at:])
			if number == 0 {
				return
			}
			if i := int(number - 1); x.matches(i, key) && !yield(i) {
				return
			}
			at = (at + 1) & (slots - 1)
		}
	}
}

func (x *Index) matches(i int, key Key) bool {
	row := x.row(i)
	return string(x.text(row, 48)) == key.Kernel &&
		string(x.text(row, 56)) == key.Bias &&
		(Flags(le.Uint32(row[44:]))&HasBias != 0) == key.HasBias &&
		x.layouts[le.Uint32(row[32:])].Fingerprint == key.Layout &&
		le.Uint32(row[40:]) == key.FingerprintID &&
		Digest(row[64:80]) == key.Quantization
}

package format

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"xpwc/internal/digest"
	"xpwc/xnnpack/packing"
)

// An Index reads an encoded index. It has the root in memory, and the pages of the body that were read last, 1 MiB at
// most. So an index of any size takes little memory, and what nobody looks at is not read. It may be used by several
// goroutines.
type Index struct {
	slot    Slot
	layouts []Layout
	sources []byte
	names   []string // of the sources, or nil

	copies   uint64 // where they begin in the body
	copyRows int

	sums    []byte
	offsets sections
	r       io.ReaderAt // of the file

	mu    sync.Mutex
	pages []page // that with a number is at the number modulo their length
}

// A page is a few blocks of the body.
type page struct {
	number uint64 // from 1, 0 while there is none
	sound  uint8  // a bit for each block that is known to have its checksum
	bytes  []byte
}

const (
	pageSize  = 4 * blockSize
	mostPages = 256
)

// LoadIndex reads and checks the root of the index that slot locates. The rest is checked when it is read: the
// accessors return an error that matches ErrDamaged for damage, and r's own error if a read fails. The payload of a
// record that they return without an error lies within the file and overlaps neither the index nor the payloads before
// and after it. The index can be used as long as r can be read.
func LoadIndex(r io.ReaderAt, slot Slot) (*Index, error) {
	x, root, err := readRoot(r, slot)
	if err != nil {
		return nil, err
	}
	if digest.Of(root) != slot.IndexSum {
		return nil, damaged("the checksum of the index' root is wrong")
	}
	return x, x.decodeRoot(root)
}

// LoadOldIndex is LoadIndex for an index that no slot refers to: that of a generation before the one in force. The sum
// of its root is not known, so that it may be anything that looks like an index, and this is for showing people what
// there was.
func LoadOldIndex(r io.ReaderAt, offset, size uint64) (*Index, error) {
	x, root, err := readRoot(r, Slot{IndexOffset: offset, IndexSize: size, End: offset + size})
	if err != nil {
		return nil, err
	}
	x.slot.Generation, x.slot.Records = le.Uint64(root[8:]), countsOf(root).records
	return x, x.decodeRoot(root)
}

// readRoot reads the root of an index.
func readRoot(r io.ReaderAt, slot Slot) (x *Index, root []byte, err error) {
	if slot.IndexSize < IndexHeaderSize {
		return nil, nil, damaged("the index has %d bytes", slot.IndexSize)
	}
	x = &Index{slot: slot, r: r}
	header := make([]byte, IndexHeaderSize)
	if err := x.fill(header, 0); err != nil {
		return nil, nil, err
	}
	if x.offsets, err = countsOf(header).arrangeIn(slot.IndexSize); err != nil {
		return nil, nil, err
	}
	root, err = readSolid(r, slot.IndexOffset, x.offsets.body)
	if err == nil && !bytes.Equal(root[:IndexHeaderSize], header) {
		err = damaged("the index changed while it was read")
	}
	return x, root, err
}

// decodeRoot decodes the root.
func (x *Index) decodeRoot(b []byte) error {
	n, slot := countsOf(b), x.slot
	if string(b[:8]) != indexMagic || le.Uint32(b[28:]) != recordSize || le.Uint64(b[48:]) != blockSize {
		return damaged("the index is of another kind")
	}
	if g := le.Uint64(b[8:]); g != slot.Generation {
		return damaged("the index is of generation %d, its slot of generation %d", g, slot.Generation)
	}
	if n.records != slot.Records {
		return damaged("the index has %d records, its slot says %d", n.records, slot.Records)
	}
	x.sources, x.sums = b[x.offsets.sources:x.offsets.sums], b[x.offsets.sums:]
	x.pages = make([]page, min((x.offsets.end-x.offsets.body+pageSize-1)/pageSize, mostPages))
	described := uint64(0)
	for i := range n.layouts {
		row := b[IndexHeaderSize+layoutSize*i:]
		for _, offset := range []int{16, 24} {
			if described += uint64(le.Uint32(row[offset+4:])); described > leastLimit+8*x.offsets.body {
				return damaged("the descriptions of %d layouts have %d bytes and more", n.layouts, described)
			}
		}
		description, err := x.text(row, 16)
		if err != nil {
			return err
		}
		evidence, err := x.text(row, 24)
		if err != nil {
			return err
		}
		x.layouts = append(x.layouts, Layout{Digest(row[:16]), description, evidence})
	}
	x.findCopies(b)
	return x.readSourceNames(b)
}

// fill reads a part of the index that begins so far from its start.
func (x *Index) fill(b []byte, offset uint64) error {
	if err := readFull(x.r, b, x.slot.IndexOffset+offset); err != nil {
		return fmt.Errorf("the index cannot be read at %d: %w", offset, err)
	}
	return nil
}

// read fills b with the bytes at an offset of the body.
func (x *Index) read(b []byte, offset uint64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(b) > 0 {
		p := &x.pages[offset/pageSize%uint64(len(x.pages))]
		if p.number != offset/pageSize+1 {
			if err := x.turnTo(p, offset/pageSize); err != nil {
				return err
			}
		}
		in := offset % pageSize
		if i := in / blockSize; p.sound>>i&1 == 0 {
			if xxh3.Hash(block(p.bytes, i)) != le.Uint64(x.sums[offset/blockSize*sumSize:]) {
				return damaged("the checksum of block %d of the index is wrong", offset/blockSize)
			}
			p.sound |= 1 << i
		}
		n := copy(b[:min(blockSize-in%blockSize, uint64(len(b)))], p.bytes[in:])
		b, offset = b[n:], offset+uint64(n)
	}
	return nil
}

// turnTo reads a page of the body.
func (x *Index) turnTo(p *page, number uint64) error {
	start := x.offsets.body + number*pageSize
	end := min(start+pageSize, x.offsets.end)
	p.number, p.sound = 0, 0
	p.bytes = slices.Grow(p.bytes[:0], pageSize)[:end-start]
	if err := x.fill(p.bytes, start); err != nil {
		return err
	}
	p.number = number + 1
	return nil
}

// row reads a record. It checks the record, and that it fits its neighbours.
func (x *Index) row(i int) (row row, err error) {
	row, err = x.rowAlone(i)
	if err != nil {
		return row, err
	}
	prev, err := x.rowAlone(max(i-1, 0))
	if err != nil {
		return row, err
	}
	next, err := x.rowAlone(min(i+1, x.Len()-1))
	if err != nil {
		return row, err
	}
	p := payloadOf(row[:])
	if !payloadOf(prev[:]).precedes(p) || !p.precedes(payloadOf(next[:])) {
		return row, damaged("the payload of record %d overlaps one beside it", i)
	}
	return row, x.checkRow(i, row[:])
}

// A row is a record's bytes.
type row [recordSize]byte

// rowAlone reads the bytes of a record without checking them.
func (x *Index) rowAlone(i int) (row row, err error) {
	return row, x.read(row[:], uint64(i)*recordSize)
}

// A payload is where a record's payload lies.
type payload struct{ offset, size uint64 }

func payloadOf(row []byte) payload { return payload{le.Uint64(row[0:]), le.Uint64(row[8:])} }

// precedes reports whether q may follow p: it lies after it, or is the very same payload.
func (p payload) precedes(q payload) bool {
	return p == q || q.offset >= p.offset && q.offset-p.offset >= p.size
}

// checkRow checks a record without its neighbours.
func (x *Index) checkRow(i int, row []byte) error {
	p := payloadOf(row)
	if p.size == 0 || p.offset < HeaderSize || p.offset%Alignment != 0 || !span(p.offset, p.size, x.slot.End) {
		return damaged("the payload of record %d lies outside the file", i)
	}
	if p.offset < x.slot.IndexOffset+x.slot.IndexSize && x.slot.IndexOffset < p.offset+p.size {
		return damaged("the payload of record %d overlaps the index", i)
	}
	if int(le.Uint16(row[atLayout:])) >= len(x.layouts) {
		return damaged("record %d has an unknown layout", i)
	}
	if uint64(le.Uint32(row[atSource:])) >= uint64(len(x.sources)/sourceSize) {
		return damaged("record %d has an unknown source", i)
	}
	if Flags(row[atFlags])&^knownFlags != 0 {
		return damaged("record %d has unknown flags", i)
	}
	for _, offset := range []int{atKernel, atBias} {
		if !span(uint64(le.Uint32(row[offset:])), uint64(le.Uint32(row[offset+4:])), x.stringsSize()) {
			return damaged("a name of record %d lies outside the strings", i)
		}
	}
	return nil
}

// stringsSize is how many bytes of strings there are.
func (x *Index) stringsSize() uint64 { return x.offsets.end - x.offsets.strings }

// text returns the string whose offset and length a row has at a place.
func (x *Index) text(row []byte, offset int) (string, error) {
	start, length := uint64(le.Uint32(row[offset:])), uint64(le.Uint32(row[offset+4:]))
	if !span(start, length, x.stringsSize()) {
		return "", damaged("a name lies outside the strings")
	}
	var room [128]byte
	b := room[:]
	if length > uint64(len(b)) {
		b = make([]byte, length)
	}
	err := x.read(b[:length], x.offsets.strings-x.offsets.body+start)
	return string(b[:length]), err
}

// NameBytes returns how many bytes the names of all records have together. It is an error if those are more than the
// names of an honest index: any number of records may have one long name in the index, so that a small file could
// describe more than there is memory for.
func (x *Index) NameBytes() (n uint64, err error) {
	limit := uint64(leastLimit)
	for i := range x.Len() {
		r, err := x.rowAlone(i)
		if err != nil {
			continue // and so does reading the record fail
		}
		if r == (row{}) {
			return n, damaged("there is a hole in place of record %d", i)
		}
		limit += 8 * recordSize
		for _, offset := range []int{atKernel, atBias} {
			if length := uint64(le.Uint32(r[offset+4:])); length <= x.stringsSize() { // else reading the record fails
				n += length
			}
		}
	}
	if n > limit {
		return n, damaged("the names of %d records add up to %d bytes", x.Len(), n)
	}
	return n, nil
}

// Len returns the number of records.
func (x *Index) Len() int { return int(x.slot.Records) }

// Generation returns the number of the generation that the index is of.
func (x *Index) Generation() uint64 { return x.slot.Generation }

// Layouts returns the layouts that the file has packed weights of.
func (x *Index) Layouts() []Layout { return x.layouts }

// RecordOffset returns where record i begins, from the start of the index.
func (x *Index) RecordOffset(i int) uint64 { return x.offsets.body + uint64(i)*recordSize }

// Record returns record i, which must be from 0 to Len()-1. Records are in the order of their payloads' offsets.
func (x *Index) Record(i int) (Record, error) {
	row, err := x.row(i)
	if err != nil {
		return Record{}, err
	}
	kernel, err := x.text(row[:], atKernel)
	if err != nil {
		return Record{}, err
	}
	bias, err := x.text(row[:], atBias)
	if err != nil {
		return Record{}, err
	}
	copies, err := x.copiesOf(i)
	if err != nil {
		return Record{}, err
	}
	return Record{
		Key: Key{
			Layout:        x.layouts[le.Uint16(row[atLayout:])].Fingerprint,
			FingerprintID: le.Uint32(row[atFingerprintID:]),
			Packing:       Digest(row[atPacking:][:16]),
			Kernel:        kernel,
			Bias:          bias,
			HasBias:       Flags(row[atFlags])&HasBias != 0,
		},
		Seed:       le.Uint32(row[atSeed:]),
		Flags:      Flags(row[atFlags]) &^ HasBias,
		Offset:     le.Uint64(row[0:]),
		Size:       le.Uint64(row[8:]),
		Sum:        Digest(row[16:32]),
		Source:     Digest(x.sources[sourceSize*uint64(le.Uint32(row[atSource:])):][:sourceSize]),
		SourceName: x.sourceName(le.Uint32(row[atSource:])),
		Stamps:     Hashes{Digest(row[atKernelStamp:][:16]), Digest(row[atBiasStamp:][:16])},
		Digests:    Hashes{Digest(row[100:116]), Digest(row[132:148])},
		Copies:     copies,
		PackedAt:   int64(le.Uint32(row[156:])),
		UsedAt:     int64(le.Uint32(row[160:])),
		Family:     packing.DecodeFamily([packing.FamilySize]byte(row[43:48])),
		LeastSize:  le.Uint64(row[148:]),
	}, nil
}

// Find yields all records with that key; their names are key's. An error is the last it yields.
func (x *Index) Find(key Key) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		slots, hash := x.slots(), key.hash()
		for n := range slots {
			number, err := x.listed((hash + n) & (slots - 1))
			if err == nil && number == 0 {
				return
			}
			var r Record
			var match bool
			if err == nil {
				r, match, err = x.having(&key, int(number-1))
			}
			if err != nil {
				yield(Record{}, err)
				return
			}
			if match && !yield(r, nil) {
				return
			}
		}
	}
}

// slots is how many slots the table has.
func (x *Index) slots() uint64 { return (x.offsets.strings - x.offsets.table) / 4 }

// listed returns what is in a slot of the table: the number of a record from 1, or 0.
func (x *Index) listed(slot uint64) (uint64, error) {
	var b [4]byte
	if err := x.read(b[:], x.offsets.table-x.offsets.body+4*slot); err != nil {
		return 0, err
	}
	number := uint64(le.Uint32(b[:]))
	if number > x.slot.Records {
		return 0, damaged("table slot %d has an unknown record", slot)
	}
	return number, nil
}

// having returns record i if it has a key. A name of another length is not read: it may be as long as all names are.
func (x *Index) having(key *Key, i int) (r Record, match bool, err error) {
	row, err := x.rowAlone(i)
	if err != nil || le.Uint32(row[atKernel+4:]) != uint32(len(key.Kernel)) ||
		le.Uint32(row[atBias+4:]) != uint32(len(key.Bias)) {
		return r, false, err
	}
	if r, err = x.Record(i); err != nil || r.Key != *key {
		return r, false, err
	}
	r.Key = *key // whose names are in memory already
	return r, true, nil
}

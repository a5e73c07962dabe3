package format

import (
	"iter"
	"sync/atomic"

	"xpwc/internal/digest"
	"xpwc/packing"
)

// An Index reads an encoded index in place: it keeps the bytes it was given and copies only what it returns. It may be
// used by several goroutines.
type Index struct {
	slot    Slot
	layouts []Layout
	sources []byte
	sums    []byte
	bodyAt  uint64 // from the start of the index
	body    []byte
	records []byte // as are the table and the strings, a part of the body
	table   []byte
	strings []byte

	checked []atomic.Uint64 // a bit for each block of the body that has its checksum
	whole   atomic.Bool     // Check found nothing wrong
}

// DecodeIndex checks the root of the index that slot says where to find. What follows is checked as it is read,
// unless Check was called before: the accessors return an error that matches ErrDamaged for what is damaged. What
// they return without one was stored in that place, and its payload lies within the file and overlaps neither the
// index nor the payloads before and after it.
func DecodeIndex(b []byte, slot Slot) (*Index, error) {
	size := uint64(len(b))
	if size != slot.IndexSize || size < IndexHeaderSize {
		return nil, damaged("the index has %d bytes", size)
	}
	n := countsOf(b)
	at, err := n.arrangeIn(size)
	if err != nil {
		return nil, err
	}
	if _, found := hole(b[:at.body]); found {
		return nil, damaged("there is a hole in the index' root")
	}
	if digest.Of(b[:at.body]) != slot.IndexSum {
		return nil, damaged("the checksum of the index' root is wrong")
	}
	if string(b[:8]) != indexMagic || le.Uint32(b[28:]) != recordSize || le.Uint64(b[48:]) != blockSize {
		return nil, damaged("the index is of another kind")
	}
	if g := le.Uint64(b[8:]); g != slot.Generation {
		return nil, damaged("the index is of generation %d, its slot of generation %d", g, slot.Generation)
	}
	if n.records != slot.Records {
		return nil, damaged("the index has %d records, its slot says %d", n.records, slot.Records)
	}
	x := &Index{
		slot:    slot,
		sources: b[at.sources:at.sums],
		sums:    b[at.sums:at.body],
		bodyAt:  at.body,
		body:    b[at.body:],
		records: b[at.body:at.table],
		table:   b[at.table:at.strings],
		strings: b[at.strings:],
		checked: make([]atomic.Uint64, (at.blocks()+63)/64),
	}
	described := uint64(0)
	for i := range n.layouts {
		row := b[IndexHeaderSize+layoutSize*i:]
		description, err := x.text(row, 16)
		if err != nil {
			return nil, err
		}
		evidence, err := x.text(row, 24)
		if err != nil {
			return nil, err
		}
		if described += uint64(len(description) + len(evidence)); described > x.NameLimit() {
			return nil, damaged("the descriptions of %d layouts add up to more than %d bytes", n.layouts, x.NameLimit())
		}
		x.layouts = append(x.layouts, Layout{Digest(row[:16]), string(description), string(evidence)})
	}
	return x, nil
}

// DecodeOldIndex is DecodeIndex for an index at a file offset that no slot refers to: that of a generation before the
// one in force. The sum of its root is not known, so that it may be anything that looks like an index, and this is for
// showing people what there was.
func DecodeOldIndex(b []byte, offset uint64) (*Index, error) {
	size := uint64(len(b))
	if size < IndexHeaderSize {
		return nil, damaged("the index has %d bytes", size)
	}
	n := countsOf(b)
	at, err := n.arrangeIn(size)
	if err != nil {
		return nil, err
	}
	return DecodeIndex(b, Slot{Generation: le.Uint64(b[8:]), IndexOffset: offset, IndexSize: size,
		IndexSum: digest.Of(b[:at.body]), End: offset + size, Records: n.records})
}

// row returns a record's bytes, after checking them and how they fit the records beside it. What the record says by
// itself is checked each time: the system may have dropped the page since, and read something else from a failing disk.
func (x *Index) row(i int) ([]byte, error) {
	row := x.records[i*recordSize:][:recordSize]
	whole := x.whole.Load()
	first, last := max(i-1, 0), min(i+1, x.Len()-1)
	if !whole {
		if err := x.touch(uint64(first)*recordSize, uint64(last+1)*recordSize); err != nil {
			return nil, err
		}
	}
	if err := x.checkRow(i, row); err != nil || whole {
		return row, err
	}
	p := payloadOf(row)
	if !payloadOf(x.records[first*recordSize:]).precedes(p) || !p.precedes(payloadOf(x.records[last*recordSize:])) {
		return nil, damaged("the payload of record %d overlaps one beside it", i)
	}
	return row, nil
}

// A payload is where a record's payload lies.
type payload struct{ offset, size uint64 }

func payloadOf(row []byte) payload { return payload{le.Uint64(row[0:]), le.Uint64(row[8:])} }

// precedes reports whether q may follow p: it lies after it, or is the very same payload.
func (p payload) precedes(q payload) bool {
	return p == q || q.offset >= p.offset && q.offset-p.offset >= p.size
}

// checkRow checks what a record says by itself.
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
	for _, at := range []int{atKernel, atBias} {
		if !span(uint64(le.Uint32(row[at:])), uint64(le.Uint32(row[at+4:])), uint64(len(x.strings))) {
			return damaged("a name of record %d lies outside the strings", i)
		}
	}
	return nil
}

// text returns the string whose offset and length a row has at a place.
func (x *Index) text(row []byte, at int) ([]byte, error) {
	start, length := uint64(le.Uint32(row[at:])), uint64(le.Uint32(row[at+4:]))
	if !span(start, length, uint64(len(x.strings))) {
		return nil, damaged("a name lies outside the strings")
	}
	if !x.whole.Load() {
		before := uint64(len(x.records) + len(x.table))
		if err := x.touch(before+start, before+start+length); err != nil {
			return nil, err
		}
	}
	return x.strings[start:][:length], nil
}

// NameBytes returns how many bytes the names of all records have together. Any number of records may have one long
// name in the index, so that a small file could describe more than there is memory for: who wants all records
// compares this with NameLimit first.
func (x *Index) NameBytes() (n uint64) {
	for i := range x.Len() {
		row := x.records[i*recordSize:][:recordSize]
		for _, at := range []int{atKernel, atBias} {
			length := uint64(le.Uint32(row[at+4:]))
			if length <= uint64(len(x.strings)) { // else reading the record fails
				n += length
			}
		}
	}
	return n
}

// NameLimit is more than the names of an honest index of this size have.
func (x *Index) NameLimit() uint64 { return leastLimit + 8*x.slot.IndexSize }

// Len returns the number of records.
func (x *Index) Len() int { return len(x.records) / recordSize }

// Layouts returns the layouts that the file has packed weights of.
func (x *Index) Layouts() []Layout { return x.layouts }

// RecordOffset returns where record i begins, from the start of the index.
func (x *Index) RecordOffset(i int) uint64 { return x.bodyAt + uint64(i)*recordSize }

// Record returns record i, which must be from 0 to Len()-1. Records are in the order of their payloads' offsets.
func (x *Index) Record(i int) (Record, error) {
	row, err := x.row(i)
	if err != nil {
		return Record{}, err
	}
	kernel, err := x.text(row, atKernel)
	if err != nil {
		return Record{}, err
	}
	bias, err := x.text(row, atBias)
	if err != nil {
		return Record{}, err
	}
	return x.record(row, Key{
		Layout:        x.layouts[le.Uint16(row[atLayout:])].Fingerprint,
		FingerprintID: le.Uint32(row[atFingerprintID:]),
		Packing:       Digest(row[atPacking : atPacking+16]),
		Kernel:        string(kernel),
		Bias:          string(bias),
		HasBias:       Flags(row[atFlags])&HasBias != 0,
	}), nil
}

func (x *Index) record(row []byte, key Key) Record {
	return Record{
		Key:          key,
		Seed:         le.Uint32(row[atSeed:]),
		Flags:        Flags(row[atFlags]) &^ HasBias,
		Offset:       le.Uint64(row[0:]),
		Size:         le.Uint64(row[8:]),
		Sum:          Digest(row[16:32]),
		Source:       Digest(x.sources[sourceSize*uint64(le.Uint32(row[atSource:])):][:sourceSize]),
		KernelStamp:  Digest(row[atKernelStamp:][:16]),
		KernelDigest: Digest(row[100:116]),
		BiasStamp:    Digest(row[atBiasStamp:][:16]),
		BiasDigest:   Digest(row[132:148]),
		PackedAt:     int64(le.Uint32(row[156:])),
		UsedAt:       int64(le.Uint32(row[160:])),
		Family:       packing.DecodeFamily([packing.FamilySize]byte(row[43:48])),
		LeastSize:    le.Uint64(row[148:]),
	}
}

// Find yields all records with that key, without allocating: their names are key's. An error is the last it yields.
//
// A record is checked before it is yielded, with what led to it. What has another key, and is only passed over, is
// checked if nothing is found: in a large index there is more of it than of what is found, and each block that is
// checked comes from memory first.
func (x *Index) Find(key Key) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		hash, found := key.hash(), false
		for from, more := uint64(0), true; more; from += slotsTogether {
			var room [slotsTogether]int
			listed, err := x.listed(hash, from, room[:0])
			if err != nil {
				yield(Record{}, err)
				return
			}
			more = len(listed) == slotsTogether
			for _, i := range x.having(&key, listed) {
				row, err := x.rowAndNames(i)
				if err != nil {
					yield(Record{}, err)
					return
				}
				if !yield(x.record(row, key), nil) {
					return
				}
				found = true
			}
		}
		if !found && !x.whole.Load() {
			if err := x.checkListed(hash); err != nil {
				yield(Record{}, err)
			}
		}
	}
}

// slotsTogether is how many slots of the table are looked at together, so that what they lead to is read from memory at
// the same time. Few searches look at more.
const slotsTogether = 8

// listed appends the records that the table has for a hash, among others, to rows: those of slotsTogether slots, fewer
// where the search ends, at an empty slot or after all.
func (x *Index) listed(hash, from uint64, rows []int) ([]int, error) {
	slots := uint64(len(x.table) / 4)
	for n := from; n < min(from+slotsTogether, slots); n++ {
		slot := (hash + n) & (slots - 1)
		if !x.whole.Load() {
			at := uint64(len(x.records)) + 4*slot
			if err := x.touch(at, at+4); err != nil {
				return nil, err
			}
		}
		number := le.Uint32(x.table[4*slot:])
		if number == 0 {
			break
		}
		if uint64(number) > x.slot.Records {
			return nil, damaged("table slot %d has an unknown record", slot)
		}
		rows = append(rows, int(number-1))
	}
	return rows, nil
}

// checkListed checks all records that the table has for a hash.
func (x *Index) checkListed(hash uint64) error {
	for from, more := uint64(0), true; more; from += slotsTogether {
		var room [slotsTogether]int
		listed, err := x.listed(hash, from, room[:0])
		if err != nil {
			return err
		}
		more = len(listed) == slotsTogether
		for _, i := range listed {
			if _, err := x.rowAndNames(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// having returns those records that have a key, in place of them. It goes by bytes that may not be checked yet.
func (x *Index) having(key *Key, rows []int) []int {
	alike := rows[:0]
	for _, i := range rows {
		row := x.records[i*recordSize:][:recordSize]
		layout := int(le.Uint16(row[atLayout:]))
		if le.Uint32(row[atKernel+4:]) == uint32(len(key.Kernel)) &&
			le.Uint32(row[atBias+4:]) == uint32(len(key.Bias)) &&
			(Flags(row[atFlags])&HasBias != 0) == key.HasBias &&
			layout < len(x.layouts) && x.layouts[layout].Fingerprint == key.Layout &&
			le.Uint32(row[atFingerprintID:]) == key.FingerprintID &&
			Digest(row[atPacking:atPacking+16]) == key.Packing {
			alike = append(alike, i)
		}
	}
	same := alike[:0]
	for _, i := range alike {
		row := x.records[i*recordSize:][:recordSize]
		if x.hasText(row, atKernel, key.Kernel) && x.hasText(row, atBias, key.Bias) {
			same = append(same, i)
		}
	}
	return same
}

// hasText reports whether the string whose offset and length a row has at a place is s, going by such bytes too.
func (x *Index) hasText(row []byte, at int, s string) bool {
	start, length := uint64(le.Uint32(row[at:])), uint64(le.Uint32(row[at+4:]))
	return span(start, length, uint64(len(x.strings))) && string(x.strings[start:][:length]) == s
}

// rowAndNames returns a record's bytes as row does, after checking its names too.
func (x *Index) rowAndNames(i int) ([]byte, error) {
	row, err := x.row(i)
	for _, at := range []int{atKernel, atBias} {
		if err == nil {
			_, err = x.text(row, at)
		}
	}
	return row, err
}

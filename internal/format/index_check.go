package format

import "iter"

// A Flaw is something wrong in an index.
type Flaw struct {
	Offset uint64 // from the start of the index
	Err    error  // matches ErrDamaged
}

// Check checks the whole index. Afterwards an accessor fails only if bytes that it reads again have changed or cannot
// be read; an index of less than 1 MiB is never read again.
func (x *Index) Check() error {
	for flaw := range x.Flaws() {
		return flaw.Err
	}
	return nil
}

// Flaws yields every error after the root: blocks with a wrong checksum, then invalid records and table slots in the
// other blocks. It yields nothing if and only if Check returns nil.
func (x *Index) Flaws() iter.Seq[Flaw] {
	return func(yield func(Flaw) bool) {
		sound := true
		for i := range x.offsets.blocks() {
			var first [1]byte
			if err := x.read(first[:], i*blockSize); err != nil {
				sound = false
				if !yield(Flaw{Offset: x.offsets.body + i*blockSize, Err: err}) {
					return
				}
			}
		}
		if x.recordFlaws(sound, yield) {
			x.tableFlaws(yield)
		}
	}
}

// recordFlaws yields what is wrong with records, of those in sound blocks if there are others. It returns false if no
// more is wanted.
func (x *Index) recordFlaws(complete bool, yield func(Flaw) bool) bool {
	prev, total := payload{}, uint64(0)
	for i := range x.Len() {
		row, err := x.rowAlone(i)
		if err != nil {
			complete = false
			continue
		}
		p := payloadOf(row[:])
		err = x.checkRow(i, row[:])
		if err == nil && !prev.precedes(p) {
			err = damaged("the payload of record %d overlaps what is before it", i)
		}
		if err != nil {
			complete = false
			if !yield(Flaw{Offset: x.RecordOffset(i), Err: err}) {
				return false
			}
			continue
		}
		if p != prev {
			total += p.size
		}
		prev = p
	}
	if complete && total != x.slot.PayloadBytes {
		err := damaged("the payloads have %d bytes, the slot says %d", total, x.slot.PayloadBytes)
		return yield(Flaw{Err: err})
	}
	return true
}

func (x *Index) tableFlaws(yield func(Flaw) bool) {
	for slot := range x.slots() {
		var b [4]byte
		if offset := x.offsets.table + 4*slot; x.read(b[:], offset-x.offsets.body) == nil {
			if _, err := x.listed(slot); err != nil && !yield(Flaw{Offset: offset, Err: err}) {
				return
			}
		}
	}
}

// LooksLikeIndex returns the size of the index whose first bytes are given, IndexHeaderSize of them or more: its header
// is not checked against anything, so this is for showing people what dead bytes were.
func LooksLikeIndex(b []byte) (size uint64, ok bool) {
	if len(b) < IndexHeaderSize || string(b[:8]) != indexMagic {
		return 0, false
	}
	const limit = 1 << 40
	n := countsOf(b)
	if n.records > limit || n.slots > limit || n.strings > limit {
		return 0, false
	}
	return n.arrange().end, true
}

// Lost returns the records, in order, that looking up their keys does not lead to. The index must be one that Check
// found nothing wrong with. It takes one look at each table slot, however many records have one key or collide.
func (x *Index) Lost() (lost []int) {
	slots := x.slots()
	number := func(slot uint64) uint64 {
		n, _ := x.listed(slot)
		return n
	}
	first, run := uint64(0), slots // a search goes through all slots if none is empty
	for slot := range slots {
		if number(slot) == 0 {
			first, run = slot, 0
			break
		}
	}
	reachable := make([]bool, x.Len())
	for i := range slots {
		slot := (first + i) & (slots - 1)
		n := number(slot)
		if n == 0 {
			run = 0
			continue
		}
		// A search begins at the key's own slot and ends at an empty one; run is how many that are not come
		// directly before this.
		if r, err := x.Record(int(n - 1)); err == nil && (slot-r.hash())&(slots-1) <= run {
			reachable[n-1] = true
		}
		run++
	}
	for i, ok := range reachable {
		if !ok {
			lost = append(lost, i)
		}
	}
	return lost
}

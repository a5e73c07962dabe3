package format

import "iter"

// A Flaw is something wrong in an index.
type Flaw struct {
	Offset uint64 // from the start of the index
	Err    error  // matches ErrDamaged
}

// Check checks all of the index, and what it says as a whole. Afterwards no accessor fails but for what is read again,
// and is different or cannot be read: of an index of less than 1 MiB nothing.
func (x *Index) Check() error {
	for flaw := range x.Flaws() {
		return flaw.Err
	}
	return nil
}

// Flaws yields all that is wrong after the root: blocks with a wrong checksum, then, of what lies in the others,
// records and table slots that cannot be. It yields nothing if and only if Check returns nil.
func (x *Index) Flaws() iter.Seq[Flaw] {
	return func(yield func(Flaw) bool) {
		sound := true
		for i := range x.at.blocks() {
			var first [1]byte
			if err := x.read(first[:], i*blockSize); err != nil {
				sound = false
				if !yield(Flaw{Offset: x.at.body + i*blockSize, Err: err}) {
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
func (x *Index) recordFlaws(all bool, yield func(Flaw) bool) bool {
	before, total := payload{}, uint64(0)
	for i := range x.Len() {
		row, err := x.rowAlone(i)
		if err != nil {
			all = false
			continue
		}
		p := payloadOf(row[:])
		err = x.checkRow(i, row[:])
		if err == nil && !before.precedes(p) {
			err = damaged("the payload of record %d overlaps what is before it", i)
		}
		if err != nil {
			all = false
			if !yield(Flaw{Offset: x.RecordOffset(i), Err: err}) {
				return false
			}
			continue
		}
		if p != before {
			total += p.size
		}
		before = p
	}
	if all && total != x.slot.PayloadBytes {
		err := damaged("the payloads have %d bytes, the slot says %d", total, x.slot.PayloadBytes)
		return yield(Flaw{Err: err})
	}
	return true
}

func (x *Index) tableFlaws(yield func(Flaw) bool) {
	for slot := range x.slots() {
		var b [4]byte
		if at := x.at.table + 4*slot; x.read(b[:], at-x.at.body) == nil {
			if _, err := x.listed(slot); err != nil && !yield(Flaw{Offset: at, Err: err}) {
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
	const most = 1 << 40
	n := countsOf(b)
	if n.records > most || n.slots > most || n.strings > most {
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
	first, before := uint64(0), slots // a search goes through all slots if none is empty
	for at := range slots {
		if number(at) == 0 {
			first, before = at, 0
			break
		}
	}
	found := make([]bool, x.Len())
	for i := range slots {
		at := (first + i) & (slots - 1)
		n := number(at)
		if n == 0 {
			before = 0
			continue
		}
		// A search begins at the key's own slot and ends at an empty one; before is how many that are not come
		// directly before this.
		if r, err := x.Record(int(n - 1)); err == nil && (at-r.hash())&(slots-1) <= before {
			found[n-1] = true
		}
		before++
	}
	for i, is := range found {
		if !is {
			lost = append(lost, i)
		}
	}
	return lost
}

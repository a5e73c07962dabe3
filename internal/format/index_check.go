package format

import (
	"iter"

	"github.com/zeebo/xxh3"
)

// A Flaw is something wrong in an index.
type Flaw struct {
	Offset uint64 // from the start of the index
	Record int    // the record that it is of, or -1
	Err    error  // matches ErrDamaged
}

// Check checks all of the index, and what it says as a whole. Afterwards no accessor fails, unless the bytes change.
func (x *Index) Check() error {
	if x.whole.Load() {
		return nil
	}
	for flaw := range x.Flaws() {
		return flaw.Err
	}
	x.whole.Store(true)
	return nil
}

// Flaws yields all that is wrong after the root: blocks with a wrong checksum, then, of what lies in the others,
// records and table slots that cannot be. It yields nothing if and only if Check returns nil.
func (x *Index) Flaws() iter.Seq[Flaw] {
	return func(yield func(Flaw) bool) {
		sound := true
		for i := range blocksOf(uint64(len(x.body))) {
			if err := x.touchBlock(i); err != nil {
				sound = false
				if !yield(Flaw{Offset: x.bodyAt + i*blockSize, Record: -1, Err: err}) {
					return
				}
			}
		}
		if x.recordFlaws(sound, yield) {
			x.tableFlaws(sound, yield)
		}
	}
}

// recordFlaws yields what is wrong with records, of those in sound blocks if there are others. It returns false if no
// more is wanted.
func (x *Index) recordFlaws(sound bool, yield func(Flaw) bool) bool {
	before, total, all := payload{}, uint64(0), sound
	for i := range x.Len() {
		at := uint64(i) * recordSize
		if !sound && x.touch(at, at+recordSize) != nil {
			continue
		}
		row := x.records[at:][:recordSize]
		p := payloadOf(row)
		err := x.checkRow(i, row)
		if err == nil && !before.precedes(p) {
			err = damaged("the payload of record %d overlaps what is before it", i)
		}
		if err != nil {
			all = false
			if !yield(Flaw{Offset: x.bodyAt + at, Record: i, Err: err}) {
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
		return yield(Flaw{Record: -1, Err: err})
	}
	return true
}

func (x *Index) tableFlaws(sound bool, yield func(Flaw) bool) {
	for at := uint64(0); at < uint64(len(x.table)); at += 4 {
		inBody := uint64(len(x.records)) + at
		if !sound && x.touch(inBody, inBody+4) != nil {
			continue
		}
		if uint64(le.Uint32(x.table[at:])) <= x.slot.Records {
			continue
		}
		err := damaged("table slot %d has an unknown record", at/4)
		if !yield(Flaw{Offset: x.bodyAt + inBody, Record: -1, Err: err}) {
			return
		}
	}
}

// touch checks the blocks of [from, to) of the body that were not checked before.
func (x *Index) touch(from, to uint64) error {
	if from >= to {
		return nil
	}
	for i := from / blockSize; i <= (to-1)/blockSize; i++ {
		if err := x.touchBlock(i); err != nil {
			return err
		}
	}
	return nil
}

func (x *Index) touchBlock(i uint64) error {
	word, bit := &x.checked[i/64], uint64(1)<<(i%64)
	if word.Load()&bit != 0 {
		return nil
	}
	if xxh3.Hash(block(x.body, i)) != le.Uint64(x.sums[sumSize*i:]) {
		return damaged("the checksum of block %d of the index is wrong", i)
	}
	word.Or(bit)
	return nil
}

// LooksLikeIndex returns the generation and the size of the index whose first bytes are given, IndexHeaderSize of them
// or more: its header is not checked against anything, so this is for showing people what dead bytes were.
func LooksLikeIndex(b []byte) (generation, size uint64, ok bool) {
	if len(b) < IndexHeaderSize || string(b[:8]) != indexMagic {
		return 0, 0, false
	}
	const most = 1 << 40
	n := countsOf(b)
	if n.records > most || n.slots > most || n.strings > most {
		return 0, 0, false
	}
	return le.Uint64(b[8:]), n.arrange().end, true
}

// Lost returns the records, in order, that looking up their keys does not lead to. The index must be one that Check
// found nothing wrong with. It takes one look at each table slot, however many records have one key or collide.
func (x *Index) Lost() (lost []int) {
	slots := uint64(len(x.table) / 4)
	number := func(slot uint64) uint64 { return uint64(le.Uint32(x.table[4*slot:])) }
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

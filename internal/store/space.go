package store

import (
	"errors"
	"fmt"

	"xpwc/internal/format"
)

// Space of the file: what is reserved in it, mapped, sealed, and given back.

// Space is preallocated and mapped in segments that double from the first size to the last, so that small models stay
// small and large ones do not pay a system call for each entry.
const (
	FirstSegment = 4 << 20
	LastSegment  = 64 << 20
)

// supplyStep is how much of a segment gets its pages at once, in a page of this size where the system can. Pages of 2
// MiB, as page faults make them, are slower: a virtual machine's host may have taken free memory back in pieces of that
// size, and returns it at 2 ms a MiB. The page that a file ends in is a small one: a segment that more may follow ends
// with a whole step.
const supplyStep = 256 << 10

// A listing is what an index lists: entries, and the bytes of their names and of the stamps of copies.
type listing struct{ records, names uint64 }

// Reserve returns n bytes of the file, mapped and with disk space for them, for an entry whose names have so many
// bytes. There is room for the index that lists it, too. ErrLongNames: an index has no place for such names.
func (st *Store) Reserve(n, names uint64) (Reservation, error) {
	listed := listing{st.listed.records + 1, st.listed.names + names}
	if !format.NamesFit(listed.records, listed.names) { // else nothing could be committed any more
		return Reservation{}, fmt.Errorf("cache %s: %d packed weights with %d bytes of names: %w",
			st.path, listed.records, listed.names, ErrLongNames)
	}
	start := format.AlignUp(st.tail, format.Alignment)
	if st.segment == nil || start+n > st.segment.end() {
		if err := st.grow(start, n); err != nil {
			return Reservation{}, err
		}
	}
	if err := st.makeRoom(start+n, listed); err != nil {
		return Reservation{}, err
	}
	if err := st.supply(start + n); err != nil {
		return Reservation{}, err
	}
	offset := start - st.segment.offset
	st.tail = start + n
	st.segment.open.Add(1)
	data := st.segment.data[offset : offset+n : offset+n]
	return Reservation{Region: st.segment.Retain(), Data: data, offset: start}, nil
}

// roomStep is how much room for the index is reserved at once, where the disk has it.
const roomStep = 64 << 10

// makeRoom reserves disk space for an index of so much after the payloads, which end at an offset.
func (st *Store) makeRoom(end uint64, l listing) error {
	if need := format.Align(end) + format.GenerationSize(l.records, l.names); need > st.backed {
		err := st.allocate(st.backed + format.AlignUp(need-st.backed, roomStep))
		if err != nil {
			err = st.allocate(need)
		}
		if err != nil {
			return err
		}
	}
	st.listed = l
	return nil
}

// allocate reserves disk space up to an offset. It skips allocated space, for which XFS wants as much free space again.
func (st *Store) allocate(end uint64) error {
	if end <= st.backed {
		return nil
	}
	st.grown = true
	if err := st.disk.Allocate(int64(st.backed), int64(end-st.backed)); err != nil {
		return err
	}
	st.backed = end
	return nil
}

// grow maps a new segment that has room for n bytes at file offset start. It begins with the page that start lies in,
// mapped a second time, so that payloads are packed densely across segments.
func (st *Store) grow(start, n uint64) error {
	granularity := st.disk.Granularity()
	offset := start &^ (granularity - 1)
	need := format.AlignUp(start+n-offset, granularity)
	st.growth = min(max(2*st.growth, FirstSegment), LastSegment)
	size := max(format.AlignUp(offset+need, supplyStep), (offset+st.growth)&^(supplyStep-1)) - offset
	err := st.allocate(offset + size)
	if err != nil && size > need { // a nearly full disk may still have room for this one
		st.growth, size = 0, need
		err = st.allocate(offset + size)
	}
	if err != nil {
		return err
	}
	m, err := st.disk.Map(int64(offset), int(size), true)
	if err != nil {
		return err
	}
	if err := st.retire(); err != nil {
		_ = m.Unmap()
		return err
	}
	st.segment = newRegion(m, offset, st.id)
	st.supplied = max(st.supplied, format.AlignUp(start, granularity))
	st.segments = append(st.segments, st.segment.Retain())
	return nil
}

// supply gives the segment its pages up to an offset. Nothing was reserved there, so no packed byte is overwritten.
func (st *Store) supply(end uint64) error {
	for st.supplied < end {
		next := min((st.supplied+supplyStep)&^(supplyStep-1), st.segment.end())
		if err := st.disk.Supply(int64(st.supplied), int64(next-st.supplied)); err != nil {
			return err
		}
		st.supplied = next
	}
	return nil
}

// retire ends reserving from the current segment. It gives the unused pages back: a page fault may have mapped them
// together with used ones.
func (st *Store) retire() error {
	if st.segment == nil {
		return nil
	}
	r := st.segment
	st.segment = nil
	r.used = min(format.AlignUp(st.tail-r.offset, st.disk.Granularity()), uint64(len(r.data)))
	var err error
	if r.used < uint64(len(r.data)) {
		err = r.mapped.Seal(int(r.used))
		r.mapped.GiveBack(int(r.used), len(r.data))
	}
	return errors.Join(err, r.Release())
}

// Filled records that a reservation gets no more writes. It is safe for concurrent use.
func Filled(r Reservation) { r.Region.open.Add(-1) }

// Cancel returns an unused reservation and releases its reference.
func (st *Store) Cancel(r Reservation) error {
	Filled(r)
	if st.segment == r.Region && r.offset+uint64(len(r.Data)) == st.tail {
		st.tail = r.offset
	}
	return r.Region.Release()
}

// seal makes the full segments read-only and drops them from the store. It returns all segments, with a reference to
// each. After an error the store still has all of them.
func (st *Store) seal() ([]*Region, error) {
	for _, r := range st.segments {
		if r.open.Load() > 0 {
			continue
		}
		if err := r.mapped.Seal(0); err != nil {
			return nil, err
		}
		r.sealed = true
	}
	regions := st.segments
	st.segments = nil
	for _, r := range regions {
		if !r.sealed {
			st.segments = append(st.segments, r.Retain())
		}
	}
	return regions, nil
}

package xpwc

import (
	"errors"
	"fmt"
	"slices"

	"xpwc/internal/format"
)

// A listing is what an index lists: entries, and the bytes of their names.
type listing struct{ records, names uint64 }

// reserve returns n bytes of the file, mapped and with disk space behind them, for an entry whose names have so many
// bytes. There is room for the index that lists it, too.
func (st *store) reserve(n, names uint64) (reservation, error) {
	if st.isCondemned() {
		return reservation{}, fmt.Errorf("cache %s: %w", st.path, errCondemned)
	}
	start := alignUp(st.tail, packedAlignment)
	if st.segment == nil || start+n > st.segment.end() {
		if err := st.grow(start, n); err != nil {
			return reservation{}, err
		}
	}
	if err := st.makeRoom(start+n, listing{st.listed.records + 1, st.listed.names + names}); err != nil {
		return reservation{}, err
	}
	at := start - st.segment.offset
	st.tail = start + n
	st.segment.used = int(at + n)
	st.segment.open++
	return reservation{region: st.segment.retain(), data: st.segment.data[at : at+n : at+n]}, nil
}

// roomStep is how much room for the index is reserved at once, where the disk has it.
const roomStep = 64 << 10

// makeRoom reserves disk space for an index of so much after the payloads, which end at an offset.
func (st *store) makeRoom(end uint64, l listing) error {
	if need := format.Align(end) + format.GenerationSize(l.records, l.names); need > st.backed {
		err := st.allocate(st.backed, alignUp(need-st.backed, roomStep))
		if err != nil {
			err = st.allocate(st.backed, need-st.backed)
		}
		if err != nil {
			return err
		}
	}
	st.listed = l
	return nil
}

func (st *store) allocate(offset, size uint64) error {
	st.grown = true
	if err := st.disk.Allocate(int64(offset), int64(size)); err != nil {
		return err
	}
	st.backed = max(st.backed, offset+size)
	return nil
}

// grow maps a new segment that has room for n bytes at file offset start. It begins with the page that start lies in,
// mapped a second time, so that payloads are packed densely across segments.
func (st *store) grow(start, n uint64) error {
	granularity := st.disk.Granularity()
	offset := start &^ (granularity - 1)
	need := alignUp(start+n-offset, granularity)
	st.growth = min(max(2*st.growth, firstSegment), lastSegment)
	size := max(need, st.growth)
	err := st.allocate(offset, size)
	if err != nil && size > need { // a nearly full disk may still have room for this one
		st.growth, size = 0, need
		err = st.allocate(offset, size)
	}
	if err != nil {
		return err
	}
	data, err := st.disk.Map(int64(offset), int(size), true)
	if err != nil {
		return err
	}
	if err := st.retire(); err != nil {
		_ = st.disk.Unmap(data)
		return err
	}
	st.segment = &region{data: data, offset: offset, file: st.id, unmap: st.disk.Unmap, refs: 1}
	st.writable = append(st.writable, st.segment.retain())
	return nil
}

// retire ends reserving from the current segment. What is left of it was mapped with what was used, page faults being
// generous, and is given back.
func (st *store) retire() error {
	if st.segment == nil {
		return nil
	}
	r := st.segment
	st.segment = nil
	var err error
	if used := alignUp(st.tail-r.offset, st.disk.Granularity()); used < uint64(len(r.data)) {
		err = st.disk.Seal(r.data[used:])
	}
	return errors.Join(err, r.release())
}

// write copies a payload to the end of the file, without mapping it, and returns its offset.
func (st *store) write(payload []byte) (offset uint64, err error) {
	offset = alignUp(st.tail, packedAlignment)
	if err := st.allocate(offset, uint64(len(payload))); err != nil {
		return 0, err
	}
	if _, err := st.disk.WriteAt(payload, int64(offset)); err != nil {
		return 0, fmt.Errorf("cache: %w", err)
	}
	st.tail = offset + uint64(len(payload))
	return offset, nil
}

// filled takes note that nothing will be written to a reservation any more.
func (st *store) filled(r reservation) { r.region.open-- }

// cancel gives up a reservation that nothing was packed into. Its reference is released too.
func (st *store) cancel(r reservation) error {
	st.filled(r)
	if start := r.offset(); st.segment == r.region && start+uint64(len(r.data)) == st.tail {
		st.tail = start
	}
	return r.region.release()
}

// A commit is a new generation on its way to the disk.
type commit struct {
	disk  disk
	id    [16]byte
	slot  format.Slot
	block []byte // index and trailer

	begun       bool // the slot may be on the disk
	flushFailed bool
}

// prepareCommit lays out a new generation with these records behind everything that is reserved. Space for it is
// allocated, and what was preallocated beyond it is given back, so that the trailer is the last of the file. What it
// covers becomes read-only in memory. The next reservation comes after it.
func (st *store) prepareCommit(layouts []format.Layout, records []format.Record, trailer []format.TrailerEntry) (*commit, error) {
	slot, block, err := format.EncodeGeneration(st.slot.Generation+1, st.tail, layouts, records, trailer)
	if err != nil {
		return nil, err
	}
	if err := st.allocate(slot.IndexOffset, uint64(len(block))); err != nil {
		return nil, err
	}
	if err := st.cut(slot.End); err != nil {
		return nil, err
	}
	st.tail, st.growth = slot.End, 0
	if err := errors.Join(st.retire(), st.seal()); err != nil {
		return nil, fmt.Errorf("cache %s: %w", st.path, err)
	}
	return &commit{disk: st.disk, id: st.id, slot: slot, block: block}, nil
}

// write brings the commit to the disk in the order that leaves the old or the new generation in force at every instant:
// payloads, index, slot, each flushed before the next. It may run while the store is used.
func (c *commit) write() error {
	if err := c.flush(); err != nil {
		return err
	}
	if _, err := c.disk.WriteAt(c.block, int64(c.slot.IndexOffset)); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	if err := c.flush(); err != nil {
		return err
	}
	slot, at := c.slot.Encode(c.id)
	c.begun = true
	if _, err := c.disk.WriteAt(slot, at); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	return c.flush()
}

func (c *commit) flush() error {
	err := c.disk.Flush()
	c.flushFailed = err != nil
	return err
}

// failed takes note of a commit that was not written. If its slot may have been, what it refers to must not be cut
// off. No other generation follows one of which nobody knows whether it is in force, or what of it is on the disk.
func (st *store) failed(c *commit) {
	if c.begun {
		st.maybe = c.slot
	}
	if !c.begun && !c.flushFailed {
		return
	}
	st.condemn()
	for _, r := range st.writable {
		r.doubtful = r.open > 0
	}
	_ = st.leaveSegment(st.segment) // which is writable still
}

// committed takes note of a commit that was written.
func (st *store) committed(c *commit) {
	st.slot, st.maybe, st.mustStay = c.slot, format.Slot{}, false
	st.grown = st.tail > c.slot.End
}

// seal makes read-only what nothing will be packed into any more. It must come before the flush: see makeReadOnly.
func (st *store) seal() error {
	var errs []error
	still := st.writable[:0]
	for _, r := range st.writable {
		if r.open > 0 {
			still = append(still, r)
			continue
		}
		errs = append(errs, st.disk.Seal(r.data))
		r.sealed = true
		errs = append(errs, r.release())
	}
	clear(st.writable[len(still):])
	st.writable = still
	return errors.Join(errs...)
}

// detach moves a region, nothing of which is open, out of the file into private memory at the same addresses.
func (st *store) detach(r *region) error {
	if r.detached {
		return nil
	}
	switch err := st.disk.Detach(r.data[:r.used]); {
	case errors.Is(err, errors.ErrUnsupported): // nothing is lost, but the file must stay as it is
		st.mustStay = true
	case err != nil:
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	r.detached = true
	is := func(other *region) bool { return other == r }
	if slices.ContainsFunc(st.writable, is) {
		st.writable = slices.DeleteFunc(st.writable, is)
		_ = r.release() // entries have it
	}
	return st.leaveSegment(r)
}

// leaveSegment ends reserving from a segment, if it is the current one.
func (st *store) leaveSegment(r *region) error {
	if st.segment != r || r == nil {
		return nil
	}
	st.segment = nil
	return r.release()
}

// discardTail gives up what was reserved from an offset on, which nobody uses in the file any more.
func (st *store) discardTail(offset uint64) error {
	st.tail = offset
	return st.cut(offset)
}

// packing reports whether something that was reserved is yet to be handed in.
func (st *store) packing() bool {
	return slices.ContainsFunc(st.writable, func(r *region) bool { return r.open > 0 })
}

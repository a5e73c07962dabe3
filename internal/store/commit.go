package store

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"xpwc/internal/format"
)

// A listing is what an index lists: entries, and the bytes of their names.
type listing struct{ records, names uint64 }

// Reserve returns n bytes of the file, mapped and with disk space behind them, for an entry whose names have so many
// bytes. There is room for the index that lists it, too.
func (st *Store) Reserve(n, names uint64) (Reservation, error) {
	if st.Condemned() {
		return Reservation{}, fmt.Errorf("cache %s: %w", st.path, ErrCondemned)
	}
	start := format.AlignUp(st.tail, format.Alignment)
	if st.segment == nil || start+n > st.segment.end() {
		if err := st.grow(start, n); err != nil {
			return Reservation{}, err
		}
	}
	if err := st.makeRoom(start+n, listing{st.listed.records + 1, st.listed.names + names}); err != nil {
		return Reservation{}, err
	}
	at := start - st.segment.offset
	st.tail = start + n
	st.segment.used = int(at + n)
	st.segment.open++
	return Reservation{Region: st.segment.Retain(), Data: st.segment.data[at : at+n : at+n], offset: start}, nil
}

// roomStep is how much room for the index is reserved at once, where the disk has it.
const roomStep = 64 << 10

// makeRoom reserves disk space for an index of so much after the payloads, which end at an offset.
func (st *Store) makeRoom(end uint64, l listing) error {
	if need := format.Align(end) + format.GenerationSize(l.records, l.names); need > st.backed {
		err := st.allocate(st.backed, format.AlignUp(need-st.backed, roomStep))
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

func (st *Store) allocate(offset, size uint64) error {
	st.grown = true
	if err := st.disk.Allocate(int64(offset), int64(size)); err != nil {
		return err
	}
	st.backed = max(st.backed, offset+size)
	return nil
}

// grow maps a new segment that has room for n bytes at file offset start. It begins with the page that start lies in,
// mapped a second time, so that payloads are packed densely across segments.
func (st *Store) grow(start, n uint64) error {
	granularity := st.disk.Granularity()
	offset := start &^ (granularity - 1)
	need := format.AlignUp(start+n-offset, granularity)
	st.growth = min(max(2*st.growth, FirstSegment), LastSegment)
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
	st.segment = &Region{data: data, offset: offset, file: st.id, unmap: st.disk.Unmap, refs: 1}
	st.segments = append(st.segments, st.segment.Retain())
	return nil
}

// retire ends reserving from the current segment. What is left of it was mapped with what was used, page faults being
// generous, and is given back.
func (st *Store) retire() error {
	if st.segment == nil {
		return nil
	}
	r := st.segment
	st.segment = nil
	var err error
	if used := format.AlignUp(st.tail-r.offset, st.disk.Granularity()); used < uint64(len(r.data)) {
		err = st.disk.Seal(r.data[used:])
	}
	return errors.Join(err, r.Release())
}

// Append copies a payload to the end of the file, without mapping it, and returns its offset.
func (st *Store) Append(payload []byte) (offset uint64, err error) {
	offset = format.AlignUp(st.tail, format.Alignment)
	if err := st.allocate(offset, uint64(len(payload))); err != nil {
		return 0, err
	}
	if _, err := st.disk.WriteAt(payload, int64(offset)); err != nil {
		return 0, fmt.Errorf("cache: %w", err)
	}
	st.tail = offset + uint64(len(payload))
	return offset, nil
}

// Filled takes note that nothing will be written to a reservation any more.
func (st *Store) Filled(r Reservation) { r.Region.open-- }

// Cancel gives up a reservation that nothing was packed into. Its reference is released too.
func (st *Store) Cancel(r Reservation) error {
	st.Filled(r)
	if st.segment == r.Region && r.offset+uint64(len(r.Data)) == st.tail {
		st.tail = r.offset
	}
	return r.Region.Release()
}

// A Commit is a new generation on its way to the disk.
type Commit struct {
	disk  Disk
	id    [16]byte
	slot  format.Slot
	block []byte // index and trailer

	begun       bool // the slot may be on the disk
	flushFailed bool
}

// Generation returns the number of the generation that the commit makes.
func (c *Commit) Generation() uint64 { return c.slot.Generation }

// IndexSize returns how many bytes the index and the trailer of the commit have.
func (c *Commit) IndexSize() int { return len(c.block) }

// PrepareCommit lays out a new generation with these records behind everything that is reserved. Space for it is
// allocated, and what was preallocated beyond it is given back, so that the trailer is the last of the file. What it
// covers becomes read-only in memory. The next reservation comes after it.
func (st *Store) PrepareCommit(layouts []format.Layout, records []format.Record, trailer []format.TrailerEntry) (
	*Commit, error) {
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
	return &Commit{disk: st.disk, id: st.id, slot: slot, block: block}, nil
}

// Append brings the commit to the disk in the order that leaves the old or the new generation in force at every
// instant: payloads, index, slot, each flushed before the next. It may run while the store is used.
func (c *Commit) Write() error {
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

func (c *Commit) flush() error {
	err := c.disk.Flush()
	c.flushFailed = err != nil
	return err
}

// Conclude takes note of what became of a commit: of the error that Write returned, or that it is written. A commit
// that is written takes the place of a foreign file. inForce reports whether it is in force at the path: then an error
// is only that it could not be found out whether another file is there now. ErrReplaced: there is one.
func (st *Store) Conclude(c *Commit, written error) (inForce bool, err error) {
	if written != nil {
		st.failed(c)
		return false, written
	}
	st.slot, st.unsure, st.held = c.slot, format.Slot{}, false
	st.grown = st.tail > c.slot.End
	replaced, err := st.disk.Replaced()
	switch {
	case replaced:
		return false, fmt.Errorf("cache %s: %w", st.path, ErrReplaced)
	case st.beside == "":
		return true, err
	case err == nil:
		err = st.takePlace()
	}
	return st.beside == "", err
}

// failed takes note of a commit that was not written. If its slot may have been, what it refers to must not be cut
// off. No other generation follows one of which nobody knows whether it is in force, or what of it is on the disk.
func (st *Store) failed(c *Commit) {
	if c.begun {
		st.unsure = c.slot
	}
	if !c.begun && !c.flushFailed {
		return
	}
	st.condemn()
	for _, r := range st.segments {
		r.doubtful = r.open > 0
	}
	_ = st.leaveSegment(st.segment) // which is writable still
}

// seal makes read-only what nothing will be packed into any more. It must come before the flush: see makeReadOnly.
func (st *Store) seal() error {
	var errs []error
	still := st.segments[:0]
	for _, r := range st.segments {
		if r.open > 0 {
			still = append(still, r)
			continue
		}
		errs = append(errs, st.disk.Seal(r.data))
		r.sealed = true
		errs = append(errs, r.Release())
	}
	clear(st.segments[len(still):])
	st.segments = still
	return errors.Join(errs...)
}

// Detach moves a region, nothing of which is open, out of the file into private memory at the same addresses.
func (st *Store) Detach(r *Region) error {
	if r.detached {
		return nil
	}
	switch err := st.disk.Detach(r.data[:r.used]); {
	case errors.Is(err, errors.ErrUnsupported): // nothing is lost, but the file must stay as it is
		st.held = true
	case err != nil:
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	r.detached = true
	is := func(other *Region) bool { return other == r }
	if slices.ContainsFunc(st.segments, is) {
		st.segments = slices.DeleteFunc(st.segments, is)
		_ = r.Release() // entries have it
	}
	return st.leaveSegment(r)
}

// leaveSegment ends reserving from a segment, if it is the current one.
func (st *Store) leaveSegment(r *Region) error {
	if st.segment != r || r == nil {
		return nil
	}
	st.segment = nil
	return r.Release()
}

// DiscardTail gives up what was reserved from an offset on, which nobody uses in the file any more. It fails where what
// was detached is still the file's.
func (st *Store) DiscardTail(offset uint64) error {
	if st.held {
		return fmt.Errorf("cache %s: no memory for what lies after %d: %w", st.path, offset, syscall.ENOMEM)
	}
	st.tail = offset
	return st.cut(offset)
}

// Packing reports whether something that was reserved is yet to be handed in.
func (st *Store) Packing() bool {
	return slices.ContainsFunc(st.segments, func(r *Region) bool { return r.open > 0 })
}

package store

import (
	"errors"
	"fmt"

	"xpwc/internal/format"
)

// A Commit is a new generation on its way to the disk.
type Commit struct {
	disk  File
	id    [16]byte
	slot  format.Slot
	block []byte // index and trailer

	sealed []*Region // whose pages are given back before they are written; it has a reference to each
}

// Generation returns the number of the generation that the commit makes.
func (c *Commit) Generation() uint64 { return c.slot.Generation }

// IndexSize returns how many bytes the index and the trailer of the commit have.
func (c *Commit) IndexSize() int { return len(c.block) }

// PrepareCommit lays out a new generation with these records after everything that is reserved. Space for it is
// allocated, and what was preallocated beyond it is given back, so that the trailer is the last of the file. What it
// covers becomes read-only in memory. The next reservation comes after it.
func (st *Store) PrepareCommit(layouts []format.Layout, records []format.Record) (*Commit, error) {
	slot, block, err := format.EncodeGeneration(st.slot.Generation+1, st.tail, layouts, records)
	if err != nil {
		return nil, err
	}
	if err := st.allocate(slot.IndexOffset + uint64(len(block))); err != nil {
		return nil, err
	}
	if err := st.cut(slot.End); err != nil {
		return nil, err
	}
	st.tail, st.growth = slot.End, 0
	c := &Commit{disk: st.disk.File, id: st.id, slot: slot, block: block}
	retired := st.retire()
	c.sealed, err = st.seal()
	if err := errors.Join(retired, err); err != nil {
		return nil, errors.Join(fmt.Errorf("cache %s: %w", st.path, err), c.release())
	}
	return c, nil
}

func (c *Commit) release() (err error) {
	for _, r := range c.sealed {
		err = errors.Join(err, r.Release())
	}
	return err
}

// Write brings the commit to the disk in the order that leaves the old or the new generation in force at every
// instant: payloads, index, slot, each flushed before the next. It may run while the store is used.
func (c *Commit) Write() error {
	// Otherwise the system takes the mark that a page was written from each page-table entry by itself, when it writes
	// the page to the disk, and interrupts every processor that runs this process each time.
	for _, r := range c.sealed {
		r.mapped.GiveBack(0, len(r.data))
	}
	if err := c.disk.Flush(); err != nil {
		return err
	}
	if _, err := c.disk.WriteAt(c.block, int64(c.slot.IndexOffset)); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	if err := c.disk.Flush(); err != nil {
		return err
	}
	slot, offset := c.slot.Encode(c.id)
	if _, err := c.disk.WriteAt(slot, offset); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	return c.disk.Flush()
}

// Lose takes note that the disk may have lost what is being packed.
func (st *Store) Lose() {
	for _, r := range st.segments {
		r.lost.Store(true)
	}
}

// Conclude takes note of what became of a commit: that it is written, or of the error that Write returned, after which
// the file is to be ended. inForce reports whether it is in force at the path: then an error is only that it could not
// be found out whether another file is there now. ErrReplaced: there is one.
func (st *Store) Conclude(c *Commit, written error) (inForce bool, err error) {
	defer func() { err = errors.Join(err, c.release()) }()
	if written != nil {
		st.Lose()
		return false, written
	}
	st.slot = c.slot
	st.grown = st.backed > c.slot.End
	replaced, err := st.disk.Replaced()
	if replaced {
		return false, fmt.Errorf("cache %s: %w", st.path, ErrReplaced)
	}
	return true, err
}

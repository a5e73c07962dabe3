package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"xpwc/internal/format"
)

// A Commit writes a new generation to the disk.
type Commit struct {
	disk  File
	id    [16]byte
	slot  format.Slot
	block []byte // index and trailer

	regions []*Region // with its payloads; the commit holds a reference to each

	settle  func() error // flushes the file's name, unless it was
	nameErr error        // of settle
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
	st.tail, st.growth, st.supplied = slot.End, 0, 0
	if err := st.retire(); err != nil {
		return nil, fmt.Errorf("cache %s: %w", st.path, err)
	}
	regions, err := st.seal()
	if err != nil {
		return nil, fmt.Errorf("cache %s: %w", st.path, err)
	}
	c := &Commit{disk: st.disk.File, id: st.id, slot: slot, block: block, regions: regions}
	if !st.settled {
		c.settle = func() error { return st.files.SyncDir(st.path) }
	}
	return c, nil
}

func (c *Commit) release() (err error) {
	for _, r := range c.regions {
		err = errors.Join(err, r.Release())
	}
	return err
}

// Write brings the commit to the disk in an order that keeps the old or the new generation in force at every moment:
// it msyncs the regions of the payloads, then writes and flushes the index, then the slot. The first flush of a new
// file flushes its header, too. It may run while the store is used.
func (c *Commit) Write() error {
	if err := c.sync(); err != nil {
		return fmt.Errorf("cache: %w", err)
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
	if err := c.disk.Flush(); err != nil {
		return err
	}
	if c.settle != nil {
		c.nameErr = c.settle()
	}
	return nil
}

// syncedTogether is the number of regions that are synced at the same time. A journal then commits once for all of
// them, and few threads wait for the disk.
const syncedTogether = 8

// sync writes the payloads to the disk.
func (c *Commit) sync() error {
	for regions := range slices.Chunk(c.regions, syncedTogether) {
		errs := make([]error, len(regions))
		var group sync.WaitGroup
		for i, r := range regions {
			group.Go(func() { errs[i] = r.sync() })
		}
		group.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// Lose marks the regions that are being packed into: the disk may have lost their bytes.
func (st *Store) Lose() {
	for _, r := range st.segments {
		r.lost.Store(true)
	}
}

// Conclude records the result of Write. After an error of Write the caller must end the file. inForce reports whether
// the generation is in force at the path; an error then means that the path could not be checked, or that its directory
// could not be flushed: a power failure may remove the file. ErrReplaced: another file is at the path.
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
	st.settled = c.nameErr == nil
	return true, errors.Join(err, c.nameErr)
}

package xpwc

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"xpwc/internal/format"
)

// Compact rewrites the file without its dead bytes, and without payloads whose checksum is wrong. The new file takes
// the old one's place by a rename: other processes keep what they have mapped, and find the new file with their next
// session. It waits for sessions of this process that are packing, and for another process that is, up to
// Options.WriterWait; ErrBusy after that. The cache does it by itself when a quarter of the file is dead.
func (c *Cache) Compact() error {
	if err := c.checkOpen("compact"); err != nil {
		return err
	}
	return c.compactTo(c.withinCap)
}

// compactTo compacts the file to those of its records that keep returns.
func (c *core) compactTo(keep func([]format.Record) []format.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	patience := c.options.WriterWait
	deadline := time.Now().Add(patience)
	defer time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.idle.Broadcast()
	}).Stop()
	for !c.closing && (c.committing || c.compacting || c.writers > 0 && time.Now().Before(deadline)) {
		c.idle.Wait()
	}
	switch {
	case c.writers > 0 && !c.closing:
		return fmt.Errorf("compact cache %s: a session is still packing: %w", c.name(), ErrBusy)
	case c.closing:
		return fmt.Errorf("cache %s: %w", c.name(), ErrClosed)
	case c.store == nil:
		return nil
	}
	// From here on no session of this process becomes a writer, no commit starts, and Close waits.
	c.compacting = true
	defer func() {
		c.note(c.endIfIdle())
		c.compacting = false
		if c.again {
			c.startCommit()
		}
		c.idle.Broadcast()
	}()
	if c.store.isCondemned() {
		if err := c.beginRenewal(); err != nil {
			return fmt.Errorf("compact: %w", err)
		}
		return c.compact(keep)
	}
	switch reason := c.beginWriting(true); reason {
	case "":
	case ReasonBusy:
		return fmt.Errorf("compact cache %s: %w", c.name(), ErrBusy)
	default:
		return fmt.Errorf("compact cache %s: not written to (%s): %w", c.name(), reason, cmp.Or(c.stats.LastError, ErrReadOnly))
	}
	if err := c.commitOnce(); err != nil {
		return err
	}
	if c.hasUncommitted() {
		return fmt.Errorf("compact cache %s: %w", c.name(), cmp.Or(c.commitErr, ErrBusy))
	}
	return c.compact(keep)
}

// worthCompacting reports whether enough of the file is dead.
func (c *core) worthCompacting() bool {
	slot := c.store.slot
	return slot.DeadBytes > slot.PayloadBytes/4 && slot.DeadBytes > minDeadBytes || c.overCap(slot.End)
}

// minDeadBytes is what is not worth rewriting any file for.
const minDeadBytes = 16 << 10

func (c *core) overCap(size uint64) bool {
	return c.options.MaxBytes > 0 && size > uint64(c.options.MaxBytes)
}

// compact writes the new file, with the records that keep returns, and puts it in place. This process is the writer,
// and nothing is uncommitted. c.mu is held, but not while copying.
func (c *core) compact(keep func([]format.Record) []format.Record) error {
	old := c.store
	pending := c.pendingEntries()
	if old.takes != "" || old.slot.Generation == 0 && !old.isCondemned() {
		return nil
	}
	start, before := time.Now(), old.slot.End
	items, err := c.content(keep, pending)
	if err != nil {
		return err
	}
	for _, r := range regionsOf(items) {
		r.retain()
		defer func() { c.note(r.release()) }()
	}

	dirty := c.dirty
	c.dirty = false // what changes from here on is not in the new file
	c.mu.Unlock()
	next, plan, err := c.rewrite(old, items)
	c.mu.Lock()
	made := next.disk != nil
	if made {
		err = errors.Join(err, next.disk.Close())
	}
	if err == nil {
		var replaced bool
		if replaced, err = old.disk.Replaced(); err == nil && replaced {
			err = ErrReplaced
		}
	}
	if err == nil {
		err = old.files.Rename(next.path, old.path)
	}
	if err != nil {
		c.dirty = c.dirty || dirty
		err = fmt.Errorf("compact cache: %w", err)
		if made {
			err = errors.Join(err, old.files.Remove(next.path))
		}
		return err
	}
	c.stats.Compactions++
	c.stats.DamagedPayloads += int64(next.damaged)
	c.stats.WrittenBytes += int64(plan.slot.End)
	c.events.add(slog.LevelInfo, "compacted the cache file", slog.Uint64("bytes_before", before), slog.Uint64("bytes", plan.slot.End),
		slog.Int("damaged_payloads", next.damaged), slog.Duration("duration", time.Since(start)))
	from := old.id
	old.grown = old.grown && !old.mustStay
	err = errors.Join(old.files.SyncDir(old.path), old.end(), old.reopen())
	for _, f := range c.live {
		for _, e := range f.entries {
			if at, ok := next.moved[e.record.Offset]; ok && e.file == from && e.reason == "" && e.committed {
				e.file, e.record.Offset, e.moved, e.fresh = next.id, at, true, false
			}
		}
	}
	for _, e := range pending {
		e.file, e.record.Offset = next.id, next.moved[e.record.Offset]
		e.committed, e.moved, e.fresh = true, true, false
	}
	c.fresh = slices.DeleteFunc(c.fresh, func(e *entry) bool { return e.moved })
	c.noticeReload()
	c.dropSettled(pending)
	return err
}

// An item is what the new file of a compaction is made of.
type item struct {
	record  format.Record
	payload []byte
	region  *region // that the payload is in
}

// pendingOffset is where pending entries are said to be until they are in a file, so that no two entries are at one
// place.
const pendingOffset = 1 << 62

// content returns what a compaction makes the new file of: those of all records, and of the pending entries', that
// keep returns.
func (c *core) content(keep func([]format.Record) []format.Record, pending []*entry) ([]item, error) {
	next := uint64(pendingOffset)
	for _, e := range pending {
		e.record.Offset = next
		next += alignUp(e.record.Size, packedAlignment)
	}
	records, err := c.records(pending)
	if err != nil {
		return nil, err
	}
	fresh := map[uint64]*entry{}
	for _, e := range c.fresh {
		if e.committed {
			fresh[e.record.Offset] = e
		}
	}
	for _, e := range pending { // others, of sessions that are not finalized, say where in the file they were
		fresh[e.record.Offset] = e
	}
	var items []item
	already := func(r format.Record) bool { // a commit of which nobody knew whether it is in force
		return fresh[r.Offset] == nil && slices.ContainsFunc(pending, func(e *entry) bool { return e.sameAs(&r) })
	}
	for _, r := range keep(slices.DeleteFunc(records, already)) {
		it := item{record: r, region: c.store.base}
		if e := fresh[r.Offset]; e != nil {
			it.region, it.payload = e.region, e.data
		} else {
			it.payload = it.region.data[r.Offset : r.Offset+r.Size]
		}
		items = append(items, it)
	}
	return items, nil
}

// regionsOf returns the regions of items, each once.
func regionsOf(items []item) (regions []*region) {
	known := map[*region]bool{}
	for _, it := range items {
		if !known[it.region] {
			known[it.region] = true
			regions = append(regions, it.region)
		}
	}
	return regions
}

// A rewriting is the new file of a compaction.
type rewriting struct {
	*store
	moved   map[uint64]uint64 // where payloads are now, by where they were
	damaged int
}

// rewrite makes the new file beside the old one. Neither the cache nor the old store is touched.
func (c *core) rewrite(old *store, items []item) (next rewriting, plan *commit, err error) {
	next = rewriting{&store{files: old.files, condemned: old.condemned, locked: true}, map[uint64]uint64{}, 0}
	if next.path, err = old.vacant(".compact"); err != nil { // what is there a killed process left: the writer's lock is ours
		return next, nil, err
	}
	if next.disk, err = next.files.Create(next.path); err != nil {
		next.disk = nil
		return next, nil, err
	}
	if err := next.files.CopyMode(old.path, next.path); err != nil { // one user may have packed it for others
		return next, nil, err
	}
	if err := next.writeHeader(); err != nil {
		return next, nil, err
	}
	if err := next.disk.Flush(); err != nil { // whatever a power failure leaves of it says whose it is
		return next, nil, err
	}
	next.slot.Generation = max(old.slot.Generation, old.maybe.Generation)
	next.tail = format.HeaderSize
	kept := make([]format.Record, 0, len(items))
	for _, it := range items {
		r := it.record
		at, ok := next.moved[r.Offset] // two records may share a payload
		if !ok {
			if sum, err := sumMapped(it.payload); err != nil || sum != r.Sum {
				next.damaged++
				continue
			}
			if at, err = next.write(it.payload); err != nil {
				return next, nil, err
			}
			next.moved[r.Offset] = at
		}
		r.Offset = at
		kept = append(kept, r)
	}
	if len(kept) == 0 && old.slot.Generation == 0 { // nothing was ever committed, nor is now
		plan = &commit{disk: next.disk, slot: format.Slot{End: format.HeaderSize}}
		return next, plan, plan.flush()
	}
	plan, err = next.prepareCommit(c.layouts(old.index, kept), kept, c.trailer(kept), uint32(c.options.TrailerVersion))
	if err != nil {
		return next, nil, err
	}
	return next, plan, plan.write()
}

// withinCap leaves out the records used longest ago until the file keeps to its size cap.
func (c *core) withinCap(records []format.Record) []format.Record {
	return usedLast(records, c.options.MaxBytes)
}

// usedLast returns, of the records, those used last that make a file of at most so many bytes; all if it is 0.
func usedLast(records []format.Record, maxBytes int64) []format.Record {
	if maxBytes <= 0 {
		return records
	}
	const perRecord = 512 // index, trailer and alignment, generously
	total := uint64(format.HeaderSize)
	byUse := slices.Clone(records)
	slices.SortStableFunc(byUse, func(a, b format.Record) int { return -cmp.Compare(a.UsedAt, b.UsedAt) })
	kept := map[uint64]bool{}
	for _, r := range byUse {
		size := alignUp(r.Size, packedAlignment) + perRecord + uint64(2*len(r.Kernel)+2*len(r.Bias))
		if total+size <= uint64(maxBytes) {
			total += size
			kept[r.Offset] = true
		}
	}
	return slices.DeleteFunc(records, func(r format.Record) bool { return !kept[r.Offset] })
}

package xpwc

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"xpwc/internal/format"
	"xpwc/internal/store"
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
		if c.commitAgain {
			c.startCommit()
		}
		c.idle.Broadcast()
	}()
	switch reason := c.beginWriting(true); reason {
	case "":
	case ReasonBusy:
		return fmt.Errorf("compact cache %s: %w", c.name(), ErrBusy)
	default:
		return fmt.Errorf("compact cache %s: not written to (%s): %w", c.name(), reason,
			cmp.Or(c.stats.LastError, ErrReadOnly))
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
	slot := c.store.Slot()
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
	if !c.store.CanRewrite() {
		return nil
	}
	start, before := time.Now(), c.store.Slot().End
	items, err := c.content(keep)
	if err != nil {
		return err
	}
	for _, r := range regionsOf(items) {
		r.Retain()
		defer func() { c.note(r.Release()) }()
	}

	dirty := c.dirty
	c.dirty = false // what changes from here on is not in the new file
	loaded := c.store.Index()
	var next *store.Rewriting
	c.whileStoring(func() {
		next, err = c.store.Rewrite(items, func(kept []format.Record) []format.Layout {
			return c.layouts(loaded, kept)
		})
	})
	if err == nil {
		err = next.TakePlace()
	}
	if err != nil {
		c.dirty = c.dirty || dirty
		return fmt.Errorf("compact cache: %w", err)
	}
	c.stats.Compactions++
	c.stats.DamagedPayloads += int64(next.Damaged())
	c.stats.WrittenBytes += int64(next.Size())
	c.events.add(slog.LevelInfo, "compacted the cache file",
		slog.Uint64("bytes_before", before), slog.Uint64("bytes", next.Size()),
		slog.Int("damaged_payloads", next.Damaged()), slog.Duration("duration", time.Since(start)))
	from := c.store.ID()
	err = next.Follow()
	for _, f := range c.live {
		for _, e := range f.entries {
			if at, ok := next.Moved(e.record.Offset); ok && e.file == from && e.reason == "" && e.state.inGeneration() {
				e.file, e.record.Offset = next.ID(), at
				c.become(e, stateMoved)
			}
		}
	}
	c.fresh = slices.DeleteFunc(c.fresh, func(e *entry) bool { return e.state == stateMoved })
	c.noticeReload()
	return err
}

// content returns what a compaction makes the new file of: those of all records that keep returns.
func (c *core) content(keep func([]format.Record) []format.Record) ([]store.Item, error) {
	records, err := c.records(nil)
	if err != nil {
		return nil, err
	}
	fresh := map[uint64]*entry{}
	for _, e := range c.fresh {
		if e.state == stateCommitted {
			fresh[e.record.Offset] = e
		}
	}
	var items []store.Item
	for _, r := range keep(records) {
		it := store.Item{Record: r}
		if e := fresh[r.Offset]; e != nil {
			it.Payload, it.Region = e.data, e.region
		} else {
			it.Payload, it.Region = c.store.Payload(&r)
		}
		items = append(items, it)
	}
	return items, nil
}

// regionsOf returns the regions of items, each once.
func regionsOf(items []store.Item) (regions []*store.Region) {
	known := map[*store.Region]bool{}
	for _, it := range items {
		if !known[it.Region] {
			known[it.Region] = true
			regions = append(regions, it.Region)
		}
	}
	return regions
}

// withinCap leaves out the records used longest ago until the file keeps to its size cap.
func (c *core) withinCap(records []format.Record) []format.Record {
	return usedLast(records, c.options.MaxBytes, c.now())
}

// usedLast returns, of the records, those used last that make a file of at most so many bytes; all if it is 0. A date
// that is still to come says nothing, a clock was wrong: such a record counts as used longest ago.
func usedLast(records []format.Record, maxBytes, now int64) []format.Record {
	if maxBytes <= 0 {
		return records
	}
	const perRecord = 512 // index and alignment, generously
	total := uint64(format.HeaderSize)
	const day = 24 * 60 * 60 // clocks of several machines may differ
	used := func(r format.Record) int64 {
		if r.UsedAt > now+day {
			return 0
		}
		return r.UsedAt
	}
	byUse := slices.Clone(records)
	slices.SortStableFunc(byUse, func(a, b format.Record) int { return -cmp.Compare(used(a), used(b)) })
	kept := map[uint64]bool{}
	for _, r := range byUse {
		size := format.AlignUp(r.Size, format.Alignment) + perRecord + uint64(2*len(r.Kernel)+2*len(r.Bias))
		if total+size <= uint64(maxBytes) {
			total += size
			kept[r.Offset] = true
		}
	}
	return slices.DeleteFunc(records, func(r format.Record) bool { return !kept[r.Offset] })
}

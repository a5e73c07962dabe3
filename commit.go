package xpwc

import (
	"errors"
	"fmt"

	"xpwc/internal/format"
)

// startCommit has a goroutine bring to the disk what is not there yet. c.mu is held.
func (c *Cache) startCommit() {
	if c.store == nil || c.closed {
		return
	}
	if c.committing || c.compacting {
		c.again = true
		return
	}
	c.committing = true
	go c.commitAll()
}

func (c *Cache) commitAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		c.again = false
		err := c.commitOnce()
		if err == nil && c.writers == 0 && len(c.uncommitted()) == 0 && c.store.locked && c.worthCompacting() {
			c.compacting = true
			c.note(c.compact())
			c.compacting = false
		}
		if err != nil {
			c.commitErr, c.stats.LastError = err, err
		}
		if err != nil || !c.again {
			break
		}
	}
	c.note(c.endIfIdle())
	c.committing = false
	c.idle.Broadcast()
}

// endIfIdle gives the writer's lock to others if nobody here needs it. While something uncommitted is in memory we must
// stay the writer: the next one would give its space away.
func (c *Cache) endIfIdle() error {
	if c.writers > 0 || len(c.uncommitted()) > 0 {
		return nil
	}
	return c.store.end()
}

// uncommitted returns the entries in file space that no generation on the disk has.
func (c *Cache) uncommitted() []*entry {
	var entries []*entry
	for _, e := range c.fresh {
		if !e.committed && (!e.suspect || e.sessions > 0) {
			entries = append(entries, e)
		}
	}
	return entries
}

// commitOnce commits what sessions have finalized. c.mu is held, but not while hashing and writing.
func (c *Cache) commitOnce() error {
	var entries []*entry
	for _, e := range c.uncommitted() {
		if e.kernel == nil && !e.suspect { // its session is finalized, see identify
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 && !c.dirty || !c.store.locked {
		return nil
	}
	c.mu.Unlock()
	sums := make([]format.Digest, len(entries))
	for i, e := range entries {
		sums[i] = format.Sum(e.data)
	}
	c.mu.Lock()
	written := int64(0)
	for i, e := range entries {
		e.record.Sum = sums[i]
		written += int64(len(e.data))
	}
	records := c.records(entries)
	plan, err := c.store.prepareCommit(c.layouts(c.store.index, records), records, c.trailer(records), uint32(c.options.TrailerVersion))
	if err != nil {
		return err
	}
	c.dirty = false
	c.mu.Unlock()
	err = plan.write()
	c.mu.Lock()
	if err != nil {
		c.dirty = true
		c.store.failed(plan)
		return err
	}
	c.store.committed(plan)
	replaced, err := c.store.disk.Replaced()
	if err == nil && !replaced && c.store.takes != "" {
		err = c.store.takePlace()
	}
	if replaced || errors.Is(err, ErrReplaced) {
		return c.lostFile()
	}
	if err != nil { // nobody knows whose file it is: it stays ours, and the next commit tries again
		c.dirty = true
		return err
	}
	for _, e := range entries {
		e.committed = true
	}
	c.stats.WrittenBytes += written + int64(len(plan.block))
	return nil
}

// lostFile lets go of a file that another process, or somebody, put another in the place of while we were its writer. What
// was packed stays in memory for those who use it.
func (c *Cache) lostFile() error {
	c.lost = fmt.Errorf("cache %s: what was packed is not in it: %w", c.path, ErrReplaced)
	c.store.grown = false // runtimes use, and sessions still pack into, what lies behind its end
	err := errors.Join(c.lost, c.store.end(), c.accept(c.store.reopen()))
	c.noticeReload()
	return err
}

// records returns what the next generation consists of: the loaded index with what changed in memory, what this process
// committed since, and the entries to be committed now; without what newer ones supersede.
func (c *Cache) records(entries []*entry) []format.Record {
	now := c.now()
	committing := map[*entry]bool{}
	for _, e := range entries {
		committing[e] = true
		e.record.PackedAt, e.record.UsedAt = now, now
	}
	type weight struct {
		seedKey
		source format.Digest
	}
	newest := map[weight]*entry{}
	for _, e := range c.fresh {
		if e.record.Source != (format.Digest{}) && (e.committed || committing[e]) {
			newest[weight{seedKey{e.record.Key, e.record.Seed}, e.record.Source}] = e
		}
	}
	superseded := func(r format.Record) bool {
		e := newest[weight{seedKey{r.Key, r.Seed}, r.Source}]
		return e != nil && (e.record.KernelDigest != r.KernelDigest || e.record.BiasDigest != r.BiasDigest)
	}

	var records []format.Record
	if c.store.index != nil {
		changed := map[uint64]*entry{}
		for _, all := range c.live {
			for _, e := range all {
				if c.loaded(e) {
					changed[e.record.Offset] = e
				}
			}
		}
		for i := range c.store.index.Len() {
			r := c.store.index.Record(i)
			if e := changed[r.Offset]; e != nil && e.record.Key == r.Key && e.record.Seed == r.Seed {
				if e.changed {
					r.Flags |= e.record.Flags
					r.KernelStamp, r.KernelDigest = e.record.KernelStamp, e.record.KernelDigest
					r.BiasStamp, r.BiasDigest = e.record.BiasStamp, e.record.BiasDigest
				}
				if e.sessions > 0 {
					r.UsedAt = now
				}
			}
			if !superseded(r) && !c.bad[r.Offset] {
				records = append(records, r)
			}
		}
	}
	for _, e := range c.fresh {
		if (e.committed || committing[e]) && !e.suspect && !superseded(e.record) {
			records = append(records, e.record)
		}
	}
	return records
}

// layouts returns the layouts of the records, with what is known of each.
func (c *Cache) layouts(loaded *format.Index, records []format.Record) []format.Layout {
	var layouts []format.Layout
	known := map[format.Digest]format.Layout{}
	if here, err := currentLayout(); err == nil { // else nothing was packed for it
		known[here.Fingerprint] = here
	}
	if loaded != nil {
		for _, l := range loaded.Layouts() {
			known[l.Fingerprint] = l
		}
	}
	listed := map[format.Digest]bool{}
	for _, r := range records {
		if !listed[r.Layout] {
			listed[r.Layout] = true
			layouts = append(layouts, known[r.Layout])
		}
	}
	return layouts
}

// trailer lists for ExecuTorch what it can use here: of this machine's layout, one entry a name.
func (c *Cache) trailer(records []format.Record) []format.TrailerEntry {
	here, _ := currentLayout()
	var entries []format.TrailerEntry
	at := map[string]int{}
	for _, r := range records {
		if r.Layout != here.Fingerprint {
			continue
		}
		e := format.TrailerEntry{Name: r.Kernel + r.Bias, Offset: r.Offset, Size: r.Size, Seed: r.Seed}
		if i, listed := at[e.Name]; listed {
			entries[i] = e
			continue
		}
		at[e.Name] = len(entries)
		entries = append(entries, e)
	}
	return entries
}

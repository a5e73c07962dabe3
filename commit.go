package xpwc

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"xpwc/internal/ask"
	"xpwc/internal/format"
)

// A host that loads one method after another would pack slowly with the disk flushed beside it each time. So what a
// session packed waits a moment, or while others pack, but not for long.
const (
	commitPause  = 100 * time.Millisecond
	commitWithin = time.Second
)

// commitSoon starts a commit when no session has been packing for a moment. Save and Close do not wait for it. c.mu
// is held.
func (c *core) commitSoon() {
	if c.store == nil || c.closed || c.commitTimer != nil {
		return
	}
	latest := time.Now().Add(commitWithin)
	var timer *time.Timer
	timer = time.AfterFunc(commitPause, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case c.commitTimer != timer: // a commit was started meanwhile
		case c.writers > 0 && time.Now().Before(latest):
			timer.Reset(commitPause)
		default:
			c.startCommit()
		}
	})
	c.commitTimer = timer
}

// startCommit has a goroutine bring to the disk what is not there yet. c.mu is held.
func (c *core) startCommit() {
	if c.store == nil || c.closed {
		return
	}
	if c.commitTimer != nil {
		c.commitTimer.Stop()
		c.commitTimer = nil
	}
	if c.committing || c.compacting {
		c.commitAgain = true
		return
	}
	c.committing = true
	go c.commitAll(c.dirty || len(c.fresh) > 0)
}

// commitAll commits until there is nothing more to commit. writes says whether there is something now.
func (c *core) commitAll(writes bool) {
	if writes {
		_, _ = ask.Layout() // to ask takes a millisecond or two, for which nobody is to wait
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		c.commitAgain = false
		err := c.commitOnce()
		if err == nil && c.writers == 0 && !c.hasUncommitted() && c.store.Writing() && c.worthCompacting() {
			c.compacting = true
			c.note(c.compact(c.withinCap))
			c.compacting = false
		}
		if err != nil {
			c.commitErr, c.stats.LastError = err, err
			c.events.add(slog.LevelWarn, "packed weights could not be committed", slog.Any("error", err))
		}
		if err != nil || !c.commitAgain {
			break
		}
	}
	c.note(c.endIfIdle())
	c.committing = false
	c.idle.Broadcast()
}

// endIfIdle gives the writer's lock to others if nobody here needs it. While something uncommitted is in memory we must
// stay the writer: the next one would give its space away.
func (c *core) endIfIdle() error {
	if c.writers > 0 || c.hasUncommitted() {
		return nil
	}
	return c.store.EndWriting()
}

func (c *core) hasUncommitted() bool { return slices.ContainsFunc(c.fresh, (*entry).uncommitted) }

// freshOnes returns those of what was packed here, and is not in the loaded index, that fulfil a condition.
func (c *core) freshOnes(condition func(*entry) bool) []*entry {
	return slices.DeleteFunc(slices.Clone(c.fresh), func(e *entry) bool { return !condition(e) })
}

// commitOnce commits what sessions have finalized. Where there is no room for the index, all stays as it is until the
// next commit; if it cannot be written, that ends the file. c.mu is held, but not while waiting and writing.
func (c *core) commitOnce() error {
	c.await(func() bool { return c.summing == 0 })
	entries := c.freshOnes(func(e *entry) bool { return e.uncommitted() && e.identified() && e.doubt == sound })
	// What nobody else is to use lies before the end of the generation, and so nobody is given its space.
	left := c.freshOnes(func(e *entry) bool { return e.uncommitted() && e.identified() && e.doubt != sound })
	if len(entries)+len(left) == 0 && !c.dirty || !c.store.Writing() {
		return nil
	}
	start := time.Now()
	records, err := c.records(entries)
	if err != nil {
		return err
	}
	plan, err := c.store.PrepareCommit(c.layouts(c.store.Index(), records), records)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.sessions > 0 {
			plan.Reads(e.region)
		}
	}
	c.dirty = false
	var written error
	c.whileStoring(func() { written = plan.Write() })
	inForce, err := c.store.Conclude(plan, written)
	switch {
	case written != nil:
		c.endFile(err)
		return err
	case errors.Is(err, ErrReplaced):
		return c.lostFile()
	case !inForce:
		c.dirty = true
		return err
	}
	c.note(err)
	payloadBytes := int64(0)
	for _, e := range entries {
		if e.state != stateDropped { // it may have turned out wrong meanwhile
			c.become(e, stateCommitted)
		}
		payloadBytes += int64(len(e.data))
	}
	for _, e := range left {
		if e.state != stateDropped {
			c.become(e, stateStray)
			c.fresh = without(c.fresh, e)
		}
	}
	c.stats.WrittenBytes += payloadBytes + int64(plan.IndexSize())
	c.events.add(slog.LevelInfo, "committed packed weights", slog.Uint64("generation", plan.Generation()),
		slog.Int("entries", len(entries)), slog.Int64("bytes", payloadBytes),
		slog.Duration("duration", time.Since(start)))
	return nil
}

// A summed is the sum of bytes in memory, or why they cannot be read.
type summed struct {
	sum format.Digest
	err error
}

func sumOf(b []byte) *summed {
	sum, err := sumMapped(b)
	return &summed{sum, err}
}

// sumBeside computes an entry's sum from what XNNPACK just handed in, on another core.
func (c *core) sumBeside(e *entry) {
	e.region.Retain()
	c.summing++
	go func() {
		sum, err := sumMapped(e.data)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.setSum(e, sum, err)
		c.summing--
		c.note(e.region.Release())
		c.idle.Broadcast()
	}()
}

// setSum takes note of an entry's sum, or that its bytes cannot be read any more.
func (c *core) setSum(e *entry, sum format.Digest, err error) {
	e.record.Sum = sum
	if err != nil {
		c.note(fmt.Errorf("cache %s: payload of %q: %w", c.name(), e.name(), err))
		c.lose([]*entry{e}, err)
	}
}

// await waits until a condition holds. c.mu is released meanwhile.
func (c *core) await(condition func() bool) {
	for !condition() {
		c.idle.Wait()
	}
}

// unlocked does what takes long, or may panic, without c.mu.
func (c *core) unlocked(do func()) {
	c.mu.Unlock()
	defer c.mu.Lock()
	do()
}

// whileStoring has the store write without c.mu. It stays the store of this file meanwhile.
func (c *core) whileStoring(write func()) {
	c.storing = true
	defer func() {
		c.storing = false
		c.idle.Broadcast()
	}()
	c.unlocked(write)
}

// lostFile lets go of a file that another process, or somebody, put another in the place of while we were its writer.
// What was packed stays in memory for those who use it.
func (c *core) lostFile() error {
	c.uncommittedLost = fmt.Errorf("cache %s: what was packed is not in it: %w", c.name(), ErrReplaced)
	c.setAside(c.uncommittedLost)
	err := c.accept(c.store.Reopen())
	c.noticeReload()
	return errors.Join(c.uncommittedLost, err)
}

// records returns what the next generation consists of: the loaded index with what changed in memory, what this process
// committed since, and the entries to be committed now; without what newer ones supersede.
func (c *core) records(entries []*entry) ([]format.Record, error) {
	now := c.now()
	for _, e := range entries {
		e.committing = true
		e.record.PackedAt, e.record.UsedAt = now, now
	}
	defer func() {
		for _, e := range entries {
			e.committing = false
		}
	}()
	index, loaded := c.store.Index(), 0
	if index != nil {
		loaded = index.Len()
	}
	records := make([]format.Record, 0, loaded+len(c.fresh))
	if index != nil {
		for i := range loaded {
			r, err := index.Record(i)
			if err != nil {
				return nil, c.damagedForWriting(err)
			}
			f := c.live[r.Kernel]
			for _, e := range f.under(&r.Key) {
				if e.record.Offset != r.Offset || e.record.Seed != r.Seed || !c.loaded(e) {
					continue
				}
				if e.changed {
					r.Flags |= e.record.Flags
					r.Source = e.record.Source
					r.KernelStamp, r.KernelDigest = e.record.KernelStamp, e.record.KernelDigest
					r.BiasStamp, r.BiasDigest = e.record.BiasStamp, e.record.BiasDigest
				}
				if e.sessions > 0 {
					r.UsedAt = now
				}
			}
			if !f.supersedes(&r) && !c.damagedAt[r.Offset] {
				records = append(records, r)
			}
		}
	}
	for _, e := range c.fresh {
		if (e.state == stateCommitted || e.committing) && e.doubt == sound && !e.family.supersedes(&e.record) {
			records = append(records, e.record)
		}
	}
	return records, nil
}

// supersedes reports whether the next generation has the same weight of the same source as a record, with another
// content, packed here later. The family is that of the record's kernel.
func (f *family) supersedes(r *format.Record) bool {
	if r.Source == (format.Digest{}) {
		return false
	}
	for _, e := range slices.Backward(f.under(&r.Key)) {
		if (e.state == stateCommitted || e.committing) && e.record.Seed == r.Seed && e.record.Source == r.Source {
			return e.record.KernelDigest != r.KernelDigest || e.record.BiasDigest != r.BiasDigest
		}
	}
	return false
}

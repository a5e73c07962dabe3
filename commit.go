package xpwc

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"syscall"
	"time"

	"xpwc/internal/format"
	"xpwc/internal/store"
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
		_, _ = currentLayout() // to ask takes a millisecond or two, for which nobody is to wait
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
// stay the writer: the next one would give its space away. What no commit will take, of finalized sessions, leaves the
// file for private memory first: its runtime may live as long as the process.
func (c *core) endIfIdle() error {
	if c.writers > 0 {
		return nil
	}
	c.retreat(c.freshOnes(func(e *entry) bool { return e.uncommitted() && e.identified() && e.doubt != sound }))
	if c.hasUncommitted() {
		return nil
	}
	return c.store.EndWriting()
}

func (c *core) hasUncommitted() bool { return slices.ContainsFunc(c.fresh, (*entry).uncommitted) }

// commitOnce commits what sessions have finalized, and what is pending. What it cannot commit is pending afterwards,
// and the lock given up. c.mu is held, but not while waiting and writing.
func (c *core) commitOnce() error {
	err := c.tryCommit()
	switch {
	case errors.Is(err, ErrReplaced):
		c.retryLater()
	case err != nil:
		if errors.Is(err, ErrDamaged) { // the next try sets the file aside
			c.note(c.accept(err))
		}
		c.afterFailure()
	default:
		c.retry.succeeded()
	}
	c.flushing = false
	return err
}

func (c *core) tryCommit() error {
	if c.store.Outdated() {
		err := c.accept(c.store.CatchUp())
		c.noticeReload()
		if err != nil {
			return err
		}
	}
	if c.store.Condemned() {
		c.retreat(c.freshOnes((*entry).uncommitted))
	} else {
		c.awaitPacking() // what is packed while a flush fails is lost
	}
	c.awaitSums()
	pending := c.pendingEntries()
	if c.store.Condemned() {
		if len(pending) == 0 && !c.dirty {
			return nil
		}
		return c.renew()
	}
	if len(pending) > 0 {
		if err := c.beginForPending(); err != nil {
			return err
		}
	}
	entries := c.freshOnes(func(e *entry) bool { return e.uncommitted() && e.identified() && e.doubt == sound })
	missing, err := c.missing(pending)
	if err != nil {
		return err
	}
	if len(entries)+len(missing) == 0 && !c.dirty || !c.store.Writing() {
		return c.settlePending(pending)
	}
	start := time.Now()
	if err := c.appendPending(missing); err != nil {
		return err
	}
	plan, entries, full, err := c.planCommit(entries, missing)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.sessions > 0 {
			plan.Reads(e.region)
		}
	}
	c.dirty = false
	c.flushing, c.handedIn = true, nil // until nothing can be lost any more
	var written error
	c.unlocked(func() { written = plan.Write() })
	c.flushing = written != nil
	inForce, err := c.store.Conclude(plan, written)
	switch {
	case errors.Is(err, ErrReplaced):
		return c.lostFile()
	case !inForce:
		c.dirty = true
		if c.store.Condemned() {
			for _, e := range c.handedIn { // their sums may be of what was lost
				c.losePayload(e)
			}
		}
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
	c.stats.WrittenBytes += payloadBytes + int64(plan.IndexSize())
	c.events.add(slog.LevelInfo, "committed packed weights", slog.Uint64("generation", plan.Generation()),
		slog.Int("entries", len(entries)), slog.Int64("bytes", payloadBytes),
		slog.Duration("duration", time.Since(start)))
	return errors.Join(full, c.settlePending(pending))
}

// unlocked has the store write without c.mu. It stays the store of this file meanwhile.
func (c *core) unlocked(write func()) {
	c.storing = true
	c.mu.Unlock()
	write()
	c.mu.Lock()
	c.storing = false
	c.idle.Broadcast()
}

// planCommit lays out the next generation, with pending entries, which are in the file already, and as many others as
// there is room for. It returns all that it has; full is the disk's error if some had no room.
func (c *core) planCommit(entries, pending []*entry) (plan *store.Commit, committing []*entry, full, err error) {
	for {
		committing = slices.Concat(entries, pending)
		records, err := c.records(committing)
		if err != nil {
			return nil, nil, full, err
		}
		plan, err = c.store.PrepareCommit(c.layouts(c.store.Index(), records), records)
		if err == nil {
			return plan, committing, full, nil
		}
		if len(entries) == 0 || len(pending) > 0 || !isDiskFull(err) || c.store.Packing() {
			return nil, nil, full, err
		}
		full = err
		if entries, err = c.makeRoom(entries); err != nil {
			return nil, nil, full, err
		}
	}
}

// makeRoom moves what was packed last into private memory, so that the index of the others fits its place. It returns
// these.
func (c *core) makeRoom(entries []*entry) ([]*entry, error) {
	slices.SortFunc(entries, func(a, b *entry) int { return cmp.Compare(a.record.Offset, b.record.Offset) })
	last := len(entries) - 1
	end := c.store.Slot().End
	if last > 0 { // which may lie before a generation that was committed since it was packed
		end = max(end, entries[last-1].record.Offset+entries[last-1].record.Size)
	}
	var leaving []*entry
	for _, e := range c.freshOnes((*entry).uncommitted) { // among them those of sessions that are not finalized
		if e.record.Offset >= end {
			leaving = append(leaving, e)
		}
	}
	c.retreat(leaving)
	for _, e := range leaving {
		if !e.region.Detached() {
			return nil, fmt.Errorf("cache %s: no memory to make room for its index: %w", c.name(), syscall.ENOMEM)
		}
	}
	return entries[:last], c.store.DiscardTail(end)
}

// isDiskFull reports whether an error is that there is no space, or no more than a quota or limit leaves.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// beginForPending makes this process the writer without waiting for another. ErrBusy if there is one.
func (c *core) beginForPending() error {
	if c.blocked != "" || c.damaged && c.options.ReadOnly {
		return fmt.Errorf("cache %s: %w", c.name(), ErrReadOnly)
	}
	for range 3 {
		ok, err := c.tryBegin()
		switch {
		case ok:
			return nil
		case err == nil:
			return fmt.Errorf("cache %s: %w", c.name(), ErrBusy)
		case errors.Is(err, ErrReplaced):
			err = c.accept(c.store.Reopen())
		default:
			err = c.accept(err)
		}
		c.noticeReload()
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("cache %s: %w", c.name(), ErrReplaced)
}

// lostFile lets go of a file that another process, or somebody, put another in the place of while we were its writer.
// What was packed stays in memory for those who use it.
func (c *core) lostFile() error {
	c.uncommittedLost = fmt.Errorf("cache %s: what was packed is not in it: %w", c.name(), ErrReplaced)
	c.retreat(c.freshOnes((*entry).uncommitted))
	err := errors.Join(c.uncommittedLost, c.store.Leave(), c.accept(c.store.Reopen()))
	c.noticeReload()
	return err
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
				return nil, c.store.Damaged(err)
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

package xpwc

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"xpwc/internal/format"
	"xpwc/internal/store"
)

// A commit fails when the disk is full or broken. What it should have committed then moves into private memory, so
// that runtimes go on and the lock is free for others, and waits there for a later commit.

// sumBeside computes an entry's sum from what XNNPACK just handed in, on another core where that is worth it.
func (c *core) sumBeside(e *entry) {
	if len(e.data) <= hashedAtOnce {
		sum, err := sumMapped(e.data)
		c.setSum(e, sum, err)
		return
	}
	e.region.Retain()
	c.store.Summing(e.region)
	c.summing++
	go func() {
		sum, err := sumMapped(e.data)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.setSum(e, sum, err)
		c.summing--
		c.note(errors.Join(c.store.Summed(e.region), e.region.Release()))
		c.idle.Broadcast()
	}()
}

// setSum takes note of an entry's sum, unless it is known, or that its bytes cannot be read any more.
func (c *core) setSum(e *entry, sum format.Digest, err error) {
	if e.summed {
		return
	}
	e.record.Sum, e.summed = sum, true
	if err != nil {
		c.note(fmt.Errorf("cache %s: payload of %q: %w", c.name(), e.name(), err))
		c.losePayload(e)
	}
}

// await waits until a condition holds, or, with a patience, at most so long. c.mu is released meanwhile.
func (c *core) await(patience time.Duration, condition func() bool) {
	deadline := time.Now().Add(patience)
	if patience > 0 {
		defer time.AfterFunc(patience, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.idle.Broadcast()
		}).Stop()
	}
	for !condition() && (patience == 0 || time.Now().Before(deadline)) {
		c.idle.Wait()
	}
}

// awaitPacking waits, but not for ever, until nothing is being packed into the file.
func (c *core) awaitPacking() { c.await(commitWithin, func() bool { return !c.store.Packing() }) }

// packingEnded has whoever waits for it go on, or the file given up, which a failed flush left as it was because of
// that packing.
func (c *core) packingEnded() {
	c.idle.Broadcast()
	if c.store.Condemned() && !c.store.Packing() && !c.closing {
		c.startCommit()
	}
}

// awaitSums waits until all that was handed in has its sum.
func (c *core) awaitSums() { c.await(0, func() bool { return c.summing == 0 }) }

// retreat moves entries that are in the file, and in no generation of it, into private memory at the same addresses,
// where they are pending.
func (c *core) retreat(entries []*entry) {
	for _, e := range entries {
		if !e.region.Packing() { // else XNNPACK writes to it
			c.detach(e.region)
		}
		if !e.region.Detached() {
			if c.store.Condemned() {
				c.compare(e)
				if !e.region.Packing() && e.sessions == 0 {
					c.drop(e) // it can neither leave the file nor be committed to it
				}
			}
			continue
		}
		if e.reason == "" {
			e.reason = ReasonDisk
			if e.sessions > 0 {
				c.stats.MappedBytes -= int64(len(e.data))
				c.stats.PrivateBytes += int64(len(e.data))
			}
		}
		if e.doubt != sound && e.sessions == 0 {
			c.drop(e)
		}
	}
}

// compare finds out whether the disk has lost what was packed: the system writes pages when it likes, and reads those
// again that the disk did not take. If a flush failed, what has no sum yet counts as lost.
func (c *core) compare(e *entry) {
	if e.doubt == sound && (e.summed && !e.intact() || !e.summed && c.store.Condemned()) {
		c.losePayload(e)
	}
}

// detach moves a region out of the file, and all entries in it that no generation has.
func (c *core) detach(r *store.Region) {
	if r.Detached() {
		return
	}
	leaving := c.freshOnes(func(e *entry) bool { return e.region == r && e.state == stateUncommitted })
	for _, e := range leaving {
		if !e.summed && e.doubt == sound && !c.store.Condemned() { // out of the file, what cannot be read is zeros
			sum, err := sumMapped(e.data)
			c.setSum(e, sum, err)
		}
	}
	c.note(c.store.Detach(r))
	if !r.Detached() {
		return
	}
	for _, e := range leaving {
		c.become(e, statePending)
		c.compare(e)
	}
}

// usesFile reports whether something is in the file that goes with it when its space is given to others: what is
// uncommitted, and what XNNPACK packs just now.
func (c *core) usesFile() bool { return c.hasUncommitted() || c.store.Packing() }

// freshOnes returns those of what was packed here, and is not in the loaded index, that fulfil a condition.
func (c *core) freshOnes(condition func(*entry) bool) []*entry {
	return slices.DeleteFunc(slices.Clone(c.fresh), func(e *entry) bool { return !condition(e) })
}

// losePayload takes note that an entry's bytes are gone, and has all sessions that use it know, and the one that
// packs it.
func (c *core) losePayload(e *entry) {
	e.suspectFor(suspect)
	if e.sessions == 0 && e.by == nil {
		return
	}
	err := fmt.Errorf("packed weights of %q: %w", e.name(), ErrLost)
	c.stats.LostPayloads++
	c.note(err)
	c.events.add(slog.LevelError, "the disk lost packed weights in use",
		slog.String("name", e.name()), slog.Int("bytes", len(e.data)))
	for s := range c.sessions {
		if s == e.by || slices.Contains(s.used, e) {
			s.lostWeights = cmp.Or(s.lostWeights, err)
		}
	}
}

// afterFailure gives up what a failed commit leaves: the file is for others to write to, and ours again with the next
// try. What cannot be moved out of it keeps it ours.
func (c *core) afterFailure() {
	c.retreat(c.freshOnes((*entry).uncommitted))
	if !c.usesFile() {
		c.note(c.store.EndWriting())
	}
	c.retryLater()
}

// retryLater has a commit tried again, later with each failure.
func (c *core) retryLater() {
	c.retry.later(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.closing {
			c.startCommit()
		}
	})
}

// pendingEntries returns what waits in private memory for a commit that can bring it into the file.
func (c *core) pendingEntries() []*entry {
	return c.freshOnes(func(e *entry) bool { return e.pending() && e.identified() })
}

// missing returns the pending entries that the file does not have. Another process may have committed the same, or,
// where nobody knew whether a commit was in force, this one.
func (c *core) missing(pending []*entry) (missing []*entry, err error) {
	for _, e := range pending {
		found := false
		if c.store.Index() != nil {
			for r, err := range c.store.Index().Find(e.record.Key) {
				if err != nil {
					return nil, c.store.Damaged(err)
				}
				found = found || e.sameAs(&r)
			}
		}
		if !found {
			missing = append(missing, e)
		}
	}
	return missing, nil
}

// appendPending writes pending entries after what the file has, for the commit that follows.
func (c *core) appendPending(entries []*entry) error {
	for _, e := range entries {
		at, err := c.store.Append(e.data)
		if err != nil {
			return err
		}
		e.file, e.record.Offset = c.store.ID(), at
	}
	return nil
}

// settlePending takes note that pending entries were committed, and loads them: new sessions find them in the file.
func (c *core) settlePending(entries []*entry) error {
	if len(entries) == 0 {
		return nil
	}
	for _, e := range entries {
		if e.state != stateDropped {
			c.become(e, stateMoved)
		}
	}
	c.fresh = slices.DeleteFunc(c.fresh, func(e *entry) bool { return e.state == stateMoved })
	err := c.accept(c.store.ReloadCommitted())
	c.noticeReload()
	c.dropSettled(entries)
	return err
}

// dropSettled frees what was pending and nobody uses.
func (c *core) dropSettled(entries []*entry) {
	for _, e := range entries {
		if e.sessions == 0 && e.state != stateDropped {
			c.drop(e)
		}
	}
}

// renew puts a new file in the place of a condemned one, with what that has and what is pending. ErrBusy if another
// process is writing to it.
func (c *core) renew() error {
	err := c.beginRenewal()
	switch {
	case errors.Is(err, ErrReplaced): // somebody else did
		err = c.accept(c.store.Reopen())
		c.noticeReload()
		c.commitAgain = true // what is pending goes into that file
		return err
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrForeign):
		c.commitAgain = true // or into one that takes its place
		return c.accept(err)
	case err != nil:
		return err
	}
	c.compacting = true
	err = c.compact(c.withinCap)
	c.compacting = false
	err = errors.Join(err, c.store.EndWriting())
	if c.commitAgain && !c.committing { // a commit was asked for meanwhile, and somebody waits for it
		c.startCommit()
	}
	c.idle.Broadcast()
	return err
}

// beginRenewal makes this process the writer of the condemned file, to put another in its place. ErrBusy if another
// process is, or if something here cannot leave the file yet.
func (c *core) beginRenewal() error {
	if c.usesFile() {
		return fmt.Errorf("cache %s: %w, and what was packed is still in it: %w", c.name(), store.ErrCondemned, ErrBusy)
	}
	ok, err := c.store.BeginRenewal()
	c.noticeReload()
	if err == nil && !ok {
		err = fmt.Errorf("cache %s: %w", c.name(), ErrBusy)
	}
	return err
}

package xpwc

import (
	"bytes"
	"fmt"
	"log/slog"
)

// What turns out to be damaged is kept from further sessions, counted, and packed afresh.

// damagedIndex gives up the file whose loaded index turned out damaged, once nothing is being written to it. What is
// written then may have taken its place. The error is one for the caller of a cache with Options.Strict.
func (c *core) damagedIndex(err error) error {
	loaded := c.store.Index()
	err = c.store.Damaged(err)
	c.await(func() bool { return !c.storing })
	if c.store.Index() != loaded {
		return nil
	}
	return c.accept(err)
}

// damagedForWriting gives up the file whose loaded index turned out damaged when the next generation was to be made of
// it, and returns the error for that. Unless Options.Strict is set, the next writer sets the file aside.
func (c *core) damagedForWriting(err error) error {
	err = c.store.Damaged(err)
	c.note(c.accept(err))
	return err
}

// distrust keeps new sessions from memory whose file is damaged: it may be cut off. It gives the file up.
func (c *core) distrust(err error) {
	for _, f := range c.live {
		for _, e := range f.entries {
			if e.reason == "" && e.state.inGeneration() {
				e.suspectFor(suspect)
			}
		}
	}
	if c.store.Writing() && c.hasUncommitted() { // which is not damaged, and serves who has it
		c.uncommittedLost = fmt.Errorf("cache %s: what was packed is not in it: %w", c.name(), err)
	}
	if c.store.Writing() && !c.options.Strict { // to whom sets it aside later, it would be in use
		c.setAside(err)
		return
	}
	c.note(c.store.Abandon())
	c.noticeReload()
}

// intact reports whether an entry has the bytes that its sum was made of.
func (e *entry) intact() bool {
	sum, err := sumMapped(e.data)
	return err == nil && sum == e.record.Sum
}

// has reports whether an entry has these bytes. Those that the disk cannot give are others, and no signal.
func (e *entry) has(b []byte) (same bool) {
	_ = faultless(func() { same = bytes.Equal(e.data, b) })
	return same
}

func (c *core) damagedPayload(e *entry) {
	c.stats.DamagedPayloads++
	c.note(fmt.Errorf("cache %s: payload of %q: %w", c.name(), e.name(), ErrDamaged))
	c.events.add(slog.LevelWarn, "damaged payload is packed afresh",
		slog.String("name", e.name()), slog.Int("bytes", len(e.data)), slog.Int("sessions", e.sessions))
	e.suspectFor(suspect)
	if c.loaded(e) {
		c.damagedAt[e.record.Offset] = true
	}
	c.dirty = true
}

// wrongSize gives up an entry of the file whose payload is not what an operator is going to read.
func (c *core) wrongSize(e *entry, err error) {
	c.damagedPayload(e)
	c.note(fmt.Errorf("cache %s: payload of %q: %w", c.name(), e.name(), err))
}

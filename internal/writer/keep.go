package writer

import (
	"fmt"
	"slices"

	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
)

// SumMatches reports whether an entry's bytes have its checksum.
func SumMatches(e *entries.Entry) bool {
	sum, err := osdisk.Sum(e.Data)
	return err == nil && sum == e.Record.Sum
}

// Packed is a packing that is to become an entry.
type Packed struct {
	entries.Contents
	Record format.Record // without the fields that identify it
	Space  store.Reservation
	InFile bool   // otherwise in private memory
	Reason string // why it is private, or ""
}

// An Action is what Insert does with a stored entry of the same key.
type Action uint8

// The actions of Insert.
const (
	Ignore      Action = iota
	Reuse              // it has equal bytes, and is used instead
	ReuseTied          // likewise, and all uses of its key are packed into it
	MarkVariant        // it and what was packed are variants
	MarkDamaged        // it is not what it was when it was packed
)

// Insert does with the entries that were seen what was decided. It returns the entry that the session uses from now on:
// one of them, or a new one of the packing: created is true. It returns nil if there are other entries by now.
func (u *User) Insert(q *Query, p *Packed, seen []View, actions []Action) (entry *entries.Entry, created bool) {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	if !u.unchangedLocked(q, seen, true) {
		return nil, false
	}
	for i, action := range actions {
		e := seen[i].Entry
		switch action {
		case Reuse, ReuseTied:
			w.equalLocked(e, q.Seed, action == ReuseTied)
			entry = e
		case MarkDamaged:
			w.damagedPayloadLocked(e)
		case MarkVariant:
			p.Record.Flags |= format.Variant
			w.setFlagLocked(e, format.Variant)
		}
	}
	if entry == nil {
		entry, created = w.makeLocked(u, q, p), true
	}
	u.useLocked(entry)
	return entry, created
}

// InsertUnnamed makes a private entry of packed weights whose tensors have no identity. Only the session uses it.
func (u *User) InsertUnnamed(p *Packed) *entries.Entry {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	e := &entries.Entry{Data: p.Space.Data, Region: p.Space.Region, Reason: ReasonUnnamed}
	w.countPrivateLocked(e)
	u.useLocked(e)
	return e
}

// equalLocked records that a packing is equal to an entry.
func (w *Writer) equalLocked(e *entries.Entry, seed uint32, tied bool) {
	if e.Record.Seed != seed && !slices.Contains(e.OtherSeeds, seed) {
		e.OtherSeeds = append(e.OtherSeeds, seed)
	}
	if tied {
		w.setFlagLocked(e, format.Tied)
	}
	e.Verified, e.Sized = true, true
	w.figures.Reused.add(len(e.Data))
}

func (w *Writer) setFlagLocked(e *entries.Entry, flag format.Flags) {
	if e.Record.Flags&flag != 0 {
		return
	}
	e.Record.Flags |= flag
	if e.Reason == "" {
		e.Changed, w.dirty = true, true
	}
}

// makeLocked makes the entry of a packing.
func (w *Writer) makeLocked(u *User, q *Query, p *Packed) *entries.Entry {
	e := &entries.Entry{
		Record: p.Record, Data: p.Space.Data, Region: p.Space.Region,
		Contents: p.Contents, Packer: &u.owner, Verified: true, Sized: true,
	}
	e.Record.Key, e.Record.Seed = q.Key, q.Seed
	if p.InFile {
		w.fillLocked(e, p)
	} else {
		e.Reason = p.Reason
	}
	if e.Reason == "" {
		w.figures.Packed.add(len(e.Data))
	} else {
		w.countPrivateLocked(e)
	}
	w.entries.Add(e)
	return e
}

// fillLocked makes an entry one of the file's. It is committed, unless the file has ended or was replaced.
func (w *Writer) fillLocked(e *entries.Entry, p *Packed) {
	e.File = p.Space.Region.File()
	e.Record.Offset, e.Record.Size = p.Space.Offset(), uint64(len(e.Data))
	e.State = entries.Orphaned // unless the file is the one in place
	store.Filled(p.Space)
	switch {
	case p.Space.Region.Lost():
		w.loseEntriesLocked([]*entries.Entry{e}, store.ErrFlush)
	case e.File == w.loaded.id:
		w.entries.AddPacked(e)
		w.sumLocked(e)
	}
}

// sumLocked computes an entry's checksum in the background, or when it is committed.
func (w *Writer) sumLocked(e *entries.Entry) {
	region := e.Region.Retain()
	w.summing[e] = true
	w.sums.Go(len(e.Data), func() {
		sum, err := osdisk.Sum(e.Data)
		w.mu.Lock()
		defer w.unlock()
		w.summedLocked(e, sum, err)
		w.freed = append(w.freed, region)
		delete(w.summing, e)
		w.changed.Broadcast()
	})
}

// summedLocked records an entry's checksum. If its bytes cannot be read, they are lost.
func (w *Writer) summedLocked(e *entries.Entry, sum format.Digest, err error) {
	e.Record.Sum = sum
	if err != nil {
		w.noteLocked(fmt.Errorf("cache %s: payload of %q: %w", w.name(), e.Name(), err))
		w.loseEntriesLocked([]*entries.Entry{e}, err)
	}
}

func (w *Writer) countPrivateLocked(e *entries.Entry) {
	count := w.figures.Private[e.Reason]
	count.add(len(e.Data))
	w.figures.Private[e.Reason] = count
}

// CountCopied counts packed bytes that were copied to where they stay.
func (u *User) CountCopied(n int) { u.w.locked(func() { u.w.figures.CopiedBytes += int64(n) }) }

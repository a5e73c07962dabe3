package writer

import (
	"fmt"
	"slices"

	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
)

// SumMatches reports whether an entry has the bytes that its sum was made of.
func SumMatches(e *entries.Entry) bool {
	sum, err := osdisk.Sum(e.Data)
	return err == nil && sum == e.Record.Sum
}

// Packed is what was packed, and where it lies.
type Packed struct {
	Record       format.Record // but for what identifies it
	Kernel, Bias *entries.Content
	Space        store.Reservation
	InFile       bool   // or else in private memory
	Reason       string // why it is private, or ""
}

// A Lot is what becomes of an entry beside which something was packed under its key.
type Action uint8

// The lots of entries.
const (
	Ignore      Action = iota
	Reuse              // it is used in place of what was packed
	ReuseTied          // so, and it is what all uses of its key are packed into
	MarkVariant        // it and what was packed are variants
	MarkDamaged        // it is not what it was when it was packed
)

// Insert does with the entries that were seen what was decided. It returns the entry that the session uses from now on:
// one of them, or a new one of what was packed: created is true. It returns nil if there are other entries by now.
func (u *User) Insert(q *Query, p *Packed, seen []View, lots []Action) (entry *entries.Entry, created bool) {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	candidates, index := w.candidatesLocked(q)
	if index != nil || !unchanged(candidates, seen) {
		return nil, false
	}
	for i, lot := range lots {
		e := seen[i].Entry
		switch lot {
		case Reuse, ReuseTied:
			w.equalLocked(e, q.Seed, lot == ReuseTied)
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

func unchanged(candidates []*entries.Entry, seen []View) bool {
	return slices.EqualFunc(candidates, seen, func(e *entries.Entry, v View) bool { return e == v.Entry })
}

// InsertUnnamed makes an entry of what was packed into private memory from what nothing identifies. Only the session
// has it.
func (u *User) InsertUnnamed(p *Packed) *entries.Entry {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	e := &entries.Entry{Data: p.Space.Data, Region: p.Space.Region, Reason: ReasonUnnamed}
	w.countPrivateLocked(e)
	u.useLocked(e)
	return e
}

// equalLocked takes note that a packing gave the bytes of an entry.
func (w *Writer) equalLocked(e *entries.Entry, seed uint32, tied bool) {
	if !e.PackedUnder(seed) {
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

// makeLocked makes the entry of what was packed.
func (w *Writer) makeLocked(u *User, q *Query, p *Packed) *entries.Entry {
	e := &entries.Entry{
		Record: p.Record, Data: p.Space.Data, Region: p.Space.Region,
		Kernel: p.Kernel, Bias: p.Bias, Packer: u, Verified: true, Sized: true,
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

// fillLocked takes note that an entry is what was packed into a part of the file. It is committed, unless the file has
// ended or was replaced.
func (w *Writer) fillLocked(e *entries.Entry, p *Packed) {
	e.File = p.Space.Region.File()
	e.Record.Offset, e.Record.Size = p.Space.Offset(), uint64(len(e.Data))
	e.State = entries.Written
	store.Filled(p.Space)
	switch {
	case p.Space.Region.Lost():
		w.loseEntriesLocked([]*entries.Entry{e}, store.ErrFlush)
	case e.File == w.loaded.id:
		w.entries.AddUnlisted(e)
		w.sumLocked(e)
	}
}

// sumLocked has the sum of an entry computed beside what its session does.
func (w *Writer) sumLocked(e *entries.Entry) {
	region := e.Region.Retain()
	w.summing[e] = true
	go func() {
		sum, err := osdisk.Sum(e.Data)
		w.mu.Lock()
		defer w.unlock()
		w.summedLocked(e, sum, err)
		w.freed = append(w.freed, region)
		delete(w.summing, e)
		w.changed.Broadcast()
	}()
}

// summedLocked takes note of an entry's sum, or that its bytes cannot be read any more.
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

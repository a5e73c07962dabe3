package writer

import (
	"errors"
	"fmt"
	"slices"

	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/store"
)

// A Query is a look-up. It is repeated until it is answered. A key without a layout gets that of this machine once
// SetLayout was called.
type Query struct {
	Key  format.Key
	Seed uint32

	// Contents are the session's tensors. With them, entries of sessions that are not finalized may answer.
	Contents entries.Contents

	complete *format.Index // all its records under the key are in memory
}

// SetLayout changes the layout of the key.
func (q *Query) SetLayout(layout format.Digest) { q.Key.Layout, q.complete = layout, nil }

// A View is a copy of an entry's facts. They may change once it is returned.
type View struct {
	Entry            *entries.Entry
	Record           format.Record
	entries.Contents // the sources, until the record has them

	Pending  bool // another session, not yet finalized, packed it: Kernel and Bias must not be read
	Seed     bool // XNNPACK packs its bytes under the seed of the query
	Durable  bool // the loaded index has it
	Verified bool
	Sized    bool
}

// LookUp returns the entries that may answer a query. The views are valid until the user's next call of LookUp. Use
// takes one of them; the memory of the others may be released at any time. The error, with Options.Strict, is that the
// loaded index is damaged.
func (u *User) LookUp(q *Query) (views []View, err error) {
	if u.claim != nil {
		u.Unclaim() // XNNPACK has given up on the previous weight
	}
	for {
		u.w.mu.Lock()
		var index *format.Index
		u.views, index = u.viewsLocked(u.views[:0], q, false)
		u.w.mu.Unlock()
		if index == nil {
			return u.views, err
		}
		err = errors.Join(err, u.loadRecords(q, index))
	}
}

// viewsLocked appends a view of each entry of a query's key to dst. If records of the loaded index must be loaded
// first, it returns that index. An entry that another session packed may change until that session is finalized:
// pending includes all of these, otherwise only those whose sources are the query's.
func (u *User) viewsLocked(dst []View, q *Query, pending bool) ([]View, *format.Index) {
	u.w.resolveLocked(q)
	index, id := u.w.loaded.index, u.w.loaded.id
	list, complete := u.w.entries.Find(&q.Key, index)
	if !complete && index != nil && q.complete != index {
		return dst, index
	}
	for _, e := range list {
		unfinished := e.Packer != nil && e.Packer != &u.owner
		if !e.Usable(id) || unfinished && !pending && !q.Contents.MayMatch(e.Contents) {
			continue
		}
		dst = append(dst, View{
			Entry: e, Contents: e.Contents, Record: e.Record, Pending: unfinished,
			Seed:    e.Record.Seed == q.Seed || slices.Contains(e.OtherSeeds, q.Seed),
			Durable: e.State == entries.Durable, Verified: e.Verified, Sized: e.Sized,
		})
	}
	return dst, nil
}

// unchangedLocked reports whether a query has the entries of these views and no others.
func (u *User) unchangedLocked(q *Query, views []View, pending bool) bool {
	current, index := u.viewsLocked(nil, q, pending)
	return index == nil && slices.EqualFunc(current, views, func(a, b View) bool { return a.Entry == b.Entry })
}

// Use answers a look-up with an entry, which the session keeps until it is closed. It returns false if the entry has
// changed since it was viewed.
func (u *User) Use(v *View) bool {
	w := u.w
	w.mu.Lock()
	defer w.mu.Unlock()
	e := v.Entry
	if !e.Usable(w.loaded.id) || e.Record.Flags != v.Record.Flags {
		return false
	}
	u.useLocked(e)
	w.figures.Hits.Entries++
	w.figures.Hits.Bytes += int64(len(e.Data))
	return true
}

// Retain returns the entries that a packing is compared with, of all sessions. Each has one more reference to its
// memory, which Release gives back. The error is that of LookUp.
func (u *User) Retain(q *Query) (views []View, err error) {
	for {
		views, index := u.retain(q)
		if index == nil {
			return views, err
		}
		err = errors.Join(err, u.loadRecords(q, index))
	}
}

func (u *User) retain(q *Query) (views []View, index *format.Index) {
	u.w.mu.Lock()
	defer u.w.mu.Unlock()
	if views, index = u.viewsLocked(nil, q, true); index != nil {
		return nil, index
	}
	for i := range views {
		views[i].Entry.Region.Retain()
	}
	return views, nil
}

// Release gives back the references that Retain took.
func (u *User) Release(views []View) {
	for i := range views {
		u.w.Note(views[i].Entry.Region.Release())
	}
}

// loadRecords makes entries of the records that an index has under a query's key.
func (u *User) loadRecords(q *Query, index *format.Index) error {
	records := make([]format.Record, 0, 1) // as many as there are mostly
	for r, err := range index.Find(q.Key) {
		if err != nil {
			return u.w.damagedIndex(index, err)
		}
		records = append(records, r)
	}
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	if w.loaded.index == index {
		w.addLocked(&q.Key, records)
		q.complete = index
	}
	return nil
}

// addLocked adds entries of all records that the loaded index has under a key to those in memory.
func (w *Writer) addLocked(key *format.Key, records []format.Record) {
	present, _ := w.entries.Find(key, nil)
	for i := range records {
		r := &records[i]
		if w.damage[r.Offset] {
			continue
		}
		match := func(e *entries.Entry) bool { return e.Listed(w.loaded.id) && e.Record.Offset == r.Offset }
		if j := slices.IndexFunc(present, match); j >= 0 {
			present[j].Record.Flags |= r.Flags // which another process may have set
			continue
		}
		end := r.Offset + r.Size
		e := &entries.Entry{
			State: entries.Durable, Record: *r, File: w.loaded.id,
			Data: w.loaded.base.Data()[r.Offset:end:end], Region: w.loaded.base.Retain(),
		}
		w.entries.Add(e)
	}
	w.entries.MarkComplete(key, w.loaded.index)
}

// CountMiss counts a look-up that missed.
func (u *User) CountMiss() { u.w.locked(func() { u.w.figures.Misses++ }) }

// useLocked keeps an entry for as long as the session is open.
func (u *User) useLocked(e *entries.Entry) {
	w := u.w
	u.owner.Used = append(u.owner.Used, e)
	e.Sessions++
	switch {
	case e.Sessions > 1:
	case e.Reason == "":
		w.figures.MappedBytes += int64(len(e.Data))
	default:
		w.figures.PrivateBytes += int64(len(e.Data))
	}
}

// RecordSize records whether an entry has the size that its look-up expects. One with another size is damaged.
func (u *User) RecordSize(e *entries.Entry, err error) {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	switch {
	case err == nil:
		e.Sized = true
	case e.Withheld == nil:
		w.damagedPayloadLocked(e)
		w.figures.LastError = fmt.Errorf("cache %s: payload of %q: %w", w.name(), e.Name(), err)
	}
}

// VerifySum compares an entry with its checksum. A damaged one is withheld.
func (u *User) VerifySum(e *entries.Entry) {
	w := u.w
	region := w.retain(e)
	if region == nil {
		return
	}
	intact := SumMatches(e)
	w.mu.Lock()
	defer w.unlock()
	w.freed = append(w.freed, region)
	w.recordSumLocked(e, intact)
}

// retain adds a reference to an entry's memory, unless the entry was given up.
func (w *Writer) retain(e *entries.Entry) *store.Region {
	w.mu.Lock()
	defer w.unlock()
	if !e.Usable(w.loaded.id) {
		return nil
	}
	return e.Region.Retain()
}

// recordSumLocked records whether an entry's bytes have its checksum. It reports whether the entry is newly damaged.
func (w *Writer) recordSumLocked(e *entries.Entry, intact bool) (damaged bool) {
	switch {
	case e.Verified || e.Withheld != nil:
	case intact:
		w.figures.Verified.add(len(e.Data))
		e.Verified = true
	default:
		w.damagedPayloadLocked(e)
		return true
	}
	return false
}

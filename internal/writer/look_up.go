package writer

import (
	"errors"
	"fmt"
	"slices"

	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/store"
)

// A Query is what is looked up. It is asked again and again until it is answered.
type Query struct {
	Key  format.Key
	Seed uint32

	// Contents are those of the session's tensors. Without a kernel only its own entries, and those of sessions that
	// are finalized, may answer.
	Contents Contents

	complete *format.Index // all its records under the key are in memory
}

// SetLayout has the query be about another layout.
func (q *Query) SetLayout(layout format.Digest) { q.Key.Layout, q.complete = layout, nil }

// A View is what was known of an entry at some time.
type View struct {
	Entry        *entries.Entry
	Kernel, Bias *entries.Content // that it was packed from, if its record does not have that yet
	Record       format.Record

	Pending  bool // another session packed it, which is not finalized: Kernel and Bias must not be read
	Seed     bool // its bytes are what XNNPACK packs under the seed of the query
	Durable  bool
	Listed   bool // the loaded index has it
	Verified bool
	Sized    bool
}

func (u *User) viewLocked(e *entries.Entry, seed uint32) View {
	return View{
		Entry: e, Kernel: e.Kernel, Bias: e.Bias, Record: e.Record, Pending: !e.Identified() && e.Packer != u,
		Seed: e.PackedUnder(seed), Durable: e.State == entries.Durable, Listed: e.Listed(u.w.loaded.id),
		Verified: e.Verified, Sized: e.Sized,
	}
}

// answersLocked returns the candidates that may answer a query. One that another session packed may do so before that
// session has found out whether its sources changed only if this session finds out, too.
func (u *User) answersLocked(candidates []*entries.Entry, q *Query) []*entries.Entry {
	return entries.Filter(candidates, func(e *entries.Entry) bool {
		return e.Identified() || e.Packer == u || q.Contents.mayMatch(e)
	})
}

// candidatesLocked returns the entries that a query may be answered with. If the loaded index is to be asked first it
// returns that.
func (w *Writer) candidatesLocked(q *Query) ([]*entries.Entry, *format.Index) {
	matches := w.entries.ByKey(&q.Key)
	index := w.loaded.index
	if index == nil || q.complete == index || len(matches) > 0 && matches[0].Complete(index) {
		return entries.Filter(matches, func(e *entries.Entry) bool { return e.Usable(w.loaded.id) }), nil
	}
	return nil, index
}

// LookUp has judge decide which of some entries answers a query, from what is known of them: -1 if none does, or none
// yet. The session uses the one that answers it from then on. Of the others nothing but what is known may be used: they
// may be given up. The error, with Options.Strict, is that the loaded index turned out damaged.
func (u *User) LookUp(q *Query, judge func([]View) (hit int)) (hit int, views []View, err error) {
	err = u.withCandidates(q, func(candidates []*entries.Entry) {
		candidates = u.answersLocked(candidates, q)
		views = make([]View, 0, len(candidates))
		for _, e := range candidates {
			views = append(views, u.viewLocked(e, q.Seed))
		}
		if hit = judge(views); hit < 0 {
			u.seen = views
			return
		}
		u.useLocked(candidates[hit])
		u.w.figures.Hits.add(len(candidates[hit].Data))
	})
	return hit, views, err
}

// RetainCandidates returns the entries that what was packed is to be compared with. Each has one more reference to its
// memory, to be given to Free. The error is as of LookUp.
func (u *User) RetainCandidates(q *Query) (views []View, err error) {
	err = u.withCandidates(q, func(candidates []*entries.Entry) {
		for _, e := range candidates {
			e.Region.Retain()
			views = append(views, u.viewLocked(e, q.Seed))
		}
	})
	return views, err
}

// withCandidates calls do, with mu held, with the entries of a query's key, once all that the loaded index has are in
// memory.
func (u *User) withCandidates(q *Query, do func([]*entries.Entry)) (err error) {
	for {
		index := u.tryWithCandidates(q, do)
		if index == nil {
			return err
		}
		err = errors.Join(err, u.loadRecords(q, index))
	}
}

// tryWithCandidates does so, unless the index that it returns is to be asked first.
func (u *User) tryWithCandidates(q *Query, do func([]*entries.Entry)) *format.Index {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	candidates, index := w.candidatesLocked(q)
	if index == nil {
		do(candidates)
	}
	return index
}

// ReleaseCandidates gives up the references that Hold has taken.
func (u *User) ReleaseCandidates(views []View) {
	for _, v := range views {
		u.w.Note(v.Entry.Region.Release())
	}
}

// loadRecords has the records that an index has under a query's key in memory.
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
	present := w.entries.ByKey(key)
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

// CountMiss counts a look-up that was not answered.
func (u *User) CountMiss() { u.w.locked(func() { u.w.figures.Misses++ }) }

// useLocked keeps an entry for as long as the session is open.
func (u *User) useLocked(e *entries.Entry) {
	w := u.w
	u.used = append(u.used, e)
	e.Sessions++
	switch {
	case e.Sessions > 1:
	case e.Reason == "":
		w.figures.MappedBytes += int64(len(e.Data))
	default:
		w.figures.PrivateBytes += int64(len(e.Data))
	}
}

// RecordSize takes note of whether a candidate has the size that its look-up wants. One of the file that has another is
// not used again.
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

// VerifySum compares a candidate with its sum. One that is damaged is not used again.
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

// recordSumLocked takes note of whether an entry has the bytes that its sum was made of, and reports whether it turned
// out damaged.
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

package writer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
)

// A User is a session as the writer knows it. Its methods may be called beside those of other users, and one after the
// other by its session.
type User struct {
	w      *Writer
	handle *Handle

	pins sync.WaitGroup // of others that read the session's tensors; added to with mu held

	used  []*entries.Entry // once for each time that it was given or kept
	lost  error            // the disk lost packed weights that the runtime uses
	packs bool             // it is counted in Writer.packing
}

// NewUser begins a session, which picks up what other processes have committed. expected is about how many entries it
// will use.
func (h *Handle) NewUser(expected int) (*User, error) {
	w := h.w
	if err := w.refresh(); err != nil {
		if w.options.Strict {
			return nil, err
		}
		w.note(err) // what is loaded serves on
	}
	w.mu.Lock()
	defer w.unlock()
	if !h.open {
		return nil, fmt.Errorf("cache %s: %w", w.name(), ErrClosed)
	}
	u := &User{w: w, handle: h, used: make([]*entries.Entry, 0, expected)}
	w.users[u] = true
	w.verifier.putOff()
	return u, nil
}

// A Query is what is looked up. It is asked again and again until it is answered, or its user asks another.
type Query struct {
	Key  format.Key
	Seed uint32

	// Compared: what was packed was compared with what answers it, and nobody looked it up.
	Compared bool

	family   *entries.Family
	surveyed *format.Index // all its records under the key are in memory
	room     [1]View       // for as many as there are mostly
}

// Reset makes q another query. family is what Family returned for one about the same kernel, or nil.
func (q *Query) Reset(key format.Key, seed uint32, family *entries.Family) {
	q.Key, q.Seed, q.Compared, q.family, q.surveyed = key, seed, false, family, nil
}

// Under has the query be about another layout.
func (q *Query) Under(layout format.Digest) { q.Key.Layout, q.surveyed = layout, nil }

// Family returns what the query has learned of its kernel's name, to be given to the next one about it.
func (q *Query) Family() *entries.Family { return q.family }

// A View is what was known of an entry at some time.
type View struct {
	Entry        *entries.Entry
	Kernel, Bias *entries.Content // what it was packed from, if it does not say so yet

	Source                    format.Digest
	KernelStamp, KernelDigest format.Digest
	BiasStamp, BiasDigest     format.Digest
	Flags                     format.Flags

	Seed     bool // its bytes are what XNNPACK packs under the seed of the query
	Private  bool
	Durable  bool
	Listed   bool // the loaded index has it
	Verified bool
	Sized    bool
}

func (w *Writer) viewLocked(e *entries.Entry, seed uint32) View {
	r := &e.Record
	return View{
		Entry: e, Kernel: e.Kernel, Bias: e.Bias,
		Source: r.Source, KernelStamp: r.KernelStamp, KernelDigest: r.KernelDigest,
		BiasStamp: r.BiasStamp, BiasDigest: r.BiasDigest, Flags: r.Flags,
		Seed: e.PackedUnder(seed), Private: e.Reason != "", Durable: e.State() == entries.Durable,
		Listed: e.Listed(w.loaded.id), Verified: e.Verified, Sized: e.Sized,
	}
}

// candidatesLocked returns the entries that a query may be answered with. If the loaded index is to be asked first it
// returns that: see Survey.
func (w *Writer) candidatesLocked(q *Query) ([]*entries.Entry, *format.Index) {
	q.family = w.entries.Family(q.Key.Kernel, q.family)
	under := q.family.Under(&q.Key)
	index := w.loaded.index
	if index == nil || q.surveyed == index || len(under) > 0 && under[0].Surveyed(index) {
		return entries.Only(under, func(e *entries.Entry) bool { return e.Given(w.loaded.id) }), nil
	}
	return nil, index
}

// A Judge decides which of some entries answers its query, from what is known of them: -1 if none does, or none yet.
type Judge interface {
	Judge([]View) (hit int)
}

// LookUp has a judge decide about the entries that a query may be answered with. The session uses the one that answers
// it from then on. The entries are there until the query is asked again. If the loaded index is to be asked first,
// nothing is decided and it is returned, for Survey.
func (u *User) LookUp(q *Query, j Judge) (hit int, among []View, ask *format.Index) {
	hit, among, ask, unread := u.lookUp(q, j)
	if unread != nil {
		u.w.openToVerify(unread)
	}
	return hit, among, ask
}

// lookUp also returns the index that openToVerify is to be called with, or nil.
func (u *User) lookUp(q *Query, j Judge) (hit int, among []View, ask, unread *format.Index) {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	candidates, index := w.candidatesLocked(q)
	if index != nil {
		return -1, nil, index, nil
	}
	among = q.room[:0]
	for _, e := range candidates {
		among = append(among, w.viewLocked(e, q.Seed))
	}
	if hit = j.Judge(among); hit >= 0 {
		u.useLocked(candidates[hit])
		if !q.Compared {
			w.figures.Hits.add(len(candidates[hit].Data))
		}
	}
	return hit, among, nil, w.verifier.unread()
}

// Hold is Candidates for whoever is going to read their bytes: each has one more reference to its memory, to be given
// to Free.
func (u *User) Hold(q *Query) ([]View, *format.Index) {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	candidates, index := w.candidatesLocked(q)
	return w.holdLocked(candidates, q.Seed), index
}

func (w *Writer) holdLocked(of []*entries.Entry, seed uint32) []View {
	views := make([]View, 0, len(of))
	for _, e := range of {
		e.Region.Retain()
		views = append(views, w.viewLocked(e, seed))
	}
	return views
}

// Look returns what is known of an entry now.
func (u *User) Look(e *entries.Entry, seed uint32) View {
	u.w.mu.Lock()
	defer u.w.mu.Unlock()
	return u.w.viewLocked(e, seed)
}

// HoldUnnamed returns the entries without a name whose bytes have a digest, as Hold does.
func (u *User) HoldUnnamed(sum format.Digest) []View {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	return w.holdLocked(w.entries.Unnamed(sum), 0)
}

// Free gives up the references that Hold has taken.
func (u *User) Free(views []View) {
	for _, v := range views {
		u.w.note(v.Entry.Region.Release())
	}
}

// Survey has the records that an index has under a query's key in memory. The error, with Options.Strict, is that the
// index turned out damaged.
func (u *User) Survey(q *Query, index *format.Index) error {
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
		w.addLocked(q.family, &q.Key, records)
		q.surveyed = index
	}
	return nil
}

// addLocked adds entries of all records that the loaded index has under a key to those in memory.
func (w *Writer) addLocked(f *entries.Family, key *format.Key, records []format.Record) {
	known := f.Under(key)
	for i := range records {
		r := &records[i]
		if w.damage[r.Offset] {
			continue
		}
		same := func(e *entries.Entry) bool { return e.Listed(w.loaded.id) && e.Record.Offset == r.Offset }
		if at := slices.IndexFunc(known, same); at >= 0 {
			known[at].Record.Flags |= r.Flags // which another process may have set
			continue
		}
		e := w.entries.New()
		end := r.Offset + r.Size
		e.Record, e.File = *r, w.loaded.id
		e.Data, e.Region = w.loaded.base.Data()[r.Offset:end:end], w.loaded.base.Retain()
		w.becomeLocked(e, entries.Durable)
		w.entries.Add(e)
	}
	w.entries.Family(key.Kernel, f).Survey(key, w.loaded.index)
}

// Missed counts a look-up that was not answered.
func (u *User) Missed() {
	u.w.mu.Lock()
	defer u.w.mu.Unlock()
	u.w.figures.Misses++
}

// useLocked keeps an entry for as long as the session is open.
func (u *User) useLocked(e *entries.Entry) {
	w := u.w
	u.used = append(entries.Roomier(u.used, 0), e)
	w.verifyLaterLocked(e)
	e.Sessions++
	switch {
	case e.Sessions > 1:
	case e.Reason == "":
		w.figures.MappedBytes += int64(len(e.Data))
		w.mapLaterLocked(e)
	default:
		w.figures.PrivateBytes += int64(len(e.Data))
	}
}

// Pin keeps the tensors that an entry was packed from, which another session may have, until the result is called. It
// is nil if the entry says by now what it was packed from.
func (u *User) Pin(e *entries.Entry) (unpin func()) {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	if e.Kernel == nil {
		return nil
	}
	by := e.By.(*User)
	by.pins.Add(1)
	return by.pins.Done
}

// Sized takes note of whether a candidate has the size that its look-up wants. One of the file that has another is not
// used again.
func (u *User) Sized(e *entries.Entry, err error) {
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

// Intact compares a candidate with its sum. One that is damaged is not used again.
func (u *User) Intact(e *entries.Entry) {
	w := u.w
	region := w.retain(e)
	if region == nil {
		return
	}
	sum, err := osdisk.Sum(e.Data)
	w.mu.Lock()
	defer w.unlock()
	w.freed = append(w.freed, region)
	w.judgeLocked(e, err == nil && sum == e.Record.Sum)
}

// retain adds a reference to an entry's memory, unless the entry was given up.
func (w *Writer) retain(e *entries.Entry) *store.Region {
	w.mu.Lock()
	defer w.unlock()
	if !e.Given(w.loaded.id) {
		return nil
	}
	return e.Region.Retain()
}

// judgeLocked takes note of whether an entry has the bytes that its sum was made of.
func (w *Writer) judgeLocked(e *entries.Entry, intact bool) {
	switch {
	case e.Verified || e.Withheld != nil:
	case intact:
		w.figures.Verified.add(len(e.Data))
		e.Verified = true
	default:
		w.damagedPayloadLocked(e)
	}
}

// BecomeWriter makes this process the file's writer for as long as the session packs, waiting for another process
// within limits. changed: what the cache holds may have changed since. reason is why the session is not to write to the
// file, or "".
func (u *User) BecomeWriter() (changed bool, reason string) {
	w := u.w
	if w.inMemory() || u.writes() {
		return false, ""
	}
	w.leave(u) // the file has ended or was replaced: it begins anew with the one that is there then
	return true, w.begin(u)
}

// writes reports whether the session packs into the file at the path.
func (u *User) writes() bool {
	u.w.mu.Lock()
	defer u.w.mu.Unlock()
	return u.packs && u.w.loaded.written
}

// StopWriting gives the writer's lock up, unless something else in this process needs it.
func (u *User) StopWriting() {
	w := u.w
	w.leave(u)
	st := w.file.take()
	defer w.file.give()
	if !w.file.storing { // else whoever stores does so afterwards: a look-up is not to wait for a flush
		w.note(w.endIfUnneeded(st))
	}
}

// Reserve returns n bytes of the file to pack into, for an entry whose names have so many bytes. about following more
// are expected. The error is why there are none; BecomeWriter must be asked again if it is ErrReplaced.
func (u *User) Reserve(n, names, following uint64) (store.Reservation, error) {
	st := u.w.file.take()
	defer u.w.file.give()
	if !st.Writing() {
		u.w.notice(st)
		return store.Reservation{}, fmt.Errorf("cache %s: %w", u.w.name(), store.ErrReplaced)
	}
	r, err := st.Reserve(n, names)
	if err != nil {
		u.w.note(err)
		return r, err
	}
	st.Supply(following)
	return r, nil
}

// Cancel gives up space of the file that nothing stays in.
func (u *User) Cancel(r store.Reservation) {
	st := u.w.file.take()
	defer u.w.file.give()
	u.w.note(st.Cancel(r))
}

// A Sum is the sum of bytes in memory, or why they cannot be read.
type Sum struct {
	Sum format.Digest
	Err error
}

// Packed is what was packed, and where it lies.
type Packed struct {
	Record       format.Record // but for what identifies it
	Kernel, Bias *entries.Content
	Space        store.Reservation
	InFile       bool   // or else in private memory
	Reason       string // why it is private, or ""
	Sum          *Sum   // of the bytes; nil, and it is computed beside
	Took         time.Duration
}

// A Lot is what becomes of an entry beside which something was packed under its key.
type Lot uint8

// The lots of entries.
const (
	Stays   Lot = iota
	Taken       // it is used in place of what was packed
	Tied        // so, and it is what all uses of its key are packed into
	Varies      // it and what was packed are variants
	Damaged     // it is not what it was when it was packed
)

// Keep does with the entries that were seen what was decided. It returns the entry that the session uses from now on:
// one of them, or a new one of what was packed, made false. It returns nil if there are other entries by now.
func (u *User) Keep(q *Query, p *Packed, seen []View, lots []Lot) (kept *entries.Entry, made bool) {
	adopted := p.InFile && u.w.foreignHas(p)
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	now, index := w.candidatesLocked(q)
	if index != nil || !same(now, seen) {
		return nil, false
	}
	for i, lot := range lots {
		e := seen[i].Entry
		switch lot {
		case Taken, Tied:
			w.adoptLocked(e, q.Seed, lot == Tied)
			kept = e
		case Damaged:
			w.damagedPayloadLocked(e)
		case Varies:
			p.Record.Flags |= format.Variant
			w.setFlagLocked(e, format.Variant)
		}
	}
	if kept == nil {
		kept, made = w.makeLocked(u, q, p), true
		if adopted {
			w.figures.Adopted.add(len(kept.Data))
		}
	}
	w.figures.PackingTime += p.Took
	u.useLocked(kept)
	return kept, made
}

func same(now []*entries.Entry, seen []View) bool {
	return slices.EqualFunc(now, seen, func(e *entries.Entry, v View) bool { return e == v.Entry })
}

// KeepUnnamed is Keep for what nothing identifies. equal is the one of those seen with the very bytes, or nil.
func (u *User) KeepUnnamed(sum format.Digest, p *Packed, seen []View, equal *entries.Entry) (
	kept *entries.Entry, made bool) {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	if !same(w.entries.Unnamed(sum), seen) {
		return nil, false
	}
	if kept = equal; kept == nil {
		kept, made = &entries.Entry{Data: p.Space.Data, Region: p.Space.Region, Reason: ReasonUnnamed}, true
		kept.Record.Sum = sum
		if p.InFile { // its look-up had names
			kept.By = u // who is to know if it is lost
			w.fillLocked(kept, p)
			kept.Withhold(errUnnamed)
		} else {
			w.becomeLocked(kept, entries.Private)
		}
		w.entries.AddUnnamed(kept)
		w.countPrivateLocked(kept)
	} else {
		w.figures.Reused.add(len(kept.Data))
	}
	w.figures.PackingTime += p.Took
	u.useLocked(kept)
	return kept, made
}

var errUnnamed = errors.New("nothing identifies what it was packed from")

// foreignHas reports whether ExecuTorch's file at the path has the bytes that were packed, under their name.
func (w *Writer) foreignHas(p *Packed) bool {
	st := w.file.take()
	defer w.file.give()
	return st.ForeignHas(p.Record.Kernel+p.Record.Bias, p.Space.Data)
}

// Reuse takes a candidate that the session uses in place of what was packed into its very bytes.
func (u *User) Reuse(q *Query, e *entries.Entry, took time.Duration) {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	w.figures.PackingTime += took
	w.adoptLocked(e, q.Seed, false)
}

// adoptLocked takes note that a packing gave the bytes of an entry.
func (w *Writer) adoptLocked(e *entries.Entry, seed uint32, tied bool) {
	if !e.PackedUnder(seed) {
		e.OtherSeeds = append(e.OtherSeeds, seed)
	}
	if tied {
		w.setFlagLocked(e, format.Tied)
	}
	if e.State() == entries.Durable && !e.Verified && w.options.Repack {
		w.figures.Verified.add(len(e.Data))
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
	e := w.entries.New()
	e.Record = p.Record
	e.Record.Key, e.Record.Seed = q.Key, q.Seed
	e.Kernel, e.Bias, e.By = p.Kernel, p.Bias, u
	e.Verified, e.Sized = true, true
	e.Data, e.Region = p.Space.Data, p.Space.Region
	if p.InFile {
		e.Record.Offset, e.Record.Size = p.Space.Offset(), uint64(len(e.Data))
		w.fillLocked(e, p)
	} else {
		e.Reason = p.Reason
		w.becomeLocked(e, entries.Private)
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
	w.becomeLocked(e, entries.Written)
	store.Filled(p.Space)
	switch {
	case p.Space.Region.Lost():
		w.loseEntriesLocked([]*entries.Entry{e}, store.ErrFlush)
	case e.File == w.loaded.id:
		w.entries.AddUnlisted(e)
		w.sumLocked(e, p.Sum)
	}
}

// sumLocked has an entry have its sum, which is computed beside if it is not known.
func (w *Writer) sumLocked(e *entries.Entry, sum *Sum) {
	if sum != nil {
		w.summedLocked(e, sum)
		return
	}
	region := e.Region.Retain()
	w.summing++
	go func() {
		var s Sum
		s.Sum, s.Err = osdisk.Sum(e.Data)
		w.mu.Lock()
		defer w.unlock()
		w.summedLocked(e, &s)
		w.freed = append(w.freed, region)
		w.summing--
		w.changed.Broadcast()
	}()
}

// summedLocked takes note of an entry's sum, or that its bytes cannot be read any more.
func (w *Writer) summedLocked(e *entries.Entry, s *Sum) {
	e.Record.Sum, e.Summed = s.Sum, true
	if s.Err != nil {
		w.noteLocked(fmt.Errorf("cache %s: payload of %q: %w", w.name(), e.Name(), s.Err))
		w.loseEntriesLocked([]*entries.Entry{e}, s.Err)
	}
}

func (w *Writer) countPrivateLocked(e *entries.Entry) {
	count := w.figures.Private[e.Reason]
	count.add(len(e.Data))
	w.figures.Private[e.Reason] = count
}

// CountCopied counts packed bytes that were copied to where they stay.
func (u *User) CountCopied(n int) {
	u.w.mu.Lock()
	defer u.w.mu.Unlock()
	u.w.figures.CopiedBytes += int64(n)
}

// Used returns the entries that the session uses, one for each time that it was given or kept. They are there until
// Close.
func (u *User) Used() []*entries.Entry {
	u.w.mu.Lock()
	defer u.w.mu.Unlock()
	return u.used
}

// Names returns the names of those, but of unnamed ones.
func (u *User) Names() (names []string) {
	u.w.mu.Lock()
	defer u.w.mu.Unlock()
	for _, e := range u.used {
		if e.Reason != ReasonUnnamed {
			names = append(names, e.Name())
		}
	}
	return names
}

// Unfinished is what is to be read and asked before a session is finished.
type Unfinished struct {
	Own    []Own           // entries that the session packed, each as often as it uses it
	Others bool            // it uses what others have packed, which does not say yet from what
	Asked  []entries.Watch // of those; they are there until Unpin is called
	Unpin  func()
}

// An Own is an entry that the session packed, and what from.
type Own struct {
	Entry        *entries.Entry
	Kernel, Bias *entries.Content
}

// Unfinished returns what the session's entries were packed from. asks reports whether another session's tensors from
// somewhere are to be asked whether they were changed.
func (u *User) Unfinished(asks func(*entries.Origin) bool) (unfinished Unfinished) {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	var pinned []*User
	for _, e := range u.used {
		switch by, _ := e.By.(*User); {
		case e.Kernel == nil:
		case by == u:
			unfinished.Own = append(unfinished.Own, Own{e, e.Kernel, e.Bias})
		default:
			unfinished.Others = true
			for _, c := range []*entries.Content{e.Kernel, e.Bias} {
				if c == nil || c.Origin.Watch == nil || !asks(c.Origin) {
					continue
				}
				by.pins.Add(1)
				pinned = append(pinned, by)
				unfinished.Asked = append(unfinished.Asked, c.Origin.Watch)
			}
		}
	}
	unfinished.Unpin = func() {
		for _, by := range pinned {
			by.pins.Done()
		}
	}
	return unfinished
}

// A Restamp is an entry that was found by the content of tensors whose stamps it does not have, or by the bytes packed
// from them.
type Restamp struct {
	Entry        *entries.Entry
	Kernel, Bias *entries.Content
}

// An Ending is what a session has found out, having read what it was to read.
type Ending struct {
	Changed  error            // what it packed from was changed meanwhile, or nil
	Restamps []Restamp        // what it found
	Variants []*entries.Entry // of what it packed, those that are not all that their key may stand for
	Errors   error            // that did the runtime no harm
}

// Finish says in the session's entries what they were packed from, and has them committed in a moment. The runtime must
// not be used if what it uses was packed from a source that changed, or is lost by now. When it returns nobody reads
// the session's tensors any more.
func (u *User) Finish(end Ending) (changed, lost error) {
	changed, lost = u.conclude(end)
	u.endSupply()
	u.pins.Wait()
	u.w.beginVerifying()
	return changed, lost
}

func (u *User) conclude(end Ending) (changed, lost error) {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	changed = errors.Join(u.mixedLocked(), end.Changed)
	if changed != nil {
		end.Restamps = nil
		u.mixLocked()
	}
	for _, r := range end.Restamps {
		w.restampLocked(&r)
	}
	for _, e := range end.Variants {
		w.setFlagLocked(e, format.Variant)
	}
	for _, e := range u.used {
		w.noteLocked(u.identifyLocked(e))
	}
	w.noteLocked(end.Errors)
	w.mapSoonLocked()
	if u.packs {
		w.leaveLocked(u)
		w.commitSoonLocked() // and the lock is given up after it
	}
	return changed, u.lost
}

// endSupply ends the supplying of memory if nobody packs any more, and commits what was only changed.
func (u *User) endSupply() {
	w := u.w
	if w.inMemory() {
		return
	}
	packing, dirty := w.quiet()
	if !packing {
		st := w.file.take()
		st.EndSupply()
		w.file.give()
	}
	if dirty && w.beginAtOnce() {
		w.start()
	}
}

// quiet reports whether a user packs, and whether there is nothing but changes to be committed.
func (w *Writer) quiet() (packing, dirty bool) {
	w.mu.Lock()
	defer w.unlock()
	return w.packing > 0, w.dirty && w.activity != due && w.packing == 0
}

func (w *Writer) start() {
	w.mu.Lock()
	defer w.unlock()
	w.startLocked()
}

// mixedLocked returns an error if the session uses what another packed from a source that changed.
func (u *User) mixedLocked() error {
	for _, e := range u.used {
		if errors.Is(e.Withheld, entries.ErrSourceChanged) {
			return fmt.Errorf("packed weights %q of another session: their source was %w",
				e.Name(), entries.ErrSourceChanged)
		}
	}
	return nil
}

// mixLocked keeps nothing of what the session packed.
func (u *User) mixLocked() {
	for _, e := range u.used {
		if e.Kernel != nil && e.By == u {
			e.Withhold(entries.ErrSourceChanged)
		}
	}
}

// identifyLocked writes into an entry's record what it was packed from, all of which was read. From then on it can be
// committed.
func (u *User) identifyLocked(e *entries.Entry) error {
	if e.Kernel == nil || e.By != u {
		return nil // found, or packed by another session, which will do it
	}
	kernel, bias, r := e.Kernel, e.Bias, &e.Record
	digest, _, err := kernel.Known()
	r.Source, r.KernelStamp, r.KernelDigest = kernel.Origin.Source, kernel.Stamp, digest
	if bias != nil {
		digest, _, biasErr := bias.Known()
		r.BiasStamp, r.BiasDigest = bias.Stamp, digest
		err = errors.Join(err, biasErr)
	}
	e.Kernel, e.Bias, e.By = nil, nil, nil
	if err != nil {
		e.Withhold(err) // nobody knows what it was packed from
	}
	return err
}

// Needed reports whether an entry's stamps or digests may have to be written anew.
func (r *Restamp) Needed(v *View) bool {
	return v.Kernel == nil && !v.Private &&
		r.differs(v.Source, v.KernelStamp, v.KernelDigest, v.BiasStamp, v.BiasDigest)
}

func (r *Restamp) differs(source, kernelStamp, kernelDigest, biasStamp, biasDigest format.Digest) bool {
	origin, none := r.Kernel.Origin.Source, format.Digest{}
	if source == none && origin != none {
		return true
	}
	return source == origin &&
		(r.Kernel.MayDiffer(kernelStamp, kernelDigest) || r.Bias.MayDiffer(biasStamp, biasDigest))
}

// restampLocked brings an entry's stamps and digests up to date with tensors, all of which were read. Where one content
// comes from several sources, the first keeps its stamps: they would be rewritten with every change of source.
func (w *Writer) restampLocked(r *Restamp) {
	e := r.Entry
	is := &e.Record
	if e.Kernel != nil || e.Reason != "" ||
		!r.differs(is.Source, is.KernelStamp, is.KernelDigest, is.BiasStamp, is.BiasDigest) {
		return
	}
	// What was packed elsewhere (package registry) is this source's from now on.
	if origin := r.Kernel.Origin.Source; is.Source != origin {
		is.Source = origin
		e.Changed, w.dirty = true, true
	}
	update := func(c *entries.Content, stamp, digest *format.Digest) {
		if !c.MayDiffer(*stamp, *digest) {
			return
		}
		d, known, err := c.Known()
		if !known || err != nil {
			return
		}
		*stamp, *digest = c.Stamp, d
		e.Changed, w.dirty = true, true
	}
	update(r.Kernel, &is.KernelStamp, &is.KernelDigest)
	update(r.Bias, &is.BiasStamp, &is.BiasDigest)
}

// Lost returns why the session's runtime must not be used any more, as far as is known, or nil.
func (u *User) Lost() error {
	u.w.mu.Lock()
	defer u.w.mu.Unlock()
	return u.lost
}

// Check is Lost once the file was looked at: whether it is still the one that was loaded, and whether the disk has
// failed to take something.
func (u *User) Check() error {
	w := u.w
	file, err := u.toCheck()
	if err != nil || file == nil {
		return err
	}
	if err := file.Check(); err != nil {
		w.lost(file.File(), err)
	}
	return u.Lost()
}

func (u *User) toCheck() (*store.Loaded, error) {
	u.w.mu.Lock()
	defer u.w.mu.Unlock()
	return u.w.loaded.file, u.lost
}

func (u *User) loseLocked(e *entries.Entry, why error) {
	u.lost = cmp.Or(u.lost, fmt.Errorf("packed weights of %q: %w: %w", e.Name(), ErrLost, why))
}

// loseAnyLocked takes note of it if the session uses one of the entries.
func (u *User) loseAnyLocked(gone map[*entries.Entry]bool, why error) {
	if u.lost != nil {
		return
	}
	if i := slices.IndexFunc(u.used, func(e *entries.Entry) bool { return gone[e] }); i >= 0 {
		u.loseLocked(u.used[i], why)
	}
}

// Close ends the session. Private packed weights that no other session uses are given up.
func (u *User) Close() {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	for _, e := range u.used {
		w.releaseLocked(e)
	}
	u.used = nil
	w.verifier.dropUnwanted()
	delete(w.users, u)
	w.changed.Broadcast()
	if w.loaded.written && w.packing == 0 {
		w.commitSoonLocked() // gives the lock to others, if nothing is to be committed
	}
}

// releaseLocked ends a session's use of an entry. One that no further session is given is freed at once when nobody
// uses it, and so are private ones, if the cache has a file, and memory of a file that is no longer in place. Others
// stay for the next session.
func (w *Writer) releaseLocked(e *entries.Entry) {
	e.Sessions--
	if e.Sessions > 0 {
		return
	}
	if e.Reason == "" {
		w.figures.MappedBytes -= int64(len(e.Data))
	} else {
		w.figures.PrivateBytes -= int64(len(e.Data))
	}
	if e.Reason == "" && e.Given(w.loaded.id) && (w.inMemory() || e.Region.File() == w.loaded.id) {
		return
	}
	w.becomeLocked(e, entries.Dropped)
	w.entries.Remove(e)
	w.freed = append(w.freed, e.Region)
}

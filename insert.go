package xpwc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/mapped"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/internal/writer"
)

// A space is a reservation that XNNPACK packs into.
type space struct {
	store.Reservation
	kind    packingKind
	sources []*source // that will be read for it, as far as it was announced
	miss    *miss     // that announced it, or nil

	reason Reason // why it stays in private memory, or ""
}

type packingKind int

const (
	inFile packingKind = iota
	inScratch
	inPrivate
)

// A packer keeps what XNNPACK packs in a session: in the file, or in private memory.
type packer struct {
	cache    *Cache
	user     *writer.User
	packings map[uintptr]space // reserved and not yet inserted, by address
	scratch  *store.Region     // for packings that are compared, while none is packed there
	noFile   Reason            // why the session packs into private memory, or ""
	work     work
	err      error // the first that a callback could not return
}

// A work is what XNNPACK had to do for a session.
type work uint8

const (
	workNone  work = iota
	workEqual      // it packed something that the cache had, or uses what a session that is not finalized packed
	workNew        // it packed something that the cache did not have
)

// fail keeps the first error, if there is one, that a callback has no way to return: the runtime must not be used, or
// XNNPACK cannot create it.
func (k *packer) fail(err error) { k.err = cmp.Or(k.err, err) }

// note keeps and reports an error that does the runtime no harm, if there is one.
func (k *packer) note(err error) { k.cache.writer.Note(err) }

// startWriting makes this process the file's writer for as long as the session packs, waiting for another process
// within limits. It reports whether the cache may have changed since.
func (k *packer) startWriting() (changed bool) {
	if k.noFile != "" {
		return false
	}
	changed, reason := k.user.StartWriting()
	k.noFile = Reason(reason)
	return changed
}

// reserve serves XNNPACK's reserve_space: n bytes to pack into, or nil if there is no memory or nothing to pack.
func (s *Session) reserve(n uint64) []byte {
	p := s.reserveSpace(n)
	if p.kind != inScratch && !store.FitsArena(n) {
		osdisk.Supply(p.Data) // all of it is about to be written, and a fault for each page takes longer
	}
	return p.Data
}

// reserveSpace returns reserve's bytes with their location. Without memory it returns no bytes.
func (s *Session) reserveSpace(n uint64) (p space) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if p.Data == nil {
			s.user.Unclaim() // XNNPACK fails
		}
	}()
	if s.state != stateLoading {
		s.fail(fmt.Errorf("reserve %d bytes: %w", n, ErrFinalized))
		return space{}
	}
	announced := s.announced
	s.announced = nil
	var err error
	switch {
	case announced != nil && announced.failed:
		return space{}
	case announced == nil || announced.comparable:
		p, err = s.reserveScratch(n)
	case announced.named:
		p, err = s.reserveKept(n, announced.weight)
	default:
		p, err = s.reservePrivate(n)
	}
	if err != nil {
		s.fail(fmt.Errorf("reserve %d bytes: %w", n, err))
		return space{}
	}
	if announced != nil {
		p.sources, p.miss = announced.sources(), announced
	}
	s.packings[addressOf(p.Data)] = p
	return p
}

// reserveKept reserves where a new named entry belongs: in the file, in the memory of a cache without a file, or, with
// the reason counted later, in private memory.
func (k *packer) reserveKept(n uint64, w *weight) (space, error) {
	for !k.cache.inMemory() {
		k.startWriting()
		if k.noFile != "" {
			break
		}
		r, err := k.user.Reserve(n, uint64(len(w.Key.Kernel)+len(w.Key.Bias)))
		switch {
		case err == nil:
			return space{Reservation: r, kind: inFile}, nil
		case !errors.Is(err, ErrReplaced): // else it begins anew with the file that is there then
			k.noFile = ReasonDisk
		}
	}
	return k.reservePrivate(n)
}

func (k *packer) reservePrivate(n uint64) (space, error) {
	r, err := k.cache.arena.Alloc(n)
	return space{Reservation: r, kind: inPrivate}, err
}

// reserveScratch reserves space that is used again for the next packing, unless what is packed there stays.
func (k *packer) reserveScratch(n uint64) (space, error) {
	r := k.scratch
	if r == nil || uint64(len(r.Data())) < n {
		k.recycleScratch(nil)
		var err error
		if r, err = k.cache.arena.Region(n); err != nil {
			return space{}, err
		}
	}
	k.scratch = nil // until it is given up
	return space{Reservation: store.Reservation{Region: r, Data: r.Data()[:n:n]}, kind: inScratch}, nil
}

// recycleScratch has the next packing use a region as scratch; nil: none.
func (k *packer) recycleScratch(r *store.Region) {
	if k.scratch != nil {
		k.note(k.scratch.Release())
	}
	k.scratch = r
}

// insert serves XNNPACK's look_up_or_insert: the address where size bytes equal to those at the packed address stay.
// It never fails: what goes wrong is kept for Finalize, and the bytes stay where they were packed.
func (s *Session) insert(key lookUpKey, packed uintptr, size uint64) uintptr {
	progress, read, address := s.insertQuietly(key, packed, size)
	for _, src := range read {
		src.endRead()
	}
	if progress != nil { // a panic of the host's function must not keep XNNPACK from the address
		s.note(guarded("Options.Progress", func() error { s.cache.progress(*progress); return nil }))
	}
	return address
}

// insertQuietly is insert without the calls of the host, which must not run under the lock: it returns the progress to
// report and the sources that were read.
func (s *Session) insertQuietly(key lookUpKey, packed uintptr, size uint64) (
	progress *Progress, read []*source, address uintptr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.user.Unclaim()
	w := s.weight(key)
	if packed == 0 { // GEMM convolution hands in nothing when its look-up was a hit
		if w.named {
			if e := w.answer().entry; e != nil {
				return nil, nil, addressOf(e.Data)
			}
		}
	}
	p, ok := s.packings[packed]
	if !ok || size > uint64(len(p.Data)) {
		s.fail(fmt.Errorf("XNNPACK hands in %d bytes at %#x, which were not reserved", size, packed))
		return nil, nil, packed
	}
	delete(s.packings, packed)
	if read = p.sources; read == nil { // packed without a look-up
		read = w.sources()
		for _, src := range read {
			src.beginRead()
		}
	}
	for _, src := range w.sources() {
		if src.presence != present {
			s.fail(fmt.Errorf("tensor %q was packed without a look-up: %w", src.name, ErrNotEager))
			w.named = false
		}
	}
	s.work = max(s.work, workEqual)
	p.Data = p.Data[:size:size]
	if w.named && s.layoutState != layoutKnown {
		s.choosePackedLayout(w)
	}
	if s.user.Claimed() {
		w.identify()
	}
	e, isNew := s.keepPacked(w, p)
	s.notePacked(w, p.miss, e, isNew)
	s.evictPacked(p.sources)
	if w.named {
		w.answer().entry = e
	}
	if p.miss != nil { // otherwise the report keeps it
		s.spare = w
	}
	if s.cache.progress != nil {
		progress = &Progress{Name: e.Name(), Bytes: int64(size), Done: s.done, Total: s.total}
	}
	return progress, read, addressOf(e.Data)
}

// identify computes the digests of tensors without stamps. Sessions that wait for the entry compare them.
func (w *weight) identify() {
	for _, src := range w.sources() {
		if src.identity.Stamp == (Digest{}) {
			_, _ = src.identity.Digest()
		}
	}
}

// hasBytes reports whether an entry has these bytes. Bytes that the disk cannot read differ, and raise no signal.
func hasBytes(e *entries.Entry, b []byte) (equal bool) {
	_ = mapped.Faultless(func() { equal = bytes.Equal(e.Data, b) })
	return equal
}

// keepPacked returns the entry of a packing, which the session uses from here on: a stored one with equal bytes,
// or a new one. Bytes are compared without a lock; if the stored entries have changed meanwhile, they are compared
// again.
func (s *Session) keepPacked(w *weight, p space) (entry *entries.Entry, isNew bool) {
	// XNNPACK's seed is the same for transposed shapes, and so are the name and bytes that are all equal: without a
	// packing identity, a packing of zeros [4, 8] must not answer for zeros [8, 4].
	variant := w.named && !w.kernel.packing.complete && uniform(w.kernel.content)
	for w.named {
		stored, err := s.user.Retain(&w.Query)
		s.fail(err)
		actions := compare(s.inspectStored(w, p, stored))
		equal := slices.Index(actions, writer.Reuse)
		switch {
		case equal < 0 && w.layoutAssumed: // a new entry must be of this machine's layout
			s.confirmLayout(w)
		case equal < 0 && !s.inPlace(p):
			// Another process may have packed it while this one waited to become the writer.
			if p.kind == inFile || !s.startWriting() {
				p = s.moveToFile(p, w)
			}
		default:
			if equal >= 0 && w.answer().entry == stored[equal].Entry {
				actions[equal] = writer.ReuseTied
			}
			packed := s.packedFrom(w, p, variant)
			entry, isNew = s.user.Insert(&w.Query, &packed, stored, actions)
			switch {
			case isNew:
				s.keptPacked(Reason(packed.Reason), entry)
			case entry != nil:
				s.discard(p)
				s.addRestamp(w, &stored[equal])
			}
		}
		s.user.Release(stored)
		if entry != nil {
			return entry, isNew
		}
	}
	return s.keepUnnamed(p), true
}

// packedFrom describes what was packed of a weight.
func (s *Session) packedFrom(w *weight, p space, variant bool) writer.Packed {
	packed := writer.Packed{
		Contents: w.contents(), Space: p.Reservation, InFile: p.kind == inFile,
	}
	packed.Record.Key = w.Key
	w.kernel.packing.describe(&packed.Record, len(p.Data), w.kernel.copyOf != nil)
	if variant {
		packed.Record.Flags |= format.Variant
	}
	if p.kind != inFile && !s.cache.inMemory() {
		packed.Reason = string(cmp.Or(p.reason, s.noFile))
	}
	return packed
}

// keptPacked counts a new entry in the session's load. reason is why it is private, or "".
func (s *Session) keptPacked(reason Reason, e *entries.Entry) {
	s.work = workNew
	if reason != "" {
		s.report.countPrivate(reason, len(e.Data))
	}
}

// uniform reports whether all bytes are the same.
func uniform(b []byte) bool {
	return len(b) > 1 && bytes.Equal(b[1:], b[:len(b)-1])
}

// inspectStored gathers the facts of the entries under the key of a packing.
func (s *Session) inspectStored(w *weight, p space, seen []writer.View) []stored {
	rivals := make([]stored, len(seen))
	for i := range seen {
		if rivals[i].equalBytes = hasBytes(seen[i].Entry, p.Data); rivals[i].equalBytes {
			return rivals
		}
	}
	for i := range seen {
		v, r := &seen[i], &rivals[i]
		if r.content = s.mayHaveContent(w, v); !r.content {
			continue
		}
		r.seed = v.Seed
		r.sound = !v.Durable || writer.SumMatches(v.Entry)
		r.wrongSize = v.Durable && len(v.Entry.Data) != len(p.Data) && !w.sizeKnown() &&
			w.checkSize(v.Entry.Data) != nil
	}
	return rivals
}

// mayHaveContent reports whether an entry was packed from the content that this session has. Of one that another
// session packs it may not be known yet: but where all is given that decides the bytes, others are of other content.
func (s *Session) mayHaveContent(w *weight, v *writer.View) bool {
	if v.Pending {
		return contentFact(w, v) != refuted && (!w.kernel.packing.complete || w.kernel.packing.ambiguous)
	}
	if contentFact(w, v) == unknown {
		s.computeDigests(w, v)
	}
	return contentFact(w, v) == confirmed
}

// inPlace reports whether what was packed can stay where it is: unless that is only for comparing, or the file has room
// for it.
func (k *packer) inPlace(p space) bool {
	return p.kind == inFile || p.kind == inPrivate && (k.cache.inMemory() || k.noFile != "" || p.reason != "")
}

// moveToFile moves what was packed to where a new entry belongs.
func (k *packer) moveToFile(p space, w *weight) space {
	dst, err := k.reserveKept(uint64(len(p.Data)), w)
	return k.moved(p, dst, ReasonDisk, err)
}

// moved copies a packing to another space. Without memory for the copy it stays where it is.
func (k *packer) moved(p, dst space, failure Reason, err error) space {
	if err != nil {
		k.note(err)
		p.kind, p.reason = inPrivate, failure
		return p
	}
	copy(dst.Data, p.Data)
	k.user.CountCopied(len(p.Data))
	k.discard(p)
	p.kind, p.Reservation = dst.kind, dst.Reservation
	return p
}

// keepUnnamed keeps a packing without a name in private memory, for this session alone.
func (s *Session) keepUnnamed(p space) *entries.Entry {
	if p.kind != inPrivate {
		wasInFile, src := p.kind == inFile, p.Region
		dst, err := s.reservePrivate(uint64(len(p.Data)))
		dst.kind = inPrivate
		p = s.moved(p, dst, ReasonUnnamed, err)
		if err != nil && wasInFile {
			store.Filled(p.Reservation)
		}
		if wasInFile && (err != nil || src.Lost()) {
			s.fail(fmt.Errorf("packed weights that were reserved under another key: %w", ErrLost))
		}
	}
	e := s.user.InsertUnnamed(&writer.Packed{Space: p.Reservation})
	s.keptPacked(ReasonUnnamed, e)
	return e
}

// discard releases the space of a packing.
func (k *packer) discard(p space) {
	switch p.kind {
	case inFile:
		k.user.Cancel(p.Reservation)
	case inScratch:
		k.recycleScratch(p.Region)
	case inPrivate:
		k.note(p.Region.Release())
	}
}

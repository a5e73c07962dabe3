package xpwc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/mapped"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/internal/writer"
)

// A space is what XNNPACK packs into.
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

// reserve serves XNNPACK's reserve_space: n bytes to pack into, or nil if there is no memory or nothing to pack.
func (s *Session) reserve(n uint64) []byte {
	p := s.reserveSpace(n)
	if p.kind == inPrivate && !fitsArena(n) && p.Region != nil {
		_ = osdisk.Supply(p.Region.Data()) // all of it is about to be written, and so it takes half as long
	}
	return p.Data
}

// reserveSpace returns what reserve does with where it lies; it has no bytes if there are none.
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
func (s *Session) reserveKept(n uint64, w *weight) (space, error) {
	for !s.cache.inMemory() {
		s.startWriting()
		if s.noFile != "" {
			break
		}
		r, err := s.user.Reserve(n, uint64(len(w.Key.Kernel)+len(w.Key.Bias)))
		switch {
		case err == nil:
			return space{Reservation: r, kind: inFile}, nil
		case !errors.Is(err, ErrReplaced): // else it begins anew with the file that is there then
			s.noFile = ReasonDisk
		}
	}
	return s.reservePrivate(n)
}

func (s *Session) reservePrivate(n uint64) (space, error) {
	r, err := s.cache.arena.alloc(n)
	return space{Reservation: r, kind: inPrivate}, err
}

// reserveScratch reserves space that is used again for the next packing, unless what is packed there stays.
func (s *Session) reserveScratch(n uint64) (space, error) {
	r := s.scratch
	if r == nil || uint64(len(r.Data())) < n {
		s.recycleScratch(nil)
		var err error
		if r, err = newAnonymousRegion(n); err != nil {
			return space{}, err
		}
	}
	s.scratch = nil // until it is given up
	return space{Reservation: store.Reservation{Region: r, Data: r.Data()[:n:n]}, kind: inScratch}, nil
}

// recycleScratch has the next packing use a region as scratch; nil: none.
func (s *Session) recycleScratch(r *store.Region) {
	if s.scratch != nil {
		s.note(s.scratch.Release())
	}
	s.scratch = r
}

// insert serves XNNPACK's look_up_or_insert: the address where size bytes equal to those at the packed address stay.
// It never fails: what goes wrong is kept for Finalize, and the bytes stay where they were packed.
func (s *Session) insert(key lookUpKey, packed uintptr, size uint64) uintptr {
	progress, read, address := s.insertQuietly(key, packed, size)
	for _, src := range read {
		src.endRead()
	}
	if progress != nil {
		s.reportProgress(*progress)
	}
	return address
}

// reportProgress calls the host's progress function. Its panic must not keep XNNPACK from the address.
func (s *Session) reportProgress(p Progress) {
	if s.cache.progress != nil {
		s.note(guarded("Options.Progress", func() error { s.cache.progress(p); return nil }))
	}
}

// insertQuietly does what insert does, but for what is to be done without locks: it returns what the host is given, and
// the sources that were read.
func (s *Session) insertQuietly(key lookUpKey, packed uintptr, size uint64) (
	progress *Progress, read []*source, address uintptr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.user.Unclaim()
	w := s.weight(key)
	if packed == 0 { // GEMM convolution hands in nothing when its look-up was a hit
		if w.named {
			if e := s.answered[w.useKey()]; e != nil {
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
	if w.named {
		s.choosePackedLayout(w)
	}
	if s.user.Claimed() {
		w.identify()
	}
	e, isNew := s.keepPacked(w, p)
	s.notePacked(w, p.miss, e, isNew)
	s.evictPacked(p.sources)
	if w.named {
		s.answered[w.useKey()] = e
	}
	progress = &Progress{Name: e.Name(), Bytes: int64(size), Done: s.done, Total: s.total}
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

// hasBytes reports whether an entry has these bytes. Those that the disk cannot give are others, and no signal.
func hasBytes(e *entries.Entry, b []byte) (equal bool) {
	_ = mapped.Faultless(func() { equal = bytes.Equal(e.Data, b) })
	return equal
}

// keepPacked finds or makes the entry for what was just packed, which the session uses from here on. What is stored
// under its name is compared without a lock; if that has changed meanwhile, it is compared again.
func (s *Session) keepPacked(w *weight, p space) (entry *entries.Entry, isNew bool) {
	if !w.named {
		return s.keepUnnamed(p), true
	}
	kernel := &w.kernel.packing
	// XNNPACK's seed is the same for transposed shapes, and so are a name and bytes that are all alike: what is packed
	// from zeros [4, 8] must not be served for zeros [8, 4] where nobody says which is which.
	variant := !kernel.complete() && uniform(w.kernel.content)
	for {
		seen, err := s.user.RetainCandidates(&w.Query)
		s.fail(err)
		actions := compare(s.inspectStored(w, p, seen))
		reused := slices.Index(actions, writer.Reuse)
		if reused < 0 && w.layoutAssumed { // what is not equal must be known to be of this layout
			s.user.ReleaseCandidates(seen)
			s.confirmLayout(w)
			return s.keepPacked(w, p)
		}
		if reused < 0 && !s.inPlace(p) {
			s.user.ReleaseCandidates(seen)
			if p.kind == inFile || !s.startWriting() { // another process may have packed it while we waited
				p = s.moveToFile(p, w)
			}
			continue
		}
		if reused >= 0 && s.answered[w.useKey()] == seen[reused].Entry {
			actions[reused] = writer.ReuseTied
		}
		packed := s.packedFrom(w, p, variant)
		e, created := s.user.Insert(&w.Query, &packed, seen, actions)
		s.user.ReleaseCandidates(seen)
		switch {
		case created:
			s.keptPacked(Reason(packed.Reason), e)
			return e, true
		case e != nil:
			s.discard(p)
			s.addRestamp(w, &seen[reused])
			return e, false
		}
	}
}

// packedFrom describes what was packed of a weight.
func (s *Session) packedFrom(w *weight, p space, variant bool) writer.Packed {
	packed := writer.Packed{
		Kernel: &w.kernel.identity, Bias: w.biasContent(), Space: p.Reservation, InFile: p.kind == inFile,
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

// keptPacked takes note of what a new entry means for the session's load. reason is why it is private, or "".
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

// inspectStored finds out what there is to know of the entries under the key of what was packed.
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
		r.wrongSize = v.Listed && len(v.Entry.Data) != len(p.Data) && !w.sizeKnown() && w.checkSize(v.Entry.Data) != nil
	}
	return rivals
}

// mayHaveContent reports whether an entry was packed from the content that this session has. Of one that another
// session packs it may not be known yet: but where all is given that decides the bytes, others are of other content.
func (s *Session) mayHaveContent(w *weight, v *writer.View) bool {
	if v.Pending {
		return contentFact(w, v) != refuted && (!w.kernel.packing.complete() || w.kernel.packing.ambiguous())
	}
	if contentFact(w, v) == unknown {
		s.computeDigests(w, v)
	}
	return contentFact(w, v) == confirmed
}

// inPlace reports whether what was packed can stay where it is: unless that is only for comparing, or the file has room
// for it.
func (s *Session) inPlace(p space) bool {
	return p.kind == inFile || p.kind == inPrivate && (s.cache.inMemory() || s.noFile != "" || p.reason != "")
}

// moveToFile moves what was packed to where a new entry belongs.
func (s *Session) moveToFile(p space, w *weight) space {
	dst, err := s.reserveKept(uint64(len(p.Data)), w)
	return s.moved(p, dst, ReasonDisk, err)
}

// moved returns what was packed where it was moved to. If there is no memory for a copy, it stays for good.
func (s *Session) moved(p, dst space, failure Reason, err error) space {
	if err != nil {
		s.note(err)
		p.kind, p.reason = inPrivate, failure
		return p
	}
	copy(dst.Data, p.Data)
	s.user.CountCopied(len(p.Data))
	s.discard(p)
	p.kind, p.Reservation = dst.kind, dst.Reservation
	return p
}

// keepUnnamed keeps what nothing identifies in private memory, for this session alone.
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

// discard gives up the space of a packing whose bytes are elsewhere.
func (s *Session) discard(p space) {
	switch p.kind {
	case inFile:
		s.user.Cancel(p.Reservation)
	case inScratch:
		s.recycleScratch(p.Region)
	case inPrivate:
		s.note(p.Region.Release())
	}
}

// An arena hands out private memory, many small pieces to a region: one mapping a piece would exhaust the number of
// mappings a process may have.
type arena struct {
	mu      sync.Mutex // nothing else is locked while it is held
	current *store.Region
	used    uint64
}

const arenaRegion = 1 << 20

// fitsArena reports whether a piece of n bytes shares a region with others.
func fitsArena(n uint64) bool { return n <= arenaRegion/4 }

// alloc returns n zeroed bytes, aligned as packed weights are. The region stays until the reservation's reference and
// all taken since are released.
func (a *arena) alloc(n uint64) (store.Reservation, error) {
	if !fitsArena(n) {
		r, err := newAnonymousRegion(n)
		if err != nil {
			return store.Reservation{}, err
		}
		return store.Reservation{Region: r, Data: r.Data()[:n:n]}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current == nil || a.used+n > uint64(len(a.current.Data())) {
		r, err := newAnonymousRegion(arenaRegion)
		if err != nil {
			return store.Reservation{}, err
		}
		if err := a.dropLocked(); err != nil {
			return store.Reservation{}, err
		}
		a.current, a.used = r, 0
	}
	start := a.used
	a.used = format.AlignUp(start+n, format.Alignment)
	return store.Reservation{Region: a.current.Retain(), Data: a.current.Data()[start : start+n : start+n]}, nil
}

// drop gives up the arena's own reference to the region it allocates from.
func (a *arena) drop() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.dropLocked()
}

func (a *arena) dropLocked() error {
	if a.current == nil {
		return nil
	}
	r := a.current
	a.current = nil
	return r.Release()
}

func newAnonymousRegion(n uint64) (*store.Region, error) {
	data, err := mapAnonymous(int(format.AlignUp(max(n, 1), osdisk.Granularity())))
	if err != nil {
		return nil, err
	}
	return store.NewPrivateRegion(data, unmap), nil
}

// addressOf returns where b starts in memory, which for mapped memory is also what XNNPACK knows it by.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

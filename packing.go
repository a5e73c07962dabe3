package xpwc

import (
	"bytes"
	"fmt"
	"time"

	"xpwc/internal/format"
	"xpwc/internal/store"
)

// An announcement is a look-up that missed: the next reservation is for it.
type announcement struct {
	named   bool
	compare bool // there is something stored that the packing may turn out equal to
	failed  bool // what is to be packed could not be computed
	sources []*source
}

// names returns how many bytes the names have.
func (a *announcement) names() (n int) {
	for _, src := range a.sources {
		n += len(src.name)
	}
	return n
}

// A space is what XNNPACK packs into.
type space struct {
	store.Reservation
	kind    packingKind
	start   time.Time
	sources []*source // that will be read for it, as far as it was announced
}

type packingKind int

const (
	inFile packingKind = iota
	inScratch
	inPrivate
)

// becomeWriter makes this process the file's writer for as long as the session packs. c.mu is released while it waits:
// it reports whether what the cache holds may have changed since.
func (s *Session) becomeWriter() (changed bool) {
	c := s.cache
	if s.noFile != "" || c.store == nil {
		return false
	}
	if s.writing {
		if c.store.Writing() {
			return false
		}
		c.writers-- // the file has ended or was replaced: begin anew with the one that is there then
		s.writing = false
		c.idle.Broadcast()
	}
	if s.noFile = c.beginWriting(false); s.noFile == "" {
		s.writing = true
		c.writers++
	}
	return true
}

// stopWriting gives the writer's lock up, unless something else in this process needs it.
func (s *Session) stopWriting() {
	if !s.writing {
		return
	}
	c := s.cache
	s.writing = false
	c.writers--
	c.idle.Broadcast()
	if !c.committing && !c.compacting { // which end with the same
		c.note(c.endIfIdle())
	}
}

// reserve serves XNNPACK's reserve_space: n bytes to pack into, or nil if there is no memory or nothing to pack.
func (s *Session) reserve(n uint64) []byte {
	p := s.reserveSpace(n)
	if p.kind == inPrivate && !fitsArena(n) && p.Region != nil {
		_ = supply(p.Region.Data()) // all of it is about to be written, and so it takes half as long
	}
	return p.Data
}

// reserveSpace returns what reserve does with where it lies; it has no bytes if there are none.
func (s *Session) reserveSpace(n uint64) (p space) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finalized {
		s.fail(fmt.Errorf("reserve %d bytes: %w", n, ErrFinalized))
		return space{}
	}
	announced := s.announced
	s.announced = nil
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	p.start = time.Now()
	var err error
	switch {
	case announced != nil && announced.failed:
		return space{}
	case announced == nil || announced.compare:
		p.kind, p.Reservation, err = s.reserveScratch(n)
	case announced.named:
		p.kind, p.Reservation, err = s.reserveKept(n, announced.names())
	default:
		p.kind = inPrivate
		p.Reservation, err = s.cache.arena.alloc(n)
	}
	if err != nil {
		s.fail(fmt.Errorf("reserve %d bytes: %w", n, err))
		return space{}
	}
	if announced != nil {
		p.sources = announced.sources
	}
	s.packings[addressOf(p.Data)] = p
	return p
}

// reserveKept reserves where a new named entry belongs: in the file, in the memory of a cache without a file, or, with
// the reason counted later, in private memory.
func (s *Session) reserveKept(n uint64, names int) (packingKind, store.Reservation, error) {
	c := s.cache
	s.becomeWriter()
	if c.store != nil && s.noFile == "" {
		r, err := c.store.Reserve(n, uint64(names))
		if err == nil {
			c.store.Supply(uint64(max(s.total-s.done, 0)))
			return inFile, r, nil
		}
		c.note(err)
		s.noFile = ReasonDisk
	}
	r, err := c.arena.alloc(n)
	return inPrivate, r, err
}

// reserveScratch reserves space that is used again for the next packing. Should XNNPACK reserve twice before it hands
// in what it packed, the second reservation is private memory.
func (s *Session) reserveScratch(n uint64) (packingKind, store.Reservation, error) {
	if s.busy {
		r, err := s.cache.arena.alloc(n)
		return inPrivate, r, err
	}
	if s.scratch == nil || uint64(len(s.scratch.Data())) < n {
		if err := s.dropScratch(); err != nil {
			return 0, store.Reservation{}, err
		}
		r, err := newAnonymousRegion(n)
		if err != nil {
			return 0, store.Reservation{}, err
		}
		s.scratch = r
	}
	s.busy = true
	return inScratch, store.Reservation{Region: s.scratch.Retain(), Data: s.scratch.Data()[:n:n]}, nil
}

func (s *Session) dropScratch() error {
	if s.scratch == nil {
		return nil
	}
	r := s.scratch
	s.scratch, s.busy = nil, false
	return r.Release()
}

// insert serves XNNPACK's look_up_or_insert: the address where size bytes equal to those at the packed address stay.
// It never fails: what goes wrong is kept for Finalize, and the bytes stay where they were packed.
func (s *Session) insert(key lookUpKey, packed uintptr, size uint64) uintptr {
	progress, read, address := s.insertQuietly(key, packed, size)
	for _, src := range read {
		src.didRead()
	}
	if progress != nil {
		s.reportProgress(*progress)
	}
	return address
}

// reportProgress calls the host's progress function. Its panic must not keep XNNPACK from the address.
func (s *Session) reportProgress(p Progress) {
	defer func() {
		if r := recover(); r != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.remark(fmt.Errorf("panic in Options.Progress: %v", r))
		}
	}()
	if s.cache.progress != nil {
		s.cache.progress(p)
	}
}

// insertQuietly does what insert does, but for what is to be done without locks: it returns what the host is given, and
// the sources that were read.
func (s *Session) insertQuietly(key lookUpKey, packed uintptr, size uint64) (
	progress *Progress, read []*source, address uintptr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	w := s.weight(key)
	if packed == 0 { // GEMM convolution hands in nothing when its look-up was a hit
		if w.named {
			if e := w.answer(); e != nil {
				return nil, nil, addressOf(e.data)
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
			src.willRead()
		}
	}
	for _, src := range w.sources() {
		if !src.filled {
			s.fail(fmt.Errorf("tensor %q was packed without a look-up: %w", src.name, ErrNotEager))
			w.named = false
		}
	}
	s.packed = true
	c.stats.PackingTime += time.Since(p.start)
	p.Data = p.Data[:size:size]
	e := s.packedBefore(w, p)
	if e == nil && w.named {
		s.makeSure(w)
	}
	switch {
	case e != nil:
		s.reuse(p, e)
		w.setAnswer(e)
	case w.named:
		e = s.settle(w, p)
		w.setAnswer(e)
	default:
		e = s.settleUnnamed(p)
	}
	s.use(e)
	progress = &Progress{Name: e.name(), Session: s, Bytes: int64(size), Done: s.done, Total: s.total}
	return progress, read, addressOf(e.data)
}

// mostTried is how many layouts of a file are tried where this machine's is not known. Most files have one.
const mostTried = 16

// packedBefore returns an entry that was packed from the same content into the very bytes that were packed now, and
// that a look-up under its layout would be given. Equal bytes are right whatever that layout is, so XNNPACK is not
// asked for this machine's: what it packs without a look-up, as deconvolutions, it packs in every process.
func (s *Session) packedBefore(w *weight, p space) *entry {
	c := s.cache
	if !w.named || s.layoutKnown || answered.Load() || c.store == nil || c.store.Index() == nil {
		return nil
	}
	layouts := c.store.Index().Layouts()
	for _, l := range layouts[:min(len(layouts), mostTried)] {
		w.key.Layout = l.Fingerprint
		for _, e := range s.candidates(w) {
			if !e.has(p.Data) || !s.answers(e, w) {
				continue
			}
			if same, err := sameContent(w, e); err == nil && same { // which may hash the whole tensor
				s.adopt(w, e)
				return e
			}
		}
	}
	return nil
}

// reuse gives up a packing whose bytes an entry has.
func (s *Session) reuse(p space, e *entry) {
	s.discard(p)
	s.cache.stats.Reused.add(len(e.data))
}

// settle finds or makes the entry for what was just packed under a name.
func (s *Session) settle(w *weight, p space) *entry {
	c := s.cache
	e, variant := s.compare(w, p)
	if e == nil && p.kind != inFile && s.becomeWriter() {
		e, variant = s.compare(w, p) // another process may have packed it while we waited
	}
	if e != nil {
		s.reuse(p, e)
		return e
	}
	e = c.newEntries.take()
	e.record.Key, e.record.Seed = w.key, w.seed
	e.kernel, e.bias, e.by = w.kernel, w.bias, s
	e.verified, e.sized = true, true
	w.kernel.packing.describe(&e.record, len(p.Data), w.kernel.has().copyOf != nil)
	// XNNPACK's seed is the same for transposed shapes, and so are a name and bytes that are all alike: what is packed
	// from zeros [4, 8] must not be served for zeros [8, 4] where nobody says which is which. What a host packed that
	// knew too little must not be believed by one that says no more.
	if variant || w.kernel.packing.compare || !w.kernel.packing.known() && uniform(w.kernel.content) {
		e.record.Flags |= format.Variant
	}
	s.place(e, p)
	if e.reason == "" {
		s.added = true
		c.stats.Packed.add(len(e.data))
	} else {
		s.countPrivate(e)
	}
	c.keep(e)
	c.note(e.region.Release()) // keep has taken its own reference
	return e
}

// uniform reports whether all bytes are the same.
func uniform(b []byte) bool {
	return len(b) > 1 && bytes.Equal(b[1:], b[:len(b)-1])
}

// compare looks for an entry with the bytes that were packed. Equal bytes are right, whoever packed them from what. If
// there are other bytes under the same key for the same content, both are variants, unless the stored ones are damaged.
func (s *Session) compare(w *weight, p space) (equal *entry, variant bool) {
	c := s.cache
	candidates := s.candidates(w)
	for _, e := range candidates {
		if e.has(p.Data) {
			s.adopt(w, e)
			equal = e
			break
		}
	}
	if equal != nil && c.options.Verify != VerifyRepack {
		return equal, false
	}
	for _, e := range candidates {
		if e == equal {
			continue
		}
		same, err := sameContent(w, e)
		if err != nil {
			s.remark(err)
		}
		switch {
		case !same, !e.packedUnder(w.seed), !c.intact(e):
		case c.options.Verify == VerifyRepack && e.state.inGeneration() && !e.verified &&
			e.record.Flags&format.Variant == 0:
			c.damagedPayload(e) // a look-up could have been answered with it, also where the right one lies beside it
		case c.loaded(e) && len(e.data) != len(p.Data) && !w.sizeKnown() && w.checkSize(e) != nil:
			c.damagedPayload(e)
		case equal == nil:
			variant = true
			c.setFlag(e, format.Variant)
		}
	}
	return equal, variant
}

// place gives an entry its memory: where it was packed, unless that is only for comparing.
func (s *Session) place(e *entry, p space) {
	c := s.cache
	if p.kind == inScratch || p.kind == inPrivate && c.store != nil && s.noFile == "" {
		kind, r, err := s.reserveKept(uint64(len(p.Data)), len(e.name()))
		if err != nil {
			s.remark(err)
			s.giveUp(p)
			e.data, e.region, e.reason = p.Data, p.Region, ReasonDisk
			c.become(e, statePrivate)
			return
		}
		copy(r.Data, p.Data)
		c.stats.CopiedBytes += int64(len(p.Data))
		s.discard(p)
		p.kind, p.Reservation = kind, r
	}
	e.data, e.region = p.Data, p.Region
	switch {
	case p.kind != inFile:
		c.become(e, statePrivate)
		if c.store != nil {
			e.reason = s.noFile
		}
	default:
		if !s.leaveInFile(e, p) {
			return
		}
		e.record.Offset, e.record.Size = p.Offset(), uint64(len(p.Data))
		c.sumBeside(e)
		if c.store.ForeignHas(e.name(), e.data) {
			c.stats.Adopted.add(len(e.data))
		}
	}
}

// leaveInFile has an entry stay in the file's space, where it was packed. It reports whether that can be committed.
func (s *Session) leaveInFile(e *entry, p space) bool {
	c := s.cache
	c.store.Filled(p.Reservation)
	e.file = p.Region.File()
	lost := p.Region.Lost()
	if lost {
		c.lose([]*entry{e}, store.ErrFlush)
	}
	if lost || e.file != c.store.ID() { // it has ended, or was replaced
		c.become(e, stateStray)
		return false
	}
	c.become(e, stateUncommitted)
	c.fresh = append(doubled(c.fresh, 0), e)
	return true
}

// giveUp leaves a packing where it is, for good, when there is no memory for a copy.
func (s *Session) giveUp(p space) {
	if p.kind == inScratch { // the packing's reference to the region goes to the entry
		s.cache.note(s.dropScratch())
	}
}

// settleUnnamed keeps what nothing identifies in private memory, once for each content.
func (s *Session) settleUnnamed(p space) *entry {
	c := s.cache
	sum := DigestOf(p.Data)
	for _, e := range c.unnamed[sum] {
		if bytes.Equal(e.data, p.Data) {
			s.discard(p)
			c.stats.Reused.add(len(e.data))
			return e
		}
	}
	if p.kind == inScratch {
		if r, err := c.arena.alloc(uint64(len(p.Data))); err == nil {
			copy(r.Data, p.Data)
			c.stats.CopiedBytes += int64(len(p.Data))
			s.discard(p)
			p = space{Reservation: r, kind: inPrivate}
		} else {
			s.remark(err)
			s.giveUp(p)
		}
	}
	e := &entry{reason: ReasonUnnamed, data: p.Data, region: p.Region, by: s}
	e.record.Sum = sum
	if p.kind == inFile {
		e.suspectFor(suspect) // its look-up had names
		s.leaveInFile(e, p)
	} else {
		c.become(e, statePrivate)
	}
	c.unnamed[sum] = append(c.unnamed[sum], e)
	s.countPrivate(e)
	return e
}

// discard gives up the space of a packing whose bytes are elsewhere.
func (s *Session) discard(p space) {
	switch p.kind {
	case inFile:
		s.cache.note(s.cache.store.Cancel(p.Reservation))
	case inScratch:
		s.busy = false
		s.cache.note(p.Region.Release())
	case inPrivate:
		s.cache.note(p.Region.Release())
	}
}

// adopt takes note that a packing of a weight gave the bytes of an entry.
func (s *Session) adopt(w *weight, e *entry) {
	c := s.cache
	if !e.packedUnder(w.seed) {
		e.otherSeeds = append(e.otherSeeds, w.seed)
	}
	if w.answer() == e {
		c.setFlag(e, format.Tied)
	}
	if e.state.inGeneration() && !e.verified && c.options.Verify == VerifyRepack {
		c.stats.Verified.add(len(e.data))
	}
	e.verified, e.sized = true, true
	s.restampLater(w, e)
}

func (s *Session) countPrivate(e *entry) {
	s.added = true
	count := s.cache.stats.Private[e.reason]
	count.add(len(e.data))
	s.cache.stats.Private[e.reason] = count
	s.reportPrivate(e)
}

// use keeps an entry for as long as the session is open.
func (s *Session) use(e *entry) {
	s.used = append(doubled(s.used, 0), e)
	s.cache.verifyLater(e)
	e.sessions++
	if e.sessions == 1 {
		if e.reason == "" {
			s.cache.stats.MappedBytes += int64(len(e.data))
			if s.cache.loaded(e) && !s.cache.options.Prefetch {
				s.cache.mapLater(e)
			}
		} else {
			s.cache.stats.PrivateBytes += int64(len(e.data))
		}
	}
}

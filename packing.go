package xpwc

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"xpwc/internal/ask"
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
	took    time.Duration // the packing
	sources []*source     // that will be read for it, as far as it was announced

	variant bool    // what was packed may be one of several under its key
	sum     *summed // of what was packed, or nil
	reason  Reason  // why it stays in private memory, or ""
}

type packingKind int

const (
	inFile packingKind = iota
	inScratch
	inPrivate
)

// becomeWriter makes this process the file's writer for as long as the session packs, waiting for another process within
// limits. It reports whether what the cache holds may have changed since.
func (s *Session) becomeWriter() (changed bool) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
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
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.writing {
		return
	}
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
	start := time.Now()
	var err error
	switch {
	case announced != nil && announced.failed:
		return space{}
	case announced == nil || announced.compare:
		p, err = s.reserveScratch(n)
	case announced.named:
		p, err = s.reserveKept(n, announced.names())
	default:
		p, err = s.reservePrivate(n)
	}
	if err != nil {
		s.fail(fmt.Errorf("reserve %d bytes: %w", n, err))
		return space{}
	}
	p.start = start
	if announced != nil {
		p.sources = announced.sources
	}
	s.packings[addressOf(p.Data)] = p
	return p
}

// reserveKept reserves where a new named entry belongs: in the file, in the memory of a cache without a file, or, with
// the reason counted later, in private memory.
func (s *Session) reserveKept(n uint64, names int) (space, error) {
	s.becomeWriter()
	if s.cache.store != nil && s.noFile == "" {
		r, err := s.reserveInFile(n, names)
		if err == nil {
			return space{Reservation: r, kind: inFile}, nil
		}
		s.noFile = ReasonDisk
	}
	return s.reservePrivate(n)
}

func (s *Session) reserveInFile(n uint64, names int) (store.Reservation, error) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.store.Reserve(n, uint64(names))
	if err != nil {
		c.note(err)
		return r, err
	}
	c.store.Supply(uint64(max(s.total-s.done, 0)))
	return r, nil
}

func (s *Session) reservePrivate(n uint64) (space, error) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.arena.alloc(n)
	return space{Reservation: r, kind: inPrivate}, err
}

// reserveScratch reserves space that is used again for the next packing. Should XNNPACK reserve twice before it hands
// in what it packed, the second reservation is private memory.
func (s *Session) reserveScratch(n uint64) (space, error) {
	if s.busy {
		return s.reservePrivate(n)
	}
	if s.scratch == nil || uint64(len(s.scratch.Data())) < n {
		if err := s.dropScratch(); err != nil {
			return space{}, err
		}
		r, err := newAnonymousRegion(n)
		if err != nil {
			return space{}, err
		}
		s.scratch = r
	}
	s.busy = true
	r := store.Reservation{Region: s.scratch.Retain(), Data: s.scratch.Data()[:n:n]}
	return space{Reservation: r, kind: inScratch}, nil
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
	p.took = time.Since(p.start)
	p.Data = p.Data[:size:size]
	e := s.packedBefore(w, p)
	if e == nil && w.named {
		s.makeSure(w)
	}
	switch {
	case e != nil:
		s.reuse(w, p, e)
	case w.named:
		e = s.keepPacked(w, p)
	default:
		e = s.keepUnnamed(p)
	}
	if w.named {
		w.setAnswer(e)
	}
	progress = &Progress{Name: e.name(), Session: s, Bytes: int64(size), Done: s.done, Total: s.total}
	return progress, read, addressOf(e.data)
}

// mostTried is how many layouts of a file are tried where this machine's is not known. Most files have one.
const mostTried = 16

// packedBefore returns an entry that was packed from the same content into the very bytes that were packed now, and
// that a look-up under its layout would be given; the session uses it from here on. Equal bytes are right whatever that
// layout is, so XNNPACK is not asked for this machine's: what it packs without a look-up, as deconvolutions, it packs
// in every process.
func (s *Session) packedBefore(w *weight, p space) *entry {
	if !w.named || s.layoutKnown || ask.Answered() {
		return nil
	}
	layouts := s.cache.layoutsLoaded()
	for _, l := range layouts[:min(len(layouts), mostTried)] {
		w.under(l.Fingerprint)
		seen := s.look(w)
		equal := seen.equal(p.Data)
		e, _ := s.find(w, func(e *entry) bool { return slices.Contains(equal, e) })
		s.forget(seen)
		if e != nil {
			return e
		}
	}
	return nil
}

// A sight is the entries under a weight's key at some time. It holds a reference to the memory of each.
type sight struct {
	entries []*entry
	regions []*store.Region
}

// look returns the entries under a weight's key.
func (s *Session) look(w *weight) sight {
	for {
		seen, index := s.lookOnce(w)
		if index == nil {
			return seen
		}
		s.survey(w, index)
	}
}

func (s *Session) lookOnce(w *weight) (seen sight, index *format.Index) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	entries, index := s.candidatesLocked(w)
	for _, e := range entries {
		seen.entries = append(seen.entries, e)
		seen.regions = append(seen.regions, e.region.Retain())
	}
	return seen, index
}

// forget gives up the references of a sight.
func (s *Session) forget(seen sight) {
	for _, r := range seen.regions {
		s.note(r.Release())
	}
}

// equal returns the entries that have the bytes b.
func (seen sight) equal(b []byte) (equal []*entry) {
	for _, e := range seen.entries {
		if e.has(b) {
			equal = append(equal, e)
		}
	}
	return equal
}

// reuse takes an entry that the session uses in place of what was packed.
func (s *Session) reuse(w *weight, p space, e *entry) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.PackingTime += p.took
	s.adoptLocked(w, e)
	s.reuseLocked(p, e)
}

func (s *Session) reuseLocked(p space, e *entry) {
	s.discardLocked(p)
	s.cache.stats.Reused.add(len(e.data))
}

// keepPacked finds or makes the entry for what was just packed under a name, which the session uses from here on. What
// is stored is compared without the cache's lock; if that has changed meanwhile, it is compared again.
func (s *Session) keepPacked(w *weight, p space) *entry {
	// XNNPACK's seed is the same for transposed shapes, and so are a name and bytes that are all alike: what is packed
	// from zeros [4, 8] must not be served for zeros [8, 4] where nobody says which is which. What a host packed that
	// knew too little must not be believed by one that says no more.
	p.variant = w.kernel.packing.compare || !w.kernel.packing.known() && uniform(w.kernel.content)
	if len(p.Data) <= hashedAtOnce {
		p.sum = sumOf(p.Data)
	}
	for {
		seen := s.look(w)
		rivals := s.rivals(w, p, seen)
		e, again := s.conclude(w, p, seen, rivals)
		s.forget(seen)
		switch {
		case e != nil:
			return e
		case again:
		case p.kind != inFile && s.becomeWriter(): // another process may have packed it while we waited
		default:
			p = s.placed(w, p)
		}
	}
}

// uniform reports whether all bytes are the same.
func uniform(b []byte) bool {
	return len(b) > 1 && bytes.Equal(b[1:], b[:len(b)-1])
}

// rivals finds out what there is to know of the entries under the key of what was packed.
func (s *Session) rivals(w *weight, p space, seen sight) []rival {
	rivals := make([]rival, len(seen.entries))
	equal := false
	for i, e := range seen.entries {
		rivals[i].equal = e.has(p.Data)
		if equal = equal || rivals[i].equal; equal {
			break
		}
	}
	if equal && s.cache.options.Verify != VerifyRepack {
		return rivals
	}
	for i, e := range seen.entries {
		rivals[i].content, rivals[i].sound = s.hasContent(w, e), true
		if rivals[i].content && !rivals[i].equal {
			rivals[i].sound = e.intact()
		}
	}
	return rivals
}

// hasContent reports whether an entry was packed from the content that this session has.
func (s *Session) hasContent(w *weight, e *entry) bool {
	for {
		same, learn := s.askContent(w, e)
		if learn == nil {
			return same == yes
		}
		learn()
	}
}

func (s *Session) askContent(w *weight, e *entry) (same fact, learn func()) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	if same = sameContent(w, e); same == unknown {
		return same, s.learnContentLocked(w, e)
	}
	return same, nil
}

// conclude does what compare decides of the entries that were seen, and keeps what was packed unless one of them is
// taken in its place. It returns nil if that is not where it can stay, or, again, if there are other entries by now.
func (s *Session) conclude(w *weight, p space, seen sight, rivals []rival) (e *entry, again bool) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, index := s.candidatesLocked(w); index != nil || !slices.Equal(now, seen.entries) {
		return nil, true
	}
	for i, e := range seen.entries {
		r := &rivals[i]
		r.seed = e.packedUnder(w.seed)
		r.sound = r.sound || !e.state.inGeneration()
		r.unchecked = e.state.inGeneration() && !e.verified && e.record.Flags&format.Variant == 0
		r.wrongSize = c.loaded(e) && len(e.data) != len(p.Data) && !w.sizeKnown() && w.checkSize(e) != nil
	}
	for i, l := range compare(c.options.Verify == VerifyRepack, rivals) {
		switch other := seen.entries[i]; l {
		case taken:
			s.adoptLocked(w, other)
			e = other
		case damaged:
			c.damagedPayload(other)
		case varies:
			p.variant = true
			c.setFlag(other, format.Variant)
		}
	}
	switch {
	case e != nil:
		s.reuseLocked(p, e)
	case s.canStayLocked(p):
		e = s.keepLocked(w, p)
	default:
		return nil, false
	}
	c.stats.PackingTime += p.took
	s.useLocked(e)
	return e, false
}

// canStayLocked reports whether what was packed can stay where it is: unless that is only for comparing, or the file
// has room for it.
func (s *Session) canStayLocked(p space) bool {
	return p.kind == inFile || p.kind == inPrivate && (s.cache.store == nil || s.noFile != "" || p.reason != "")
}

// placed moves what was packed to where a new entry belongs.
func (s *Session) placed(w *weight, p space) space {
	to, err := s.reserveKept(uint64(len(p.Data)), len(w.key.Kernel)+len(w.key.Bias))
	if err != nil {
		s.remark(err)
		return s.settledIn(p, ReasonDisk)
	}
	copy(to.Data, p.Data)
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.CopiedBytes += int64(len(p.Data))
	s.discardLocked(p)
	p.kind, p.Reservation = to.kind, to.Reservation
	return p
}

// settledIn leaves a packing where it is, for good, when there is no memory for a copy.
func (s *Session) settledIn(p space, why Reason) space {
	if p.kind == inScratch { // the packing's reference to the region goes to the entry
		s.note(s.dropScratch())
	}
	p.kind, p.reason = inPrivate, why
	return p
}

// keepLocked makes the entry of what was packed.
func (s *Session) keepLocked(w *weight, p space) *entry {
	c := s.cache
	e := c.newEntries.take()
	e.record.Key, e.record.Seed = w.key, w.seed
	e.kernel, e.bias, e.by = w.kernel, w.bias, s
	e.verified, e.sized = true, true
	w.kernel.packing.describe(&e.record, len(p.Data), w.kernel.has().copyOf != nil)
	if p.variant {
		e.record.Flags |= format.Variant
	}
	e.data, e.region = p.Data, p.Region
	if p.kind == inFile {
		s.leaveInFileLocked(e, p)
	} else {
		if e.reason = p.reason; e.reason == "" && c.store != nil {
			e.reason = s.noFile
		}
		c.become(e, statePrivate)
	}
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

// leaveInFileLocked has an entry stay in the file's space, where it was packed.
func (s *Session) leaveInFileLocked(e *entry, p space) {
	c := s.cache
	if !c.fillLocked(e, p) {
		return
	}
	e.record.Offset, e.record.Size = p.Offset(), uint64(len(p.Data))
	if p.sum != nil {
		c.setSum(e, p.sum.sum, p.sum.err)
	} else {
		c.sumBeside(e)
	}
	if c.store.ForeignHas(e.name(), e.data) {
		c.stats.Adopted.add(len(e.data))
	}
}

// fillLocked takes note that an entry is what was packed into a part of the file. It reports whether that can be
// committed.
func (c *core) fillLocked(e *entry, p space) bool {
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

// keepUnnamed keeps what nothing identifies in private memory, once for each content; the session uses it from here on.
func (s *Session) keepUnnamed(p space) *entry {
	sum := DigestOf(p.Data)
	c := s.cache
	for {
		seen := c.unnamedWith(sum)
		equal := sight{entries: seen.entries}.equal(p.Data)
		e, again := s.concludeUnnamed(sum, p, seen, equal)
		s.forget(seen)
		switch {
		case e != nil:
			return e
		case !again:
			p = s.placedUnnamed(p)
		}
	}
}

func (c *core) unnamedWith(sum Digest) (seen sight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.unnamed[sum] {
		seen.entries = append(seen.entries, e)
		seen.regions = append(seen.regions, e.region.Retain())
	}
	return seen
}

func (s *Session) concludeUnnamed(sum Digest, p space, seen sight, equal []*entry) (e *entry, again bool) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !slices.Equal(c.unnamed[sum], seen.entries):
		return nil, true
	case len(equal) > 0:
		e = equal[0]
		s.reuseLocked(p, e)
	case p.kind == inScratch:
		return nil, false
	default:
		e = &entry{reason: ReasonUnnamed, data: p.Data, region: p.Region, by: s}
		e.record.Sum = sum
		if p.kind == inFile {
			e.suspectFor(suspect) // its look-up had names
			c.fillLocked(e, p)
		} else {
			c.become(e, statePrivate)
		}
		c.unnamed[sum] = append(c.unnamed[sum], e)
		s.countPrivate(e)
	}
	c.stats.PackingTime += p.took
	s.useLocked(e)
	return e, false
}

// placedUnnamed moves what was packed out of the scratch.
func (s *Session) placedUnnamed(p space) space {
	to, err := s.reservePrivate(uint64(len(p.Data)))
	if err != nil {
		s.remark(err)
		return s.settledIn(p, ReasonUnnamed)
	}
	copy(to.Data, p.Data)
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.CopiedBytes += int64(len(p.Data))
	s.discardLocked(p)
	p.kind, p.Reservation = inPrivate, to.Reservation
	return p
}

// discardLocked gives up the space of a packing whose bytes are elsewhere.
func (s *Session) discardLocked(p space) {
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

// adoptLocked takes note that a packing of a weight gave the bytes of an entry.
func (s *Session) adoptLocked(w *weight, e *entry) {
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

// useLocked keeps an entry for as long as the session is open.
func (s *Session) useLocked(e *entry) {
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

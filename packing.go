package xpwc

import (
	"bytes"
	"fmt"
	"time"

	"xpwc/internal/format"
)

// An announcement is a look-up that missed: the next reservation is for it.
type announcement struct {
	named   bool
	compare bool // there is something stored that the packing may turn out equal to
}

// A packing is space that XNNPACK packs into.
type packing struct {
	reservation
	kind  packingKind
	start time.Time
}

type packingKind int

const (
	inFile packingKind = iota
	inScratch
	inPrivate
)

// becomeWriter makes this process the file's writer for as long as the session packs.
func (s *Session) becomeWriter() {
	if s.writing || s.noFile != "" || s.cache.store == nil {
		return
	}
	if s.noFile = s.cache.beginWriting(); s.noFile == "" {
		s.writing = true
		s.cache.writers++
	}
}

// reserve serves XNNPACK's reserve_space: n bytes to pack into, or nil if there is no memory.
func (s *Session) reserve(n uint64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	announced := s.announced
	s.announced = nil
	p := packing{start: time.Now()}
	var err error
	switch {
	case announced == nil || announced.compare:
		p.kind, p.reservation, err = s.reserveScratch(n)
	case announced.named:
		p.kind, p.reservation, err = s.reserveKept(n)
	default:
		p.kind, p.reservation, err = s.reservePrivate(n)
	}
	if err != nil {
		s.fail(fmt.Errorf("reserve %d bytes: %w", n, err))
		return nil
	}
	s.packings[addressOf(p.data)] = p
	return p.data
}

// reserveKept reserves where a new named entry belongs: in the file, in the memory of a cache without a file, or, with
// the reason counted later, in private memory.
func (s *Session) reserveKept(n uint64) (packingKind, reservation, error) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store == nil {
		r, err := c.arena.alloc(n)
		return inPrivate, r, err
	}
	s.becomeWriter()
	if s.noFile == "" {
		r, err := c.store.reserve(n)
		if err == nil {
			return inFile, r, nil
		}
		c.note(err)
		s.noFile = ReasonDisk
	}
	r, err := c.arena.alloc(n)
	return inPrivate, r, err
}

func (s *Session) reservePrivate(n uint64) (packingKind, reservation, error) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	r, err := s.cache.arena.alloc(n)
	return inPrivate, r, err
}

// reserveScratch reserves space that is used again for the next packing. Should XNNPACK reserve twice before it hands in
// what it packed, the second reservation is private memory.
func (s *Session) reserveScratch(n uint64) (packingKind, reservation, error) {
	if s.busy {
		return s.reservePrivate(n)
	}
	if s.scratch == nil || uint64(len(s.scratch.data)) < n {
		if err := s.dropScratch(); err != nil {
			return 0, reservation{}, err
		}
		r, err := newAnonymousRegion(n)
		if err != nil {
			return 0, reservation{}, err
		}
		s.scratch = r
	}
	s.busy = true
	return inScratch, reservation{region: s.scratch.retain(), data: s.scratch.data[:n:n]}, nil
}

func (s *Session) dropScratch() error {
	if s.scratch == nil {
		return nil
	}
	r := s.scratch
	s.scratch, s.busy = nil, false
	return r.release()
}

// insert serves XNNPACK's look_up_or_insert: the address where size bytes equal to those at the packed address stay.
// It never fails: what goes wrong is kept for Finalize, and the bytes stay where they were packed.
func (s *Session) insert(seed uint32, kernel, bias uintptr, fingerprintID uint32, packed uintptr, size uint64) uintptr {
	progress, address := s.insertQuietly(seed, kernel, bias, fingerprintID, packed, size)
	if progress != nil && s.cache.options.Progress != nil {
		s.cache.options.Progress(*progress)
	}
	return address
}

func (s *Session) insertQuietly(seed uint32, kernel, bias uintptr, fingerprintID uint32, packed uintptr, size uint64) (*Progress, uintptr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	w, named := s.weight(kernel, bias, fingerprintID)
	key := seedKey{w.key, seed}
	if packed == 0 { // GEMM convolution hands in nothing when its look-up was a hit
		if e := s.answered[key]; named && e != nil {
			return nil, addressOf(e.data)
		}
	}
	p, ok := s.packings[packed]
	if !ok || size > uint64(len(p.data)) {
		s.fail(fmt.Errorf("XNNPACK hands in %d bytes at %#x, which were not reserved", size, packed))
		return nil, packed
	}
	delete(s.packings, packed)
	if named && (!w.kernel.filled || w.bias != nil && !w.bias.filled) {
		s.fail(fmt.Errorf("tensor %q was packed without a look-up: %w", w.kernel.name, ErrNotEager))
		named = false
	}
	c.stats.PackingTime += time.Since(p.start)
	p.data = p.data[:size:size]
	e := s.settlePacking(w, named, seed, p)
	s.use(e)
	if named {
		s.answered[key] = e
	}
	return &Progress{Name: e.name(), Bytes: int64(size), Done: s.done, Total: s.total}, addressOf(e.data)
}

// settlePacking finds or makes the entry for what was just packed.
func (s *Session) settlePacking(w weight, named bool, seed uint32, p packing) *entry {
	c := s.cache
	if !named {
		return s.settleUnnamed(p)
	}
	key := seedKey{w.key, seed}
	variant := false
	for _, e := range c.candidates(w.key) {
		if bytes.Equal(e.data, p.data) { // equal bytes are right, whoever packed them from what
			s.discard(p)
			s.adopt(key, w, e)
			c.stats.Reused.add(len(e.data))
			return e
		}
		same, err := sameContent(w, e)
		if err != nil {
			s.fail(err)
		}
		if same && (e.record.Seed == seed || c.seeds[key] == e) {
			variant = true
			s.setFlag(e, format.Variant)
		}
	}
	e := &entry{record: format.Record{Key: w.key, Seed: seed}, kernel: w.kernel, bias: w.bias}
	if variant {
		e.record.Flags |= format.Variant
	}
	if w.bias == nil {
		s.unbiased = append(s.unbiased, e)
	}
	s.place(e, p)
	if e.reason == "" {
		c.stats.Packed.add(len(e.data))
	} else {
		s.countPrivate(e)
	}
	c.keep(e)
	c.note(e.region.release()) // keep has taken its own reference
	return e
}

// place gives an entry its memory: where it was packed, unless that was scratch.
func (s *Session) place(e *entry, p packing) {
	c := s.cache
	if p.kind == inScratch {
		kept := p
		if !s.keepScratch(&kept) {
			s.giveUp(p)
			e.data, e.region, e.reason = p.data, p.region, ReasonDisk
			return
		}
		copy(kept.data, p.data)
		s.discard(p)
		p = kept
	}
	e.data, e.region = p.data, p.region
	switch {
	case p.kind == inFile:
		e.fresh = true
		e.record.Offset, e.record.Size = p.offset(), uint64(len(p.data))
		c.store.filled(p.reservation)
		c.fresh = append(c.fresh, e)
	case c.store != nil:
		e.reason = s.noFile
	}
}

// giveUp leaves a packing where it is, for good, when there is no memory for a copy.
func (s *Session) giveUp(p packing) {
	switch p.kind {
	case inScratch: // the packing's reference to the region goes to the entry
		s.cache.note(s.dropScratch())
	case inFile: // the space stays ours for as long as it is not filled
	case inPrivate:
	}
}

// keepScratch reserves lasting space for what was packed into scratch.
func (s *Session) keepScratch(p *packing) bool {
	s.cache.mu.Unlock()
	kind, r, err := s.reserveKept(uint64(len(p.data)))
	s.cache.mu.Lock()
	if err != nil {
		s.fail(err)
		return false
	}
	p.kind, p.reservation = kind, r
	return true
}

// settleUnnamed keeps what nothing identifies in private memory, once for each content.
func (s *Session) settleUnnamed(p packing) *entry {
	c := s.cache
	sum := DigestOf(p.data)
	for _, e := range c.unnamed[sum] {
		if bytes.Equal(e.data, p.data) {
			s.discard(p)
			c.stats.Reused.add(len(e.data))
			return e
		}
	}
	if p.kind != inPrivate {
		if r, err := c.arena.alloc(uint64(len(p.data))); err == nil {
			copy(r.data, p.data)
			s.discard(p)
			p = packing{reservation: r, kind: inPrivate}
		} else {
			s.fail(err)
			s.giveUp(p)
		}
	}
	e := &entry{reason: ReasonUnnamed, data: p.data, region: p.region}
	e.record.Sum = format.Digest(sum)
	c.unnamed[sum] = append(c.unnamed[sum], e)
	s.countPrivate(e)
	return e
}

// discard gives up the space of a packing whose bytes are elsewhere.
func (s *Session) discard(p packing) {
	c := s.cache
	switch p.kind {
	case inFile:
		c.note(c.store.cancel(p.reservation))
	case inScratch:
		s.busy = false
		c.note(p.region.release())
	case inPrivate:
		c.note(p.region.release())
	}
}

// adopt takes note that a packing under key gave the bytes of an entry.
func (s *Session) adopt(key seedKey, w weight, e *entry) {
	c := s.cache
	c.keep(e)
	if e.record.Seed != key.seed {
		c.seeds[key] = e
	}
	if s.answered[key] == e {
		s.setFlag(e, format.Tied)
	}
	s.restamp(w, e)
}

// restamp brings an entry's stamps up to date, so that the next look-up need not compare digests. Where one content comes
// from several sources, the first keeps its stamps: they would be rewritten with every change of source.
func (s *Session) restamp(w weight, e *entry) {
	if e.kernel != nil || e.record.Source != format.Digest(w.kernel.origin) {
		return
	}
	update := func(src *source, stamp *format.Digest) {
		if src != nil && src.stamp != (Digest{}) && *stamp != format.Digest(src.stamp) {
			*stamp = format.Digest(src.stamp)
			s.cache.dirty = true
		}
	}
	update(w.kernel, &e.record.KernelStamp)
	update(w.bias, &e.record.BiasStamp)
}

func (s *Session) setFlag(e *entry, flag format.Flags) {
	if e.record.Flags&flag == 0 {
		s.cache.keep(e)
		e.record.Flags |= flag
		s.cache.dirty = true
	}
}

func (s *Session) countPrivate(e *entry) {
	count := s.cache.stats.Private[e.reason]
	count.add(len(e.data))
	s.cache.stats.Private[e.reason] = count
}

// use keeps an entry for as long as the session is open.
func (s *Session) use(e *entry) {
	if s.used[e] {
		return
	}
	s.used[e] = true
	if e.reason != ReasonUnnamed {
		s.cache.keep(e)
	}
	e.sessions++
	if e.sessions == 1 {
		if e.reason == "" {
			s.cache.stats.MappedBytes += int64(len(e.data))
		} else {
			s.cache.stats.PrivateBytes += int64(len(e.data))
		}
	}
}

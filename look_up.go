package xpwc

import (
	"fmt"
	"slices"

	"xpwc/internal/format"
)

// notFound is what look_up answers for what is not in the cache: SIZE_MAX (xnnpack.h).
const notFound = ^uintptr(0)

// A lookUpKey is XNNPACK's struct xnn_weights_cache_look_up_key: what XNNPACK says of weights that it is about to pack,
// or has packed.
type lookUpKey struct {
	seed          uint32
	kernel, bias  uintptr // addresses; there may be no bias
	fingerprintID uint32
}

// lookUp serves XNNPACK's look_up: the address of the packed weights, or notFound.
func (s *Session) lookUp(key lookUpKey) uintptr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finalized {
		s.fail(fmt.Errorf("look-up: %w", ErrFinalized))
		return notFound
	}
	w := s.weight(key)
	s.presume(w)
	e, same := s.answer(w)
	if e != nil {
		return addressOf(e.data)
	}
	s.announced = &announcement{named: w.named, compare: same, failed: s.fillFor(w), sources: w.sources()}
	for _, src := range s.announced.sources {
		src.willRead() // to be packed
		switch {
		case !w.named:
		case src.digestWith == nil && len(src.content) <= hashedAtOnce:
			_, _ = src.contentDigest()
		default:
			src.willRead()
			s.digests.Go(func() {
				_, _ = src.contentDigest()
				src.didRead()
			})
		}
	}
	return notFound
}

// hashedAtOnce is the most bytes that are hashed at once. A goroutine that does it beside the packing takes longer to
// begin than so few take, and a million of them may come to wait.
const hashedAtOnce = 4 << 10

// answer returns the entry that a look-up hits, or nil. same reports whether what will be packed is to be compared with
// something stored.
func (s *Session) answer(w *weight) (e *entry, same bool) {
	e, same = s.find(w, nil)
	if e == nil && w.presumed && s.makeSure(w) {
		e, same = s.find(w, nil)
	}
	if e == nil && !same && w.named && s.becomeWriter() {
		e, same = s.find(w, nil) // it may be what another process packed while we waited
		if e != nil || same {
			s.stopWriting() // others wait too
		}
	}
	s.countAnswer(w, e)
	return e, same
}

func (s *Session) countAnswer(w *weight, e *entry) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if e == nil {
		c.stats.Misses++
		return
	}
	s.restampLater(w, e)
	w.setAnswer(e)
	c.stats.Hits.add(len(e.data))
}

// A weight is what a key of XNNPACK's stands for.
type weight struct {
	key          format.Key
	seed         uint32
	kernel, bias *source // nil if it is something Load never gave out
	hasBias      bool
	named        bool
	presumed     bool          // the key's layout is
	surveyed     *format.Index // all its records under the key are in memory
}

// under has a weight looked up under a layout.
func (w *weight) under(layout format.Digest) { w.key.Layout, w.surveyed = layout, nil }

// answer returns the entry that this session's look-up or packing of the weight gave, or nil.
func (w *weight) answer() *entry {
	if w.kernel.answer.same(w) {
		return w.kernel.answer.entry
	}
	for _, a := range w.kernel.has().answers {
		if a.same(w) {
			return a.entry
		}
	}
	return nil
}

func (w *weight) setAnswer(e *entry) {
	first := &w.kernel.answer
	if first.entry == nil || first.same(w) {
		*first = answer{w.bias, e, w.seed}
		return
	}
	more := w.kernel.own()
	for i := range more.answers {
		if a := &more.answers[i]; a.same(w) {
			a.entry = e
			return
		}
	}
	more.answers = append(more.answers, answer{w.bias, e, w.seed})
}

// An answer is the entry that a look-up or packing of a kernel gave, which has its key, with the rest of what was
// looked up.
type answer struct {
	bias  *source
	entry *entry // nil if there is none
	seed  uint32
}

func (a *answer) same(w *weight) bool {
	return a.entry != nil && a.bias == w.bias && a.seed == w.seed &&
		a.entry.record.FingerprintID == w.key.FingerprintID && a.entry.record.Packing == w.key.Packing
}

func (w *weight) sources() []*source {
	var known []*source
	for _, src := range []*source{w.kernel, w.bias} {
		if src != nil {
			known = append(known, src)
		}
	}
	return known
}

// weight names what XNNPACK asks for, but for the layout, until the next call of it. A bias without a name makes the
// whole unnamed: its bytes are packed in.
func (s *Session) weight(key lookUpKey) *weight {
	w := &s.asked
	*w = weight{
		key:     format.Key{FingerprintID: key.fingerprintID},
		seed:    key.seed,
		kernel:  s.addresses[key.kernel],
		hasBias: key.bias != 0,
	}
	w.named = w.kernel != nil
	if w.kernel != nil {
		w.kernel.isKernel = true
		w.key.Kernel = w.kernel.name
		w.key.Packing = w.kernel.packing.digest()
	}
	if w.hasBias {
		w.bias = s.addresses[key.bias]
		w.named = w.named && w.bias != nil
		if w.bias != nil {
			w.key.Bias, w.key.HasBias = w.bias.name, true
		}
	}
	if w.kernel != nil {
		s.consume(w.kernel)
	}
	if w.bias != nil {
		s.consume(w.bias)
	}
	return w
}

func (s *Session) consume(src *source) {
	src.consumed = true
	if !src.counted && !src.retain.Load() {
		s.done += int64(len(src.content))
	}
	src.counted = true
}

// fillFor computes what packing is about to read. XNNPACK packs the bias of operators with dynamically quantised input
// without naming it: under a key without a bias, anything loaded that could be one is computed, unless the host has
// said all that is packed in. It reports whether something could not be computed.
func (s *Session) fillFor(w *weight) (failed bool) {
	needed := w.sources()
	if !w.hasBias && (w.kernel == nil || !w.kernel.packing.given) {
		largest := 64 << 10 // of what could be a bias
		if w.kernel != nil {
			largest = max(largest, len(w.kernel.content))
		}
		s.unfilled = slices.DeleteFunc(s.unfilled, func(src *source) bool { return src.filled })
		for _, src := range s.unfilled {
			if !src.isKernel && len(src.content) <= largest {
				needed = append(needed, src)
			}
		}
	}
	for _, src := range needed {
		if err := src.fill(); err != nil {
			s.fail(fmt.Errorf("tensor %q: %w", src.name, err))
			failed = true
		}
	}
	return failed
}

// find returns the entry that answers a look-up, which the session uses from here on, or nil. same reports whether there
// is any entry of this weight with this content, be it under another seed or one of several: what will be packed is to
// be compared with it. If among is not nil, only entries that it accepts are looked at.
func (s *Session) find(w *weight, among func(*entry) bool) (answer *entry, same bool) {
	if !w.named {
		return nil, false
	}
	for {
		answer, same, learn := s.consider(w, among)
		if learn == nil {
			return answer, same
		}
		learn()
	}
}

// consider decides a look-up with what is known. If something is missing it returns what finds that out, to be called
// without a lock.
func (s *Session) consider(w *weight, among func(*entry) bool) (answer *entry, same bool, learn func()) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	entries, index := s.candidatesLocked(w)
	if index != nil {
		return nil, false, func() { s.survey(w, index) }
	}
	if among != nil {
		entries = all(entries, among)
	}
	var room [2]candidate
	candidates := room[:0]
	for _, e := range entries {
		candidates = append(candidates, s.candidateLocked(w, e))
	}
	p := &w.kernel.packing
	v := decide(asking{p.compare, w.answer() != nil, p.given, p.ambiguous(), c.options.Verify}, candidates)
	switch v.find {
	case itsContent:
		return nil, false, s.learnContentLocked(w, entries[v.of])
	case itsSize:
		e := entries[v.of]
		return nil, false, func() { s.learnSize(w, e) }
	case itsSum:
		return nil, false, s.learnSumLocked(entries[v.of])
	}
	if v.hit < 0 {
		return nil, v.same, nil
	}
	s.useLocked(entries[v.hit])
	return entries[v.hit], v.same, nil
}

// candidatesLocked returns all entries under a weight's key. If the loaded index has to be asked first it returns that.
func (s *Session) candidatesLocked(w *weight) ([]*entry, *format.Index) {
	c := s.cache
	if f := w.kernel.family; f == nil || f.gone {
		w.kernel.family = c.family(w.kernel.name)
	}
	entries := w.kernel.family.under(&w.key)
	index := c.index()
	if index == nil || w.surveyed == index || len(entries) > 0 && entries[0].surveyed == index {
		return soundOnes(entries), nil
	}
	return nil, index
}

// survey has the records that an index has under a weight's key in memory. With Options.Strict, a damaged index is an
// error of the session; by default that leaves what is packed afresh.
func (s *Session) survey(w *weight, index *format.Index) {
	c := s.cache
	records, err := recordsUnder(index, &w.key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.index() != index {
		return
	}
	if err != nil {
		if err := c.damagedIndex(err); err != nil {
			s.fail(err)
		}
		return
	}
	c.addLocked(index, &w.key, records)
	w.surveyed = index
}

// candidateLocked returns what is known of an entry under the key of a weight.
func (s *Session) candidateLocked(w *weight, e *entry) candidate {
	k := candidate{
		stamped: sameStamps(w, e), content: yes,
		seed:     e.packedUnder(w.seed),
		variant:  e.record.Flags&format.Variant != 0,
		tied:     e.record.Flags&format.Tied != 0,
		verified: !e.state.inGeneration() || e.verified,
	}
	if !k.stamped {
		k.content = sameContent(w, e)
	}
	switch {
	// Where a host gives no identity, what the file has may have been right for a smaller kernel of this name.
	case e.sized && (w.kernel.packing.known() || !s.cache.loaded(e)):
		k.size = yes
	case !w.sizeKnown(): // one that is too short shows when this has been packed: see rivals
		k.size = factOf(w.checkSize(e) == nil)
		e.sized = k.size == yes
	}
	return k
}

// learnContentLocked returns what computes the digests that it takes to compare an entry's content with the session's.
// The tensors that it was packed from are there as long as their session is pinned.
func (s *Session) learnContentLocked(w *weight, e *entry) func() {
	by, theirs, mine := e.by, []*source{e.kernel, e.bias}, []*source{w.kernel, w.bias}
	if e.kernel != nil {
		by.pins.Add(1)
	}
	return func() {
		if theirs[0] != nil {
			defer by.pins.Done()
		}
		for i, src := range mine {
			if src == nil || src == theirs[i] {
				continue
			}
			if theirs[i] != nil {
				_, _ = theirs[i].contentDigest() // their session reports the error
			}
			if _, err := src.contentDigest(); err != nil {
				s.remark(fmt.Errorf("tensor %q: %w", src.name, err))
			}
		}
	}
}

// learnSize finds out whether an entry has the size of what is looked up. One of the file that has another is not used
// again, unless it turns out to be what is packed.
func (s *Session) learnSize(w *weight, e *entry) {
	err := w.checkSize(e)
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		e.sized = true
	case e.doubt == sound:
		c.wrongSize(e, err)
	}
}

// learnSumLocked returns what compares an entry with its sum. One that is damaged is not used again.
func (s *Session) learnSumLocked(e *entry) func() {
	region := e.region.Retain()
	return func() {
		sound := e.intact()
		c := s.cache
		c.mu.Lock()
		defer c.mu.Unlock()
		c.note(region.Release())
		c.checkedLocked(e, sound)
	}
}

// checkedLocked takes note of whether an entry has the bytes that its sum was made of.
func (c *core) checkedLocked(e *entry, intact bool) {
	switch {
	case e.verified || e.doubt != sound:
	case intact:
		c.stats.Verified.add(len(e.data))
		e.verified = true
	default:
		c.damagedPayload(e)
	}
}

// sameStamps reports whether an entry was packed from the content that this session has under the same names, by what
// the stamps say alone, without reading it.
func sameStamps(w *weight, e *entry) bool {
	return sameStamp(w.kernel, e.kernel, e.record.KernelStamp) && sameStamp(w.bias, e.bias, e.record.BiasStamp)
}

// sameStamp compares a tensor of this session with another's, or with what the file says of one.
func sameStamp(mine, theirs *source, stamp format.Digest) bool {
	if mine == nil || mine == theirs {
		return true
	}
	if theirs != nil {
		stamp = theirs.stamp
	}
	return mine.stamp != (Digest{}) && mine.stamp == stamp
}

// sameContent reports whether an entry was packed from the content that this session has under the same names, as far
// as it is known.
func sameContent(w *weight, e *entry) fact {
	kernel := sameSource(w.kernel, e.kernel, e.record.KernelStamp, e.record.KernelDigest)
	if kernel != yes {
		return kernel
	}
	return sameSource(w.bias, e.bias, e.record.BiasStamp, e.record.BiasDigest)
}

func sameSource(mine, theirs *source, stamp, digest format.Digest) fact {
	if sameStamp(mine, theirs, stamp) {
		return yes
	}
	own := mine.digested.Load()
	if own != nil && own.err != nil {
		return no
	}
	if theirs != nil {
		d := theirs.digested.Load()
		switch {
		case d == nil:
			return unknown
		case d.err != nil:
			return no // their session will say so
		}
		digest = d.digest
	}
	if own == nil {
		return unknown
	}
	return factOf(own.digest == digest)
}

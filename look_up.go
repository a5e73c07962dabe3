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
	// The cache is not locked while the content is computed, which may take long.
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
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if !w.named {
		c.stats.Misses++
		return nil, false
	}
	e, same = s.find(w)
	if e == nil && w.presumed {
		changed := s.makeSure(w)
		if !w.named {
			c.stats.Misses++
			return nil, false
		}
		if changed {
			e, same = s.find(w)
		}
	}
	if e == nil && !same && s.becomeWriter() {
		e, same = s.find(w) // it may be what another process packed while we waited
		if e != nil || same {
			s.stopWriting() // others wait too
		}
	}
	if e == nil {
		c.stats.Misses++
		return nil, same
	}
	s.use(e)
	s.restampLater(w, e)
	w.setAnswer(e)
	c.stats.Hits.add(len(e.data))
	return e, same
}

// A weight is what a key of XNNPACK's stands for.
type weight struct {
	key          format.Key
	seed         uint32
	kernel, bias *source // nil if it is something Load never gave out
	hasBias      bool
	named        bool
	presumed     bool // the key's layout is
}

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

// find returns the entry that answers a look-up, or nil. same reports whether there is any entry of this weight with
// this content, be it under another seed or not to be distinguished: what will be packed is to be compared with it.
func (s *Session) find(w *weight) (answer *entry, same bool) {
	candidates := s.candidates(w)
	// Stamps are compared first. One name may stand for the weights of several models, and to find the others' out a
	// digest is needed, which reads the whole tensor.
	for _, e := range candidates {
		if !sameStamps(w, e) {
			continue
		}
		same = true
		if s.answers(e, w) {
			return e, true
		}
	}
	for _, e := range candidates {
		if sameStamps(w, e) {
			continue
		}
		match, err := sameContent(w, e)
		if err != nil {
			s.remark(err)
		}
		if !match {
			continue
		}
		same = true
		if s.answers(e, w) {
			return e, true
		}
	}
	return nil, same
}

// answers reports whether an entry of a weight, packed from the content that it has here, is what its look-up is given.
func (s *Session) answers(e *entry, w *weight) bool {
	c := s.cache
	switch {
	case w.kernel.packing.compare:
		return false // the host does not know which it means
	case e.record.Flags&format.Variant != 0, !e.packedUnder(w.seed):
		return false
	case w.answer() != nil && (e.record.Flags&format.Tied == 0 || !w.kernel.packing.given):
		// Scales and zero points are not in the key. A second use of it in one model may mean other ones, until it was
		// once seen to be packed into the same bytes, and always if the host does not give a packing identity.
		return false
	case w.kernel.packing.ambiguous() && e.record.Flags&format.Tied == 0:
		return false // which of the ways to pack it is of, nobody knows
	case !s.sized(w, e):
		return false
	case !e.state.inGeneration() || e.verified:
		return true
	case c.options.Verify == VerifyRepack:
		return false
	case c.options.Verify == VerifyOnUse:
		if !c.intact(e) {
			return false
		}
		c.stats.Verified.add(len(e.data))
		e.verified = true
	}
	return true
}

// sized reports whether an entry has the size of what is looked up. One of the file that has another is not used again,
// unless it turns out to be what is packed.
func (s *Session) sized(w *weight, e *entry) bool {
	// Where a host gives no identity, what the file has may have been right for a smaller kernel of this name.
	if e.sized && (w.kernel.packing.known() || !s.cache.loaded(e)) {
		return true
	}
	if err := w.checkSize(e); err != nil {
		if w.sizeKnown() { // otherwise it shows when this has been packed: see compare
			s.cache.wrongSize(e, err)
		}
		return false
	}
	e.sized = true
	return true
}

// candidates returns all entries under a weight's key.
func (s *Session) candidates(w *weight) []*entry {
	if f := w.kernel.family; f == nil || f.gone {
		w.kernel.family = s.cache.family(w.kernel.name)
	}
	entries, err := s.cache.candidates(&w.key, w.kernel.family)
	if err != nil {
		s.fail(err)
	}
	return entries
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

// sameContent reports whether an entry was packed from the content that this session has under the same names. The
// error is one of this session's tensors.
func sameContent(w *weight, e *entry) (bool, error) {
	pair := func(mine, theirs *source, stamp, digest format.Digest) (bool, error) {
		if sameStamp(mine, theirs, stamp) {
			return true, nil
		}
		if theirs != nil {
			d, err := theirs.contentDigest()
			if err != nil {
				return false, nil // their session will say so
			}
			digest = d
		}
		d, err := mine.contentDigest()
		if err != nil {
			return false, fmt.Errorf("tensor %q: %w", mine.name, err)
		}
		return d == digest, nil
	}
	same, err := pair(w.kernel, e.kernel, e.record.KernelStamp, e.record.KernelDigest)
	if err != nil || !same {
		return false, err
	}
	return pair(w.bias, e.bias, e.record.BiasStamp, e.record.BiasDigest)
}

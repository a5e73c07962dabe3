package xpwc

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"xpwc/internal/ask"
	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/writer"
)

// notFound is look_up's answer to a miss: SIZE_MAX (xnnpack.h).
const notFound = ^uintptr(0)

// addressOf returns the address of b, by which XNNPACK knows mapped memory.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// A lookUpKey is XNNPACK's struct xnn_weights_cache_look_up_key, which names weights that it is about to pack or has
// packed.
type lookUpKey struct {
	seed          uint32
	kernel, bias  uintptr // addresses; there may be no bias
	fingerprintID uint32
}

// lookUp serves XNNPACK's look_up: the address of the packed weights, or notFound.
func (s *Session) lookUp(key lookUpKey) uintptr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != stateLoading {
		s.fail(fmt.Errorf("look-up: %w", ErrFinalized))
		return notFound
	}
	w := s.weight(key)
	e, comparable := s.find(w)
	if e == nil {
		e, comparable = s.retry(w, comparable)
	}
	if e == nil {
		s.announce(w, comparable)
		return notFound
	}
	s.spare = w
	return addressOf(e.Data)
}

// retry looks a weight up again under the layout of this machine, if another was assumed, and waits for other sessions
// and processes that pack it. If it returns no entry, they wait for this session.
func (s *Session) retry(w *weight, comparable bool) (*entries.Entry, bool) {
	var e *entries.Entry
	if w.layoutAssumed && s.confirmLayout(w) {
		e, comparable = s.find(w)
	}
	began := false
	for e == nil && w.named {
		switch {
		case s.user.Await(&w.Query):
		case !comparable && s.startWriting():
			began = true
		case s.user.Claim(&w.Query):
			return nil, comparable
		}
		e, comparable = s.find(w)
		if began && (e != nil || comparable) {
			s.user.StopWriting() // other sessions and processes may pack
			began = false
		}
	}
	return e, comparable
}

// announce prepares for the packing of a weight that missed: its tensors are computed, and their digests in the
// background.
func (s *Session) announce(w *weight, comparable bool) {
	s.user.CountMiss()
	w.comparable, w.failed = comparable, s.fillFor(w)
	s.announced = s.noteMiss(w)
	for _, src := range w.sources() {
		src.beginRead() // by packing
		if w.named {
			src.beginRead()
			s.digests.Go(len(src.content), src.digest)
		}
	}
}

// A weight is the kernel and bias of a key of XNNPACK's.
type weight struct {
	writer.Query
	kernel, bias  *source // nil if Load did not return its address
	hasBias       bool
	named         bool
	trusted       bool    // stored entries may answer; otherwise they are compared with a packing
	layoutAssumed bool    // and not confirmed
	sizeMismatch  bool    // an entry that could have answered has another size than the operator reads
	sizeUnknown   bool    // XNNPACK does not report its size: only equal bytes are right
	refusal       refusal // of the entries that it was compared with

	// Of a look-up that missed:
	buffer     [2]*source // of sources
	comparable bool       // the packing may turn out equal to an entry
	failed     bool       // the tensors could not be computed
}

// An answer is the entry of one use of a kernel in a session.
type answer struct {
	bias                *source
	seed, fingerprintID uint32
	packing             Digest
	entry               *entries.Entry // nil until a look-up hits or the weight is packed
}

// answer returns the answer to the same look-up, or makes it. It is valid until the next call for the kernel.
func (w *weight) answer() *answer {
	k := w.kernel
	for i := range k.answers {
		a := &k.answers[i]
		if a.bias == w.bias && a.seed == w.Seed && a.fingerprintID == w.Key.FingerprintID &&
			a.packing == w.Key.Packing {
			return a
		}
	}
	if k.answers == nil {
		k.answers = k.firstAnswer[:0]
	}
	k.answers = append(k.answers, answer{w.bias, w.Seed, w.Key.FingerprintID, w.Key.Packing, nil})
	return &k.answers[len(k.answers)-1]
}

// sources returns the kernel and the bias, without unknown ones.
func (w *weight) sources() []*source {
	sources := w.buffer[:0]
	for _, src := range [...]*source{w.kernel, w.bias} {
		if src != nil {
			sources = append(sources, src)
		}
	}
	return sources
}

// weight names the weight of a key. A bias without a name makes the whole unnamed: its bytes are packed in.
func (s *Session) weight(key lookUpKey) *weight {
	w := s.spare
	if w == nil {
		w = &weight{}
	}
	s.spare = nil
	*w = weight{kernel: s.addresses[key.kernel], hasBias: key.bias != 0}
	w.Seed, w.Key.FingerprintID, w.Key.Layout = key.seed, key.fingerprintID, s.layout
	if w.hasBias {
		w.bias = s.addresses[key.bias]
	}
	for _, src := range [...]*source{w.kernel, w.bias} {
		if src == nil {
			continue
		}
		src.consumed = true
		if !src.counted && !src.retain.Load() {
			s.done += int64(len(src.content))
		}
		src.counted = true
	}
	if w.bias != nil {
		w.Key.Bias, w.Key.HasBias = w.bias.name, true
	}
	k := w.kernel
	if k == nil {
		return w
	}
	k.isKernel = true
	p := &k.packing
	w.named = w.bias != nil || !w.hasBias
	w.trusted = p.belief == believeHost || p.belief == believeIdentity && p.complete
	w.Key.Kernel, w.Key.Packing = k.name, p.digest
	if w.named && p.described && w.trusted && !p.ambiguous {
		// Entries of sessions that are not finalized may answer: the packing identity decides the bytes.
		w.Contents = w.contents()
	}
	return w
}

// fillFor computes the tensors that packing is about to read. XNNPACK packs the bias of operators with dynamically
// quantised input, although their key has none: without a packing identity, each loaded tensor that could be the bias
// is computed. It reports whether a tensor could not be computed.
func (s *Session) fillFor(w *weight) (failed bool) {
	needed := w.sources()
	if !w.hasBias && (w.kernel == nil || !w.kernel.packing.described) {
		largest := 64 << 10 // size of a bias
		if w.kernel != nil {
			largest = max(largest, len(w.kernel.content))
		}
		s.unfilled = slices.DeleteFunc(s.unfilled, func(src *source) bool { return src.presence == present })
		for _, src := range s.unfilled {
			if !src.isKernel && len(src.content) <= largest {
				needed = append(needed, src)
			}
		}
	}
	for _, src := range needed {
		if err := s.fillForPacking(src); err != nil {
			s.fail(fmt.Errorf("tensor %q: %w", src.name, err))
			failed = true
		}
	}
	return failed
}

// mostLearned bounds the entries that a look-up examines one by one: a hostile index may have any number under one key.
// What is packed is compared with all of them.
const mostLearned = 16

// find returns the entry that answers a look-up, which the session uses from here on, or nil. comparable reports
// whether an entry has this weight with this content, under another seed for instance: what is packed is compared.
func (s *Session) find(w *weight) (entry *entries.Entry, comparable bool) {
	if w.named && s.layoutState != layoutKnown && !w.layoutAssumed {
		s.chooseLayout(w)
	}
	if !w.named {
		s.user.Unclaim() // XNNPACK has given up on the previous weight
		return nil, false
	}
	p, answer := &w.kernel.packing, w.answer()
	r := request{!w.trusted, answer.entry != nil, p.described, p.ambiguous, s.cache.options.Verify}
	for learned := 0; ; learned++ {
		views, err := s.user.LookUp(&w.Query)
		if err != nil {
			s.fail(err)
		}
		var buffer [4]candidate
		candidates := buffer[:0]
		for i := range views {
			candidates = append(candidates, w.candidate(&views[i]))
		}
		v := decide(r, candidates)
		switch {
		case v.need != needNothing && learned >= mostLearned:
			return nil, true
		case v.need != needNothing:
			s.gather(w, v.need, &views[v.candidate])
		case v.hit < 0:
			w.refusal = v.refusal
			return nil, v.contentMatch
		case s.user.Use(&views[v.hit]):
			view := &views[v.hit]
			if view.Pending {
				s.work = max(s.work, workEqual) // recheckSources asks whether its source changed
			}
			if !candidates[v.hit].stamped || view.Record.Source == (Digest{}) {
				s.addRestamp(w, view)
			}
			answer.entry = view.Entry
			return view.Entry, true
		}
	}
}

// candidate returns the facts of an entry under the key of a weight.
func (w *weight) candidate(v *writer.View) candidate {
	k := candidate{
		stamped:  w.stampsMatch(v),
		content:  confirmed,
		seed:     v.Seed,
		variant:  v.Record.Flags&format.Variant != 0,
		tied:     v.Record.Flags&format.Tied != 0,
		verified: !v.Durable || v.Verified,
	}
	if !k.stamped {
		k.content = contentFact(w, v)
	}
	switch {
	// Without a packing identity the size may have been that of a smaller kernel of this name.
	case v.Sized && (w.kernel.packing.complete || !v.Durable):
		k.size = confirmed
	case w.sizeUnknown:
		k.size = refuted
	case !w.sizeKnown(): // inspectStored finds an entry that is too short
		k.size = factOf(w.checkSize(v.Entry.Data) == nil)
	}
	return k
}

// gather learns a missing fact of an entry.
func (s *Session) gather(w *weight, missing need, v *writer.View) {
	switch missing {
	case needContent:
		s.noteReading(w, v)
		s.computeDigests(w, v)
	case needSize:
		err := w.checkSize(v.Entry.Data)
		if w.sizeUnknown = errors.Is(err, errSizeUnknown); !w.sizeUnknown {
			s.user.RecordSize(v.Entry, err)
			w.sizeMismatch = w.sizeMismatch || err != nil
		}
	case needSum:
		s.user.VerifySum(v.Entry)
	}
}

// computeDigests computes the digests to compare.
func (s *Session) computeDigests(w *weight, v *writer.View) {
	c := w.contents()
	for _, pair := range [][2]*entries.Content{{c.Kernel, v.Kernel}, {c.Bias, v.Bias}} {
		if pair[0] == nil || pair[0] == pair[1] {
			continue
		}
		for i, c := range pair {
			if c == nil || i == 1 && v.Pending {
				continue
			}
			if _, digested, _ := c.Computed(); digested {
				continue
			}
			if _, err := c.Digest(); err != nil {
				s.note(fmt.Errorf("tensor %q: %w", c.Reader.(*source).name, err))
			}
		}
	}
}

// contents returns the contents of a weight that has a kernel.
func (w *weight) contents() entries.Contents {
	c := entries.Contents{Kernel: &w.kernel.identity}
	if w.bias != nil {
		c.Bias = &w.bias.identity
	}
	return c
}

// stampsMatch reports whether an entry's stamps are those of the session's tensors.
func (w *weight) stampsMatch(v *writer.View) bool {
	c, r := w.contents(), &v.Record
	switch {
	case v.Kernel != nil:
		return stampMatches(c.Kernel, v.Kernel, Digest{}) && stampMatches(c.Bias, v.Bias, Digest{})
	case c.Kernel.Stamp == Digest{} || c.Bias != nil && c.Bias.Stamp == Digest{}:
		return false
	case c.Kernel.Stamp == r.Stamps.Kernel && (c.Bias == nil || c.Bias.Stamp == r.Stamps.Bias): // as mostly
		return true
	}
	stamps, _ := c.Stamps()
	return r.HasStamps(stamps)
}

// stampMatches compares the stamp of a tensor with that of an entry's: of a tensor in memory, or else of its record.
func stampMatches(content, stored *entries.Content, stamp format.Digest) bool {
	if content == nil || content == stored {
		return true
	}
	if stored != nil {
		stamp = stored.Stamp
	}
	return content.Stamp != (Digest{}) && content.Stamp == stamp
}

// contentFact reports whether an entry was packed from the session's tensors, as far as digests are computed.
func contentFact(w *weight, v *writer.View) fact {
	c, r := w.contents(), &v.Record
	kernel := tensorFact(c.Kernel, v.Kernel, r.Stamps.Kernel, r.Digests.Kernel)
	if kernel != confirmed {
		return kernel
	}
	return tensorFact(c.Bias, v.Bias, r.Stamps.Bias, r.Digests.Bias)
}

func tensorFact(content, stored *entries.Content, stamp, digest format.Digest) fact {
	if stampMatches(content, stored, stamp) {
		return confirmed
	}
	digestHere, digested, err := content.Computed()
	if err != nil {
		return refuted
	}
	if stored != nil {
		d, computed, err := stored.Computed()
		switch {
		case !computed:
			return unknown
		case err != nil:
			return refuted
		}
		digest = d
	}
	if !digested {
		return unknown
	}
	return factOf(digestHere == digest)
}

// addRestamp records that an entry was packed from the session's tensors, although it lacks their stamps. Finalize adds
// the stamps, unless the tensors changed meanwhile, and the next look-up need not compare.
func (s *Session) addRestamp(w *weight, v *writer.View) {
	r := writer.Sourced{Entry: v.Entry, Contents: w.contents()}
	if r.Needed(v) {
		s.restamps = append(s.restamps, r)
	}
}

// After a hit XNNPACK asks nothing more: it reads as many bytes as it would have packed. A shorter payload would be
// read beyond its end. So XNNPACK is asked for the size of each geometry, once a process.

// sizeKnown reports whether the packing identity decides the size of the packed bytes. The tensor's size does not: it
// may be larger than the kernel, since ExecuTorch's exporter writes the whole storage of a view. Nor is the size of a
// host's conversion known.
func (w *weight) sizeKnown() bool {
	return w.kernel.packing.complete && (w.kernel.copyOf == nil || w.kernel.copyMethod.kind == byXNNPACK)
}

// errSizeUnknown: only a comparison with a packing can show that a payload has the right size.
var errSizeUnknown = errors.New("XNNPACK does not report how many bytes it packs")

// checkSize returns an error that matches ErrDamaged if a payload has another size than the operator reads, and
// errSizeUnknown if it may have.
func (w *weight) checkSize(packed []byte) error {
	n := uint64(len(packed))
	if !w.sizeKnown() {
		// XNNPACK converts float32 to float16 at most, so a packing has at least half as many bytes as its kernel, even
		// if the kernel was converted.
		return checkMinimum(n, uint64(w.kernel.minimumSize())/2)
	}
	copied := w.kernel.copyOf != nil
	var sizeErr error
	for i := range w.kernel.packing.identities { // any of them may read it
		g := &w.kernel.packing.identities[i].geometry
		var size uint64
		if w.kernel.fits(g) {
			size = ask.PackedSize(g, w.Key.FingerprintID)
		}
		switch {
		// XNNPACK made another operator of the node, or converted the kernel differently.
		case size == 0, copied && n != size:
			if err := checkMinimum(n, leastBytes(*g, copied)); err != nil {
				return err
			}
			sizeErr = errSizeUnknown
		case n != size:
			return fmt.Errorf("it has %d bytes, XNNPACK packs %d: %w", n, size, ErrDamaged)
		}
	}
	return sizeErr
}

func checkMinimum(n, minimum uint64) error {
	if n >= minimum {
		return nil
	}
	return fmt.Errorf("it has %d bytes, what XNNPACK packs has %d at least: %w", n, minimum, ErrDamaged)
}

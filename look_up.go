package xpwc

import (
	"errors"
	"fmt"
	"slices"

	"xpwc/internal/ask"
	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/writer"
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
	s.user.Unclaim() // XNNPACK gave up on it
	if s.stage != stageLoading {
		s.fail(fmt.Errorf("look-up: %w", ErrFinalized))
		return notFound
	}
	w := s.weight(key)
	s.presume(w)
	if w.named {
		w.share()
	}
	e, same := s.answer(w)
	if e != nil {
		return addressOf(e.Data)
	}
	w.alike, w.failed = same, s.fillFor(w)
	s.announced = s.noteMiss(w)
	for _, src := range w.sources() {
		src.willRead() // to be packed
		if w.named {
			src.willRead()
			s.digests.Go(func() {
				_, _ = src.is.Digest()
				src.didRead()
			})
		}
	}
	return notFound
}

// answer returns the entry that a look-up hits, or nil. same reports whether what will be packed is to be compared with
// something stored.
func (s *Session) answer(w *weight) (e *entries.Entry, same bool) {
	e, same = s.find(w)
	if e == nil && w.presumed && s.makeSure(w) {
		e, same = s.find(w)
	}
	if e == nil && w.named {
		e, same = s.awaitOrClaim(w, same)
	}
	if e == nil {
		s.user.Missed()
	}
	return e, same
}

// awaitOrClaim waits for other sessions and processes that pack the same, and returns what answer does. If it returns
// no entry, other sessions wait for this one.
func (s *Session) awaitOrClaim(w *weight, same bool) (*entries.Entry, bool) {
	var e *entries.Entry
	began := false
	for e == nil {
		switch {
		case s.user.Await(&w.Query):
		case !same && s.becomeWriter():
			began = true
		case s.user.Claim(&w.Query):
			return nil, same
		}
		e, same = s.find(w)
		if began && (e != nil || same) {
			s.user.StopWriting() // others wait, too
			began = false
		}
	}
	return e, same
}

// share lets entries answer that other sessions have packed and are not finalized, if the packing identity decides the
// bytes: such a session may yet find a second way in which the kernel is packed.
func (w *weight) share() {
	if p := &w.kernel.packing; p.given && p.believed() && !p.ambiguous() {
		w.Contents = writer.Contents{Kernel: &w.kernel.is, Bias: w.biasContent()}
	}
}

// becomeWriter makes this process the file's writer for as long as the session packs, waiting for another process
// within limits. It reports whether what the cache holds may have changed since.
func (s *Session) becomeWriter() (changed bool) {
	if s.noFile != "" {
		return false
	}
	changed, reason := s.user.BecomeWriter()
	s.noFile = Reason(reason)
	return changed
}

// A weight is what a key of XNNPACK's stands for.
type weight struct {
	writer.Query
	kernel, bias *source // nil if it is something Load never gave out
	hasBias      bool
	named        bool
	presumed     bool // the key's layout is
	misfit       bool // an entry that could have answered it has not the size that the operator reads
	unsaid       bool // XNNPACK does not say how many bytes it packs: an entry is right if it is equal

	session *Session
	verdict verdict // of a look-up that is being decided

	// Of a look-up that missed:
	alike  bool // there is something stored that the packing may turn out equal to
	failed bool // what is to be packed could not be computed
}

// A question is what XNNPACK asks of a kernel in a session.
type question struct {
	kernel, bias        *source
	seed, fingerprintID uint32
	packing             Digest
}

func (w *weight) question() question {
	return question{w.kernel, w.bias, w.Seed, w.Key.FingerprintID, w.Key.Packing}
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

// weight names what XNNPACK asks for, but for the layout. A bias without a name makes the whole unnamed: its bytes are
// packed in.
func (s *Session) weight(key lookUpKey) *weight {
	w := &weight{session: s, kernel: s.addresses[key.kernel], hasBias: key.bias != 0}
	w.Seed, w.Key.FingerprintID = key.seed, key.fingerprintID
	k := &w.Key
	w.named = w.kernel != nil
	if w.kernel != nil {
		w.kernel.isKernel = true
		k.Kernel, k.Packing = w.kernel.name, w.kernel.packing.digest()
	}
	if w.hasBias {
		w.bias = s.addresses[key.bias]
		w.named = w.named && w.bias != nil
		if w.bias != nil {
			k.Bias, k.HasBias = w.bias.name, true
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
		s.unfilled = slices.DeleteFunc(s.unfilled, func(src *source) bool { return src.presence == present })
		for _, src := range s.unfilled {
			if !src.isKernel && len(src.content) <= largest {
				needed = append(needed, src)
			}
		}
	}
	for _, src := range needed {
		if err := s.fillToPack(src); err != nil {
			s.fail(fmt.Errorf("tensor %q: %w", src.name, err))
			failed = true
		}
	}
	return failed
}

// mostLearned bounds the entries that a look-up examines one by one: a hostile index may have any number under one key.
// What is packed is compared with all of them.
const mostLearned = 16

// find returns the entry that answers a look-up, which the session uses from here on, or nil. same reports whether
// there is any entry of this weight with this content, be it under another seed or one of several: what will be packed
// is to be compared with it.
func (s *Session) find(w *weight) (answer *entries.Entry, same bool) {
	if !w.named {
		return nil, false
	}
	for learned := 0; ; learned++ {
		hit, views, err := s.user.LookUp(&w.Query, w.judge)
		s.fail(err)
		switch {
		case hit >= 0:
			if views[hit].Others {
				s.work = max(s.work, workEqual) // lookAgain asks whether its source changed
			}
			s.restampLater(w, &views[hit])
			s.given[w.question()] = views[hit].Entry
			return views[hit].Entry, true
		case w.verdict.lacks != nothing && learned < mostLearned:
			s.learn(w, w.verdict.lacks, &views[w.verdict.of])
		case w.verdict.lacks != nothing:
			return nil, true
		default:
			return nil, w.verdict.same
		}
	}
}

// judge decides with what is known.
func (w *weight) judge(views []writer.View) (hit int) {
	known := make([]candidate, 0, len(views))
	for i := range views {
		known = append(known, w.candidate(&views[i]))
	}
	p := &w.kernel.packing
	again := w.session.given[w.question()] != nil
	a := asking{!p.believed(), again, p.given, p.ambiguous(), w.session.cache.options.Verify}
	w.verdict = decide(a, known)
	return w.verdict.hit
}

// candidate returns what is known of an entry under the key of a weight.
func (w *weight) candidate(v *writer.View) candidate {
	k := candidate{
		stamped: sameStamps(w, v), content: yes,
		seed:     v.Seed,
		variant:  v.Record.Flags&format.Variant != 0,
		tied:     v.Record.Flags&format.Tied != 0,
		verified: !v.Durable || v.Verified,
	}
	if !k.stamped {
		k.content = sameContent(w, v)
	}
	switch {
	// Where a host gives no identity, what the file has may have been right for a smaller kernel of this name.
	case v.Sized && (w.kernel.packing.known() || !v.Listed):
		k.size = yes
	case w.unsaid:
		k.size = no
	case !w.sizeKnown(): // one that is too short shows when this has been packed: see rivals
		k.size = factOf(w.checkSize(v.Entry.Data) == nil)
	}
	return k
}

// learn finds out what is lacking of a candidate.
func (s *Session) learn(w *weight, what lack, v *writer.View) {
	switch what {
	case itsContent:
		s.noteReading(w, v)
		s.learnContent(w, v)
	case itsSize:
		err := w.checkSize(v.Entry.Data)
		if w.unsaid = errors.Is(err, errUnsaid); !w.unsaid {
			s.user.Sized(v.Entry, err)
			w.misfit = w.misfit || err != nil
		}
	case itsSum:
		s.user.Intact(v.Entry)
	}
}

// learnContent reads the tensors of this session whose digests are compared.
func (s *Session) learnContent(w *weight, v *writer.View) {
	for _, pair := range [][2]*entries.Content{{&w.kernel.is, v.Kernel}, {w.biasContent(), v.Bias}} {
		if pair[0] == nil || pair[0] == pair[1] {
			continue
		}
		for i, c := range pair {
			if c == nil || i == 1 && v.Others {
				continue
			}
			if _, known, _ := c.Known(); known {
				continue
			}
			if _, err := c.Digest(); err != nil {
				s.note(fmt.Errorf("tensor %q: %w", c.Reader.(*source).name, err))
			}
		}
	}
}

// biasContent returns what the bias is, or nil if there is none.
func (w *weight) biasContent() *entries.Content {
	if w.bias == nil {
		return nil
	}
	return &w.bias.is
}

// sameStamps reports whether an entry was packed from the content that this session has under the same names, by what
// the stamps say alone, without reading it.
func sameStamps(w *weight, v *writer.View) bool {
	here := format.Stamps{Kernel: v.Record.KernelStamp, Bias: v.Record.BiasStamp}
	same := func(s format.Stamps) bool {
		return sameStamp(&w.kernel.is, v.Kernel, s.Kernel) && sameStamp(w.biasContent(), v.Bias, s.Bias)
	}
	if same(here) {
		return true
	}
	for copied := range v.Record.Copies.All() {
		if same(copied) {
			return true
		}
	}
	return false
}

// sameStamp compares two tensors of this session, or one with what the file says of one.
func sameStamp(mine, theirs *entries.Content, stamp format.Digest) bool {
	if mine == nil || mine == theirs {
		return true
	}
	if theirs != nil {
		stamp = theirs.Stamp
	}
	return mine.Stamp != (Digest{}) && mine.Stamp == stamp
}

// sameContent reports whether an entry was packed from the content that this session has under the same names, as far
// as it is known.
func sameContent(w *weight, v *writer.View) fact {
	is := &v.Record
	if kernel := sameTensor(&w.kernel.is, v.Kernel, is.KernelStamp, is.KernelDigest); kernel != yes {
		return kernel
	}
	return sameTensor(w.biasContent(), v.Bias, is.BiasStamp, is.BiasDigest)
}

func sameTensor(mine, theirs *entries.Content, stamp, digest format.Digest) fact {
	if sameStamp(mine, theirs, stamp) {
		return yes
	}
	own, known, err := mine.Known()
	if err != nil {
		return no
	}
	if theirs != nil {
		d, computed, err := theirs.Known()
		switch {
		case !computed:
			return unknown
		case err != nil:
			return no
		}
		digest = d
	}
	if !known {
		return unknown
	}
	return factOf(own == digest)
}

// restampLater takes note that content of this session was just seen to be packed into an entry's bytes, or to have
// its digest. Finalize says so in the entry, so that the next look-up need not compare, unless the content changed
// since.
func (s *Session) restampLater(w *weight, v *writer.View) {
	r := writer.Restamp{Entry: v.Entry, Kernel: &w.kernel.is}
	if w.bias != nil {
		r.Bias = &w.bias.is
	}
	if r.Needed(v) {
		s.restamps = append(s.restamps, r)
	}
}

// After a look-up that hit XNNPACK asks nothing more: it reads as many bytes as it would have packed. How many these
// are is asked of XNNPACK itself, once a process for each geometry.

// sizeKnown reports whether the size of what the operator of a look-up reads follows from the packing identity. What
// the tensor says is only a guess: it may have more than the kernel, as ExecuTorch's exporter writes the whole storage
// of a view. Nor is it known of what the host has converted.
func (w *weight) sizeKnown() bool {
	return w.kernel.packing.known() && (w.kernel.copyOf == nil || w.kernel.copying.how == xnnpacks)
}

// errUnsaid is of a payload of which nobody can say that it has the size that its operator reads.
var errUnsaid = errors.New("XNNPACK does not say how many bytes it packs")

// checkSize returns an error if a payload of the file is not what the operator of a look-up is going to read, and
// errUnsaid if it may be: it is right only if it is equal to what XNNPACK packs.
func (w *weight) checkSize(packed []byte) error {
	n := uint64(len(packed))
	if !w.sizeKnown() {
		// XNNPACK packs an element as it is, and float32 as float16 in half precision, so that a packing has at least
		// half as many bytes as its kernel. So has that of a copy, which may have been converted.
		return short(n, uint64(w.kernel.leastContent())/2)
	}
	copied := w.kernel.copyOf != nil
	var unsaid error
	for i := range w.kernel.packing.identities { // which of them reads it is not known, and all of them may
		g := &w.kernel.packing.identities[i].geometry
		var size uint64
		if w.kernel.fits(g) {
			size = ask.PackedSize(g, w.Key.FingerprintID)
		}
		switch {
		// XNNPACK made another operator of the node, or converted the kernel in another way.
		case size == 0, copied && n != size:
			if err := short(n, leastBytes(*g, copied)); err != nil {
				return err
			}
			unsaid = errUnsaid
		case n != size:
			return fmt.Errorf("it has %d bytes, XNNPACK packs %d: %w", n, size, ErrDamaged)
		}
	}
	return unsaid
}

func short(n, least uint64) error {
	if n >= least {
		return nil
	}
	return fmt.Errorf("it has %d bytes, what XNNPACK packs has %d at least: %w", n, least, ErrDamaged)
}

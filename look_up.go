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
	if s.state != stateLoading {
		s.fail(fmt.Errorf("look-up: %w", ErrFinalized))
		return notFound
	}
	w := s.weight(key)
	s.chooseLayout(w)
	if w.named {
		w.share()
	}
	e, contentMatch := s.answer(w)
	if e != nil {
		return addressOf(e.Data)
	}
	w.comparable, w.failed = contentMatch, s.fillFor(w)
	s.announced = s.noteMiss(w)
	for _, src := range w.sources() {
		src.beginRead() // to be packed
		if w.named {
			src.beginRead()
			s.digests.Go(func() {
				_, _ = src.identity.Digest()
				src.endRead()
			})
		}
	}
	return notFound
}

// answer returns the entry that a look-up hits, or nil. same reports whether what will be packed is to be compared with
// something stored.
func (s *Session) answer(w *weight) (e *entries.Entry, contentMatch bool) {
	e, contentMatch = s.find(w)
	if e == nil && w.layoutAssumed && s.confirmLayout(w) {
		e, contentMatch = s.find(w)
	}
	if e == nil && w.named {
		e, contentMatch = s.awaitOrClaim(w, contentMatch)
	}
	if e == nil {
		s.user.CountMiss()
	}
	return e, contentMatch
}

// awaitOrClaim waits for other sessions and processes that pack the same, and returns what answer does. If it returns
// no entry, other sessions wait for this one.
func (s *Session) awaitOrClaim(w *weight, contentMatch bool) (*entries.Entry, bool) {
	var e *entries.Entry
	began := false
	for e == nil {
		switch {
		case s.user.Await(&w.Query):
		case !contentMatch && s.startWriting():
			began = true
		case s.user.Claim(&w.Query):
			return nil, contentMatch
		}
		e, contentMatch = s.find(w)
		if began && (e != nil || contentMatch) {
			s.user.StopWriting() // others wait, too
			began = false
		}
	}
	return e, contentMatch
}

// share lets entries answer that other sessions have packed and are not finalized, if the packing identity decides the
// bytes: such a session may yet find a second way in which the kernel is packed.
func (w *weight) share() {
	if p := &w.kernel.packing; p.described && p.believed() && !p.ambiguous() {
		w.Contents = writer.Contents{Kernel: &w.kernel.identity, Bias: w.biasContent()}
	}
}

// startWriting makes this process the file's writer for as long as the session packs, waiting for another process
// within limits. It reports whether what the cache holds may have changed since.
func (s *Session) startWriting() (changed bool) {
	if s.noFile != "" {
		return false
	}
	changed, reason := s.user.StartWriting()
	s.noFile = Reason(reason)
	return changed
}

// A weight is what a key of XNNPACK's stands for.
type weight struct {
	writer.Query
	kernel, bias  *source // nil if it is something Load never gave out
	hasBias       bool
	named         bool
	layoutAssumed bool // the key's layout is
	sizeMismatch  bool // an entry that could have answered it has not the size that the operator reads
	sizeUnknown   bool // XNNPACK does not say how many bytes it packs: an entry is right if it is equal

	session *Session
	verdict verdict // of a look-up that is being decided

	// Of a look-up that missed:
	comparable bool // there is something stored that the packing may turn out equal to
	failed     bool // what is to be packed could not be computed
}

// A question is what XNNPACK asks of a kernel in a session.
type useKey struct {
	kernel, bias        *source
	seed, fingerprintID uint32
	packing             Digest
}

func (w *weight) useKey() useKey {
	return useKey{w.kernel, w.bias, w.Seed, w.Key.FingerprintID, w.Key.Packing}
}

func (w *weight) sources() []*source {
	var sources []*source
	for _, src := range []*source{w.kernel, w.bias} {
		if src != nil {
			sources = append(sources, src)
		}
	}
	return sources
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
	if !w.hasBias && (w.kernel == nil || !w.kernel.packing.described) {
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
		if err := s.fillForPacking(src); err != nil {
			s.fail(fmt.Errorf("tensor %q: %w", src.name, err))
			failed = true
		}
	}
	return failed
}

// find returns the entry that answers a look-up, which the session uses from here on, or nil. same reports whether
// there is any entry of this weight with this content, be it under another seed or one of several: what will be packed
// is to be compared with it.
func (s *Session) find(w *weight) (answer *entries.Entry, contentMatch bool) {
	if !w.named {
		return nil, false
	}
	for {
		hit, views, err := s.user.LookUp(&w.Query, w.judge)
		s.fail(err)
		switch {
		case hit >= 0:
			if views[hit].Pending {
				s.work = max(s.work, workEqual) // lookAgain asks whether its source changed
			}
			s.addRestamp(w, &views[hit])
			s.answered[w.useKey()] = views[hit].Entry
			return views[hit].Entry, true
		case w.verdict.need != needNothing:
			s.gather(w, w.verdict.need, &views[w.verdict.candidate])
		default:
			return nil, w.verdict.contentMatch
		}
	}
}

// judge decides with what is known.
func (w *weight) judge(views []writer.View) (hit int) {
	candidates := make([]candidate, 0, len(views))
	for i := range views {
		candidates = append(candidates, w.candidate(&views[i]))
	}
	p := &w.kernel.packing
	repeated := w.session.answered[w.useKey()] != nil
	a := request{!p.believed(), repeated, p.described, p.ambiguous(), w.session.cache.options.Verify}
	w.verdict = decide(a, candidates)
	return w.verdict.hit
}

// candidate returns what is known of an entry under the key of a weight.
func (w *weight) candidate(v *writer.View) candidate {
	k := candidate{
		stamped: stampsMatch(w, v), content: confirmed,
		seed:     v.Seed,
		variant:  v.Record.Flags&format.Variant != 0,
		tied:     v.Record.Flags&format.Tied != 0,
		verified: !v.Durable || v.Verified,
	}
	if !k.stamped {
		k.content = contentFact(w, v)
	}
	switch {
	// Where a host gives no identity, what the file has may have been right for a smaller kernel of this name.
	case v.Sized && (w.kernel.packing.complete() || !v.Listed):
		k.size = confirmed
	case w.sizeUnknown:
		k.size = refuted
	case !w.sizeKnown(): // one that is too short shows when this has been packed: see rivals
		k.size = factOf(w.checkSize(v.Entry.Data) == nil)
	}
	return k
}

// gather finds out what is lacking of a candidate.
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

// computeDigests reads the tensors of this session whose digests are compared.
func (s *Session) computeDigests(w *weight, v *writer.View) {
	for _, pair := range [][2]*entries.Content{{&w.kernel.identity, v.Kernel}, {w.biasContent(), v.Bias}} {
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

// biasContent returns what the bias is, or nil if there is none.
func (w *weight) biasContent() *entries.Content {
	if w.bias == nil {
		return nil
	}
	return &w.bias.identity
}

// stampsMatch reports whether an entry was packed from the content that this session has under the same names, by what
// the stamps say alone, without reading it.
func stampsMatch(w *weight, v *writer.View) bool {
	recorded := format.Stamps{Kernel: v.Record.KernelStamp, Bias: v.Record.BiasStamp}
	match := func(s format.Stamps) bool {
		return stampMatches(&w.kernel.identity, v.Kernel, s.Kernel) && stampMatches(w.biasContent(), v.Bias, s.Bias)
	}
	if match(recorded) {
		return true
	}
	for copied := range v.Record.Copies.All() {
		if match(copied) {
			return true
		}
	}
	return false
}

// stampMatches compares two tensors of this session, or one with what the file says of one.
func stampMatches(content, stored *entries.Content, stamp format.Digest) bool {
	if content == nil || content == stored {
		return true
	}
	if stored != nil {
		stamp = stored.Stamp
	}
	return content.Stamp != (Digest{}) && content.Stamp == stamp
}

// contentFact reports whether an entry was packed from the content that this session has under the same names, as far
// as it is known.
func contentFact(w *weight, v *writer.View) fact {
	record := &v.Record
	kernel := tensorFact(&w.kernel.identity, v.Kernel, record.KernelStamp, record.KernelDigest)
	if kernel != confirmed {
		return kernel
	}
	return tensorFact(w.biasContent(), v.Bias, record.BiasStamp, record.BiasDigest)
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

// addRestamp takes note that content of this session was just seen to be packed into an entry's bytes, or to have
// its digest. Finalize says so in the entry, so that the next look-up need not compare, unless the content changed
// since.
func (s *Session) addRestamp(w *weight, v *writer.View) {
	r := writer.Restamp{Entry: v.Entry, Kernel: &w.kernel.identity}
	if w.bias != nil {
		r.Bias = &w.bias.identity
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
	return w.kernel.packing.complete() && (w.kernel.copyOf == nil || w.kernel.copyMethod.kind == byXNNPACK)
}

// errSizeUnknown is of a payload of which nobody can say that it has the size that its operator reads.
var errSizeUnknown = errors.New("XNNPACK does not say how many bytes it packs")

// checkSize returns an error if a payload of the file is not what the operator of a look-up is going to read, and
// errUnsaid if it may be: it is right only if it is equal to what XNNPACK packs.
func (w *weight) checkSize(packed []byte) error {
	n := uint64(len(packed))
	if !w.sizeKnown() {
		// XNNPACK packs an element as it is, and float32 as float16 in half precision, so that a packing has at least
		// half as many bytes as its kernel. So has that of a copy, which may have been converted.
		return checkMinimum(n, uint64(w.kernel.minimumSize())/2)
	}
	copied := w.kernel.copyOf != nil
	var sizeErr error
	for i := range w.kernel.packing.identities { // which of them reads it is not known, and all of them may
		g := &w.kernel.packing.identities[i].geometry
		var size uint64
		if w.kernel.fits(g) {
			size = ask.PackedSize(g, w.Key.FingerprintID)
		}
		switch {
		// XNNPACK made another operator of the node, or converted the kernel in another way.
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

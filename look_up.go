package xpwc

import (
	"fmt"

	"xpwc/internal/format"
)

// notFound is what look_up answers for what is not in the cache: SIZE_MAX (xnnpack.h).
const notFound = ^uintptr(0)

// lookUp serves XNNPACK's look_up: the address of the packed weights, or notFound.
func (s *Session) lookUp(seed uint32, kernel, bias uintptr, fingerprintID uint32) uintptr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finalized {
		s.fail(fmt.Errorf("look-up: %w", ErrFinalized))
		return notFound
	}
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()

	weight, named := s.weight(kernel, bias, fingerprintID)
	if !named {
		s.announced = &announcement{}
		c.stats.Misses++
		return notFound
	}
	key := seedKey{weight.key, seed}
	e, same := s.find(weight, seed)
	if e == nil && !same {
		s.becomeWriter()
		if len(c.candidates(weight.key)) > 0 { // it may be what another process packed while we waited
			e, same = s.find(weight, seed)
		}
	}
	if e != nil {
		s.use(e)
		s.restamp(weight, e)
		s.answered[key] = e
		c.stats.Hits.add(len(e.data))
		return addressOf(e.data)
	}
	c.stats.Misses++
	s.announced = &announcement{named: true, compare: same}
	for _, src := range []*source{weight.kernel, weight.bias} {
		if src == nil {
			continue
		}
		if err := src.fill(); err != nil {
			s.fail(fmt.Errorf("tensor %q: %w", src.name, err))
			continue
		}
		s.digests.Go(func() { _, _ = src.contentDigest() })
	}
	return notFound
}

// A weight is what a key of XNNPACK's stands for.
type weight struct {
	key          format.Key
	kernel, bias *source
}

// weight names what XNNPACK asks for; false if it is something Load never gave out. A bias without a name makes the
// whole unnamed: its bytes are packed in.
func (s *Session) weight(kernel, bias uintptr, fingerprintID uint32) (weight, bool) {
	w := weight{key: format.Key{Layout: s.cache.layout.Fingerprint, FingerprintID: fingerprintID}}
	if w.kernel = s.addresses[kernel]; w.kernel == nil {
		return w, false
	}
	w.key.Kernel = w.kernel.name
	w.key.Quantization = format.Digest(w.kernel.quantization)
	s.consume(w.kernel)
	if bias != 0 {
		if w.bias = s.addresses[bias]; w.bias == nil {
			return w, false
		}
		w.key.Bias, w.key.HasBias = w.bias.name, true
		s.consume(w.bias)
	}
	return w, true
}

func (s *Session) consume(src *source) {
	if !src.consumed {
		src.consumed = true
		if !src.retain {
			s.done += int64(len(src.content))
		}
	}
}

// find returns the entry that answers a look-up, or nil. same tells whether there is any entry of this weight with this
// content, be it under another seed or not to be told apart: what will be packed is to be compared with it.
func (s *Session) find(w weight, seed uint32) (answer *entry, same bool) {
	for _, e := range s.cache.candidates(w.key) {
		match, err := sameContent(w, e)
		if err != nil {
			s.fail(err)
			continue
		}
		if !match {
			continue
		}
		same = true
		if answer != nil || e.record.Flags&format.Variant != 0 {
			continue
		}
		key := seedKey{w.key, seed}
		if e.record.Seed != seed && s.cache.seeds[key] != e {
			continue
		}
		// The key does not tell scales and zero points apart. A second use of it in one model may mean other ones, until
		// it was once seen to be packed into the same bytes.
		if first := s.answered[key]; first != nil && e.record.Flags&format.Tied == 0 {
			continue
		}
		answer = e
	}
	return answer, same
}

// sameContent reports whether an entry was packed from the content that this session has under the same names.
func sameContent(w weight, e *entry) (bool, error) {
	pair := func(mine, theirs *source, stamp, digest format.Digest) (bool, error) {
		if mine == nil || mine == theirs {
			return true, nil
		}
		if err := mine.fillForDigest(stamp); err != nil {
			return false, fmt.Errorf("tensor %q: %w", mine.name, err)
		}
		if theirs != nil {
			d, err := theirs.contentDigest()
			if err != nil {
				return false, fmt.Errorf("tensor %q: %w", theirs.name, err)
			}
			stamp, digest = format.Digest(theirs.stamp), format.Digest(d)
		}
		return mine.is(stamp, digest)
	}
	same, err := pair(w.kernel, e.kernel, e.record.KernelStamp, e.record.KernelDigest)
	if err != nil || !same {
		return false, err
	}
	return pair(w.bias, e.bias, e.record.BiasStamp, e.record.BiasDigest)
}

// alias serves XNNPACK's alias_data: it converted or copied a constant, and the copy stands for the original.
func (s *Session) alias(alias, original uintptr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	src := s.addresses[original]
	if src == nil || alias == original {
		return
	}
	s.aliases++
	s.addresses[alias] = &source{
		name:         src.name + "#alias",
		tensor:       Tensor{Identity: Identity{Digest: func() (Digest, error) { return src.contentDigest() }}},
		quantization: src.quantization,
		filled:       true,
		origin:       src.origin,
		stamp:        src.stamp,
	}
}

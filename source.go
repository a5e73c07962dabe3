package xpwc

import (
	"fmt"
	"sync"

	"xpwc/internal/format"
)

// A source is an unpacked tensor as a session loaded it.
type source struct {
	name         string
	tensor       Tensor
	quantization Digest
	content      []byte // at the address XNNPACK knows it by
	memory       *region
	filled       bool
	retain       bool
	consumed     bool
	released     bool

	origin Digest // digest of Identity.Source
	stamp  Digest // digest of Identity.Stamp, zero if there is none

	once   sync.Once
	digest Digest
	err    error
}

// sourceSlack is how far XNNPACK may read beyond a tensor at inference (XNN_EXTRA_BYTES, at most 128).
const sourceSlack = 128

func newSource(name string, t Tensor) (*source, error) {
	s := &source{name: name, tensor: t, content: t.Data, filled: t.Fill == nil}
	if t.Fill != nil {
		if t.Size < 0 {
			return nil, fmt.Errorf("its size is %d", t.Size)
		}
		memory, err := newAnonymousRegion(uint64(t.Size) + sourceSlack)
		if err != nil {
			return nil, err
		}
		s.memory, s.content = memory, memory.data[:t.Size:t.Size]
	}
	id := t.Identity
	if id.Source != "" {
		s.origin = digestOfStrings(id.Source)
	}
	if id.Stamp != "" {
		s.stamp = digestOfStrings(id.Source, id.Stamp)
	}
	return s, nil
}

// fill computes the content if it is not there yet.
func (s *source) fill() error {
	if s.filled {
		return nil
	}
	if err := s.tensor.Fill(s.content); err != nil {
		return err
	}
	s.filled = true
	return nil
}

// contentDigest returns the digest of the content, computing it the first time. The content must be there, or the tensor
// have a Digest function. It may be called from several goroutines.
func (s *source) contentDigest() (Digest, error) {
	s.once.Do(func() {
		if f := s.tensor.Identity.Digest; f != nil {
			s.digest, s.err = f()
		} else {
			s.digest = DigestOf(s.content)
		}
	})
	return s.digest, s.err
}

// is reports whether the source has the content that a record's stamp and digest tell.
func (s *source) is(stamp, digest format.Digest) (bool, error) {
	if s.stamp != (Digest{}) && s.stamp == Digest(stamp) {
		return true, nil
	}
	d, err := s.contentDigest()
	return err == nil && d == Digest(digest), err
}

// fillForDigest computes the content where only its digest can tell it from another.
func (s *source) fillForDigest(stamp format.Digest) error {
	if s.tensor.Identity.Digest != nil || s.stamp != (Digest{}) && s.stamp == Digest(stamp) {
		return nil
	}
	return s.fill()
}

// free gives back what the source holds. XNNPACK must not read it any more.
func (s *source) free() error {
	if s.released {
		return nil
	}
	s.released = true
	s.content = nil
	if s.tensor.Release != nil {
		s.tensor.Release()
	}
	if s.memory != nil {
		return s.memory.release()
	}
	return nil
}

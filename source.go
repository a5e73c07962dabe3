package xpwc

import (
	"errors"
	"fmt"
	"sync/atomic"

	"xpwc/internal/digest"
	"xpwc/internal/entries"
	"xpwc/internal/store"
)

// A source is an unpacked tensor as a session loaded it. There may be a million: what few of them have is apart.
type source struct {
	name    string
	content []byte // at the address XNNPACK knows it by
	packing packedAs

	filled   bool
	consumed bool // nothing but packing reads it, and it may go when the runtime is created
	counted  bool // a key named it, which Progress counts
	isKernel bool // a key named it as one
	released bool
	retain   atomic.Bool
	readers  atomic.Int32 // of the content, now or soon; see willRead

	is     entries.Content // what decides whether packed weights are of it
	family *entries.Family // what the cache has of its name, if it is known
	answer answer          // the first; others are apart

	fillWith   func(dst []byte) error // Tensor.Fill, called once
	digestWith func() (Digest, error) // Identity.Digest
	evict      func()                 // Tensor.Evict
	release    func()                 // Tensor.Release
	apart      *apart                 // or nil
}

// apart is what few sources have.
type apart struct {
	answers []answer // but the first
	memory  *store.Region
	fillErr error
	copies  []*source // what the host or XNNPACK made of it
	copying copying   // of a copy: how it was made
	copyOf  *source   // of a copy: the tensor that it is of
	standIn *source   // what stands for it, at the same address, or nil
	least   int       // bytes of the shortest tensor at its address, if that is another
}

// sourceSlack is how far XNNPACK may read beyond a tensor at inference (XNN_EXTRA_BYTES, at most 128).
const sourceSlack = 128

// init makes s, which is zero, the source of a tensor.
func (s *source) init(name string, t *Tensor, computed *arena) error {
	s.name, s.content, s.filled = name, t.Data, t.Fill == nil
	s.is.Reader = s
	s.fillWith, s.digestWith, s.evict, s.release = t.Fill, t.Identity.Digest, t.Evict, t.Release
	if t.Fill != nil {
		if t.Size < 0 {
			return fmt.Errorf("its size is %d", t.Size)
		}
		memory, err := computed.alloc(uint64(t.Size) + sourceSlack)
		if err != nil {
			return err
		}
		s.own().memory, s.content = memory.Region, memory.Data[:t.Size:t.Size]
	}
	if stamp := t.Identity.Stamp; stamp != "" {
		s.is.Stamp = digest.OfStrings(t.Identity.Source, stamp)
	}
	return nil
}

// nothingApart is what most sources have apart.
var nothingApart apart

// has returns what the source has apart, to be read.
func (s *source) has() *apart {
	if s.apart == nil {
		return &nothingApart
	}
	return s.apart
}

// own returns what the source has apart, to be changed.
func (s *source) own() *apart {
	if s.apart == nil {
		s.apart = &apart{}
	}
	return s.apart
}

// leastContent returns how many bytes the kernel of a look-up of this tensor, or of a copy, has at least.
func (s *source) leastContent() int {
	if of := s.has().copyOf; of != nil {
		return of.leastContent()
	}
	if least := s.has().least; least > 0 {
		return least
	}
	return len(s.content)
}

// fill computes the content if it is not there yet.
func (s *source) fill() error {
	if s.filled || s.has().fillErr != nil {
		return s.has().fillErr
	}
	if err := guarded("Tensor.Fill", func() error { return s.fillWith(s.content) }); err != nil {
		s.own().fillErr = err
		return err
	}
	s.filled = true
	return nil
}

// willRead says that the content is about to be read, until as many calls of didRead. The last reader gives it up.
func (s *source) willRead() { s.readers.Add(1) }

func (s *source) didRead() {
	if s.readers.Add(-1) == 0 && s.evict != nil && !s.retain.Load() {
		_ = guarded("Tensor.Evict", func() error { s.evict(); return nil }) // the pages stay
	}
}

// ReadDigest computes the digest of the content, and if need be the content. It is called once, by Content.Digest.
func (s *source) ReadDigest() (d Digest, err error) {
	s.willRead()
	defer s.didRead()
	if s.digestWith != nil {
		err = guarded("Identity.Digest", func() (err error) {
			d, err = s.digestWith()
			return err
		})
		return d, err
	}
	if err := s.fill(); err != nil {
		return d, err
	}
	return DigestOf(s.content), nil
}

// free gives back what the source holds. XNNPACK must not read it any more.
func (s *source) free() error {
	if s.released {
		return nil
	}
	s.released = true
	s.content = nil
	var err error
	if s.release != nil {
		err = guarded("Tensor.Release", func() error { s.release(); return nil })
	}
	if memory := s.has().memory; memory != nil {
		err = errors.Join(err, memory.Release())
	}
	return err
}

// guarded calls a function of the host's. A panic in it is an error: it must not end a host that runs models, nor
// unwind into XNNPACK.
func guarded(what string, do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in %s: %v", what, r)
		}
	}()
	return do()
}

package xpwc

import (
	"fmt"
	"sync"
	"sync/atomic"

	"xpwc/internal/store"
)

// A source is an unpacked tensor as a session loaded it.
type source struct {
	name      string
	content   []byte // at the address XNNPACK knows it by
	packing   packedAs
	filled    bool
	consumed  bool // nothing but packing reads it, and it may go when the runtime is created
	counted   bool // a key named it, which Progress counts
	isKernel  bool // a key named it as one
	released  bool
	retain    atomic.Bool
	readers   atomic.Int32 // of the content, now or soon; see willRead
	origin    Digest       // of Identity.Source
	stamp     Digest       // of Identity.Stamp, zero if there is none
	watch     *watch       // of Identity.Watch, or nil
	family    *family      // what the cache has of its name, if it is known
	answers   []answer
	oneAnswer [1]answer // room for what is usual

	tensor  Tensor
	memory  *store.Region
	fillErr error     // Fill is called once
	copies  []*source // what the host or XNNPACK made of it
	copying copying   // of a copy: how it was made
	copyOf  *source   // of a copy: the tensor that it is of
	standIn *source   // what stands for it, at the same address, or nil
	least   int       // bytes of the shortest tensor at its address

	once   sync.Once
	digest Digest
	err    error
}

// sourceSlack is how far XNNPACK may read beyond a tensor at inference (XNN_EXTRA_BYTES, at most 128).
const sourceSlack = 128

func newSource(name string, t Tensor, computed *arena) (*source, error) {
	s := &source{name: name, tensor: t, content: t.Data, filled: t.Fill == nil}
	if t.Fill != nil {
		if t.Size < 0 {
			return nil, fmt.Errorf("its size is %d", t.Size)
		}
		memory, err := computed.alloc(uint64(t.Size) + sourceSlack)
		if err != nil {
			return nil, err
		}
		s.memory, s.content = memory.Region, memory.Data[:t.Size:t.Size]
	}
	s.least = len(s.content)
	if stamp := t.Identity.Stamp; stamp != "" {
		s.stamp = digestOfStrings(t.Identity.Source, stamp)
	}
	return s, nil
}

// leastContent returns how many bytes the kernel of a look-up of this tensor, or of a copy, has at least.
func (s *source) leastContent() int {
	if s.copyOf != nil {
		return s.copyOf.leastContent()
	}
	return s.least
}

// fill computes the content if it is not there yet.
func (s *source) fill() error {
	if s.filled || s.fillErr != nil {
		return s.fillErr
	}
	s.fillErr = s.tensor.Fill(s.content)
	s.filled = s.fillErr == nil
	return s.fillErr
}

// willRead says that the content is about to be read, until as many calls of didRead. The last reader gives it up.
func (s *source) willRead() { s.readers.Add(1) }

func (s *source) didRead() {
	if s.readers.Add(-1) == 0 && s.tensor.Evict != nil && !s.retain.Load() {
		s.tensor.Evict()
	}
}

// contentDigest returns the digest of the content, computing it, and if need be the content, the first time. It may be
// called from several goroutines once the content is there.
func (s *source) contentDigest() (Digest, error) {
	s.once.Do(func() {
		s.willRead()
		defer s.didRead()
		if f := s.tensor.Identity.Digest; f != nil {
			s.digest, s.err = f()
			return
		}
		if s.err = s.fill(); s.err == nil {
			s.digest = DigestOf(s.content)
		}
	})
	return s.digest, s.err
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
		return s.memory.Release()
	}
	return nil
}

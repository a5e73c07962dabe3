package xpwc

import (
	"sync"

	"xpwc/internal/format"
)

// An entry is one packed payload in memory.
type entry struct {
	record format.Record // without Sum and digests until it is committed
	data   []byte
	region *region
	reason Reason // why it is private; "" for an entry of the cache

	sessions int // that use it

	// Of an entry packed by this process, until its session is finalized: where its stamps and digests come from.
	kernel, bias *source
	fresh        bool // not in the loaded index
	committed    bool // on the disk
}

// name returns what the entry is called in ExecuTorch's trailer and in what Session.Finalize returns.
func (e *entry) name() string { return e.record.Kernel + e.record.Bias }

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

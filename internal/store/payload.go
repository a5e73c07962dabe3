package store

import (
	"io"
	"sync/atomic"

	"xpwc/internal/digest"
)

// A Payload is where a file has packed bytes, to be hashed, and what came of it.
type Payload struct {
	Offset, Size uint64
	Sum          digest.Digest
	State        PayloadState
}

// A PayloadState says whether a payload's sum is known.
type PayloadState int

// The states of payloads.
const (
	NotHashed PayloadState = iota
	Hashed
	Unreadable
)

// A Reader is a cache file that is open once more, to be hashed by somebody who is not in a hurry.
type Reader interface {
	// Hash fills in the sums and states of payloads, each of which it is given once. They stay NotHashed when stop is
	// not 0, and with an error, which is one of the system's and says nothing of them.
	Hash(payloads []Payload, stop *int32) error
	io.Closer
}

// HashWith hashes a payload that r reads, on the calling thread, until stop is not 0.
func (p *Payload) HashWith(r io.ReaderAt, stop *int32) {
	var h digest.Hash
	b := make([]byte, min(p.Size, 64<<10))
	for at := uint64(0); at < p.Size; at += uint64(len(b)) {
		if atomic.LoadInt32(stop) != 0 {
			return
		}
		b = b[:min(uint64(len(b)), p.Size-at)]
		if n, _ := r.ReadAt(b, int64(p.Offset+at)); n < len(b) {
			p.State = Unreadable
			return
		}
		_, _ = h.Write(b) // never fails
	}
	p.Sum, p.State = h.Sum(), Hashed
}

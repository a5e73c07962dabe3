package store

import (
	"io"
	"sync/atomic"
	"time"

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
	io.ReaderAt
	io.Closer
}

// Who hashes rests nine tenths of the time. What it computes and reads is taken from those who run models, on an idle
// processor too: it has the memory's bandwidth from them, and a container's share of processors.
const (
	hashedTogether = 256 << 10
	rests          = 9
	shortestRest   = time.Millisecond // below it the system's timers are too coarse
	longestRest    = 20 * time.Millisecond
	stopWithin     = 2 * time.Millisecond // of a rest
)

// Hash fills in the sums and states of payloads that r reads. They stay NotHashed when stop is not 0.
func Hash(r io.ReaderAt, payloads []Payload, stop *int32) {
	block := make([]byte, hashedTogether)
	worked := time.Duration(0)
	for i := range payloads {
		payloads[i].hash(r, block, func(since time.Time) (goOn bool) {
			if worked += time.Since(since); rests*worked >= shortestRest {
				rest(min(rests*worked, longestRest), stop)
				worked = 0
			}
			return atomic.LoadInt32(stop) == 0
		})
	}
}

func rest(left time.Duration, stop *int32) {
	for ; left > 0 && atomic.LoadInt32(stop) == 0; left -= stopWithin {
		time.Sleep(min(left, stopWithin))
	}
}

// hash hashes a payload piece by piece, for as long as goOn says so before each.
func (p *Payload) hash(r io.ReaderAt, block []byte, goOn func(since time.Time) bool) {
	var h digest.Hash
	since := time.Now()
	for at := uint64(0); at < p.Size; at += uint64(len(block)) {
		if !goOn(since) {
			return
		}
		since = time.Now()
		block = block[:min(uint64(len(block)), p.Size-at)]
		if n, _ := r.ReadAt(block, int64(p.Offset+at)); n < len(block) {
			p.State = Unreadable
			return
		}
		_, _ = h.Write(block) // never fails
	}
	p.Sum, p.State = h.Sum(), Hashed
}

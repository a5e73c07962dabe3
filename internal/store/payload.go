package store

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"xpwc/internal/digest"
)

// Who hashes rests nine tenths of the time. What it computes and reads is taken from those who run models, on an idle
// processor too: it has the memory's bandwidth from them, and a container's share of processors.
const (
	hashedTogether = 256 << 10
	rests          = 9
	shortestRest   = time.Millisecond // below it the system's timers are too coarse
	longestRest    = 20 * time.Millisecond
	stopWithin     = 2 * time.Millisecond // of a rest
)

// ErrStopped: the hasher was to stop.
var ErrStopped = errors.New("stopped")

// A Hasher computes the sums of payloads, one after the other.
type Hasher struct {
	stop   *int32
	block  []byte
	worked time.Duration // since it rested
}

// NewHasher returns a hasher that works while stop is 0.
func NewHasher(stop *int32) *Hasher { return &Hasher{stop: stop, block: make([]byte, hashedTogether)} }

// Sum returns the sum of the payload of some bytes that a file has at an offset. Errors: ErrStopped, and those of
// reading it.
func (h *Hasher) Sum(r io.ReaderAt, offset, size uint64) (digest.Digest, error) {
	var sum digest.Hash
	for at := uint64(0); at < size; {
		h.rest()
		if atomic.LoadInt32(h.stop) != 0 {
			return digest.Digest{}, ErrStopped
		}
		since := time.Now()
		block := h.block[:min(hashedTogether, size-at)]
		if n, err := r.ReadAt(block, int64(offset+at)); n < len(block) {
			return digest.Digest{}, fmt.Errorf("%d bytes at %d: %w", size, offset, err)
		}
		_, _ = sum.Write(block) // never fails
		at += uint64(len(block))
		h.worked += time.Since(since)
	}
	return sum.Sum(), nil
}

// rest rests for what was worked, once that is long enough.
func (h *Hasher) rest() {
	if rests*h.worked < shortestRest {
		return
	}
	left := min(rests*h.worked, longestRest)
	h.worked = 0
	for ; left > 0 && atomic.LoadInt32(h.stop) == 0; left -= stopWithin {
		time.Sleep(min(left, stopWithin))
	}
}

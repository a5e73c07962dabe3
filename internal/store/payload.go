package store

import (
	"context"
	"fmt"
	"io"
	"time"

	"xpwc/internal/digest"
)

// A Hasher sleeps nine tenths of the time. Hashing slows inference down even on an idle processor: it uses memory
// bandwidth, and a container's share of processors.
const (
	hashedTogether = 256 << 10
	rests          = 9
	shortestRest   = time.Millisecond // below it the system's timers are too coarse
	longestRest    = 20 * time.Millisecond
)

// A Hasher computes the sums of payloads, one after the other. The zero value is ready.
type Hasher struct {
	block  [hashedTogether]byte
	worked time.Duration // since it rested
}

// Sum returns the checksum of a payload of size bytes at an offset of a file. It returns errors of the context and of
// reads.
func (h *Hasher) Sum(ctx context.Context, r io.ReaderAt, offset, size uint64) (digest.Digest, error) {
	var sum digest.Hash
	for pos := uint64(0); pos < size; {
		if err := h.rest(ctx); err != nil {
			return digest.Digest{}, err
		}
		since := time.Now()
		block := h.block[:min(hashedTogether, size-pos)]
		if n, err := r.ReadAt(block, int64(offset+pos)); n < len(block) {
			return digest.Digest{}, fmt.Errorf("%d bytes at %d: %w", size, offset, err)
		}
		_, _ = sum.Write(block) // never fails
		pos += uint64(len(block))
		h.worked += time.Since(since)
	}
	return sum.Sum(), nil
}

// rest sleeps in proportion to the work since the last sleep, once that is long enough. It returns the context's error.
func (h *Hasher) rest(ctx context.Context) error {
	if rest := rests * h.worked; rest >= shortestRest {
		h.worked = 0
		select {
		case <-ctx.Done():
		case <-time.After(min(rest, longestRest)):
		}
	}
	return ctx.Err()
}

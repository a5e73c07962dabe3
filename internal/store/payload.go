package store

import (
	"context"
	"fmt"
	"io"
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
)

// A Hasher computes the sums of payloads, one after the other. The zero value is ready.
type Hasher struct {
	block  [hashedTogether]byte
	worked time.Duration // since it rested
}

// Sum returns the sum of the payload of some bytes that a file has at an offset. Errors: the context's, and those of
// reading it.
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

// rest rests for what was worked, once that is long enough. It returns the context's error.
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

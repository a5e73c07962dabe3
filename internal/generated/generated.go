// Package generated writes files of random weights, for models that are measured. The same parts give the same file on
// every machine.
package generated

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"

	"xpwc/internal/output"
)

// A Part of a file is bytes, or random weights.
type Part struct {
	Bytes []byte

	Random int64 // how many bytes of weights, a multiple of 1 MiB
	Seed   [32]byte
	// Convert makes weights of random bytes, in place. They are weights as they are if it is nil.
	Convert func(random []byte)
}

func (p Part) size() int64 { return int64(len(p.Bytes)) + p.Random }

const chunkSize = 1 << 20

// Write makes sure that a file of the parts is at path. One of their size that begins with the bytes of the first part
// is left as it is. A new one is written beside it and renamed when it is complete and on the disk, so an interrupted
// run leaves nothing at path. progress, if not nil, is given the bytes written so far and in all, and is not called if
// there is nothing to write. The error matches ctx.Err() or what the operating system returned, and names the file.
func Write(ctx context.Context, path string, parts []Part, progress func(done, total int64)) error {
	w := writer{ctx: ctx, progress: progress}
	for _, p := range parts {
		w.total += p.size()
	}
	if isAt(path, w.total, parts[0].Bytes) {
		return nil
	}
	err := output.Write(path, func(f *os.File) error {
		w.to = f
		for _, p := range parts {
			if err := w.part(p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("generate %s: %w", path, err)
	}
	return nil
}

// isAt reports whether a file of the size is at path that begins so.
func isAt(path string, size int64, begin []byte) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() != size {
		return false
	}
	is := make([]byte, len(begin))
	_, err = io.ReadFull(f, is)
	return err == nil && bytes.Equal(is, begin)
}

// A writer writes until it is cancelled, and reports progress.
type writer struct {
	ctx         context.Context
	to          io.Writer
	done, total int64
	progress    func(done, total int64)
}

func (w *writer) part(p Part) error {
	if err := w.put(p.Bytes); err != nil {
		return err
	}
	random, chunk := rand.NewChaCha8(p.Seed), make([]byte, min(p.Random, chunkSize))
	for range p.Random / chunkSize {
		if _, err := random.Read(chunk); err != nil {
			return err
		}
		if p.Convert != nil {
			p.Convert(chunk)
		}
		if err := w.put(chunk); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) put(b []byte) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if _, err := w.to.Write(b); err != nil {
		return err
	}
	w.done += int64(len(b))
	if w.progress != nil && len(b) > 0 {
		w.progress(w.done, w.total)
	}
	return nil
}

// Bound is that of uniform numbers whose products with in others keep the variance of these: they have variance 1/in.
func Bound(in int) float64 { return math.Sqrt(3 / float64(in)) }

// Floats makes of random bytes little-endian float32 between -bound and bound.
func Floats(bound float64) func(random []byte) {
	return func(b []byte) {
		for i := 0; i < len(b); i += 4 {
			x := float32(int32(binary.LittleEndian.Uint32(b[i:]))) * (0x1p-31 * float32(bound))
			binary.LittleEndian.PutUint32(b[i:], math.Float32bits(x))
		}
	}
}

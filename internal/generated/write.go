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
	"xpwc/internal/tensorfile"
)

// padding is what follows the matrices: kernels read beyond a tensor, and the last one would be copied if there were
// nothing.
const padding = 2 * tensorfile.Overread

// write writes the model's file, which begins with a head, unless it is there.
func (m Model) write(ctx context.Context, path string, head []byte, progress func(done, total int64)) error {
	total := int64(len(head)) + m.WeightBytes() + padding
	if isAt(path, total, head) {
		return nil
	}
	err := output.Write(path, func(f *os.File) error {
		done := int64(0)
		put := func(b []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			_, err := f.Write(b)
			if done += int64(len(b)); err == nil && progress != nil {
				progress(done, total)
			}
			return err
		}
		if err := put(head); err != nil {
			return err
		}
		for i, mat := range m.matrices {
			seed := [32]byte{}
			copy(seed[4:], "xpwc weights")
			binary.LittleEndian.PutUint32(seed[:], uint32(i))
			random, chunk := rand.NewChaCha8(seed), make([]byte, 1<<20)
			for range m.bytes(mat) / len(chunk) {
				_, _ = random.Read(chunk) // which never fails
				if m.Int8 {
					symmetric(chunk)
				} else {
					floats(chunk, bound(mat.in))
				}
				if err := put(chunk); err != nil {
					return err
				}
			}
		}
		return put(make([]byte, padding))
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
	got := make([]byte, len(begin))
	_, err = io.ReadFull(f, got)
	return err == nil && bytes.Equal(got, begin)
}

// bound is that of uniform numbers whose products with in others keep the variance of these: they have variance 1/in.
func bound(in int) float64 { return math.Sqrt(3 / float64(in)) }

// floats makes of random bytes little-endian float32 between -bound and bound.
func floats(b []byte, bound float64) {
	for i := 0; i < len(b); i += 4 {
		x := float32(int32(binary.LittleEndian.Uint32(b[i:]))) * (0x1p-31 * float32(bound))
		binary.LittleEndian.PutUint32(b[i:], math.Float32bits(x))
	}
}

// symmetric replaces -128, which symmetric quantisation does not use: kernels that add two products in 16 bits rely on
// it.
func symmetric(b []byte) {
	const lowest = 0x80
	for i, x := range b {
		if x == lowest {
			b[i] = lowest + 1
		}
	}
}

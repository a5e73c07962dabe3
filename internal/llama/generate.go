package llama

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"

	newfile "xpwc/internal/output"
)

// chunkSize divides the size of every matrix.
const chunkSize = 1 << 20

// Generate makes sure that the stack's file of weights is at path; a file of its size is left as it is. A new one is
// written beside it and renamed when it is complete and on the disk, so an interrupted run leaves nothing at path. The
// weights depend on the stack alone. progress, if not nil, is given the bytes written so far and in all, and is not
// called if there is nothing to write. The error matches ctx.Err() or what the operating system returned, and names the
// file.
func (s Stack) Generate(ctx context.Context, path string, progress func(done, total int64)) error {
	_, _, size := s.places()
	if info, err := os.Stat(path); err == nil && info.Size() == size {
		return nil
	}
	if err := newfile.Write(path, func(f *os.File) error { return s.write(ctx, f, size, progress) }); err != nil {
		return fmt.Errorf("generate weights %s: %w", path, err)
	}
	return nil
}

func (s Stack) write(ctx context.Context, f *os.File, size int64, progress func(done, total int64)) error {
	done := int64(0)
	put := func(b []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := f.Write(b); err != nil {
			return err
		}
		done += int64(len(b))
		if progress != nil {
			progress(done, size)
		}
		return nil
	}
	matrices := s.Layers * len(kinds)
	chunk := make([]byte, chunkSize)
	for i := range matrices {
		if err := s.writeMatrix(put, i, chunk); err != nil {
			return err
		}
	}
	if !s.Float32 {
		for i := range matrices {
			if err := put(scales(i)); err != nil {
				return err
			}
		}
	}
	return put(make([]byte, end))
}

// source gives the random bytes of the i-th matrix, or of its scales.
func source(i int, scales bool) *rand.ChaCha8 {
	var seed [32]byte
	copy(seed[8:], "xpwc llama stack")
	binary.LittleEndian.PutUint32(seed[:], uint32(i))
	if scales {
		seed[4] = 1
	}
	return rand.NewChaCha8(seed)
}

func (s Stack) writeMatrix(put func([]byte) error, i int, chunk []byte) error {
	m := kinds[i%len(kinds)]
	random := source(i, false)
	// Uniform numbers of this bound have variance 1/in, which keeps the variance of what they are multiplied with.
	bound := math.Sqrt(3 / float64(m.in))
	for range s.bytes(m) / chunkSize {
		if _, err := io.ReadFull(random, chunk); err != nil {
			return err
		}
		if s.Float32 {
			floats(chunk, float32(bound))
		} else {
			symmetric(chunk)
		}
		if err := put(chunk); err != nil {
			return err
		}
	}
	return nil
}

// floats makes of random bytes little-endian floats between -bound and bound.
func floats(b []byte, bound float32) {
	for i := 0; i < len(b); i += 4 {
		x := float32(int32(binary.LittleEndian.Uint32(b[i:]))) * (0x1p-31 * bound)
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

// scales returns the scales of the i-th matrix, little-endian: what keeps the variance, times 0.75 to 1.25.
func scales(i int) []byte {
	m := kinds[i%len(kinds)]
	random := rand.New(source(i, true))
	mean := math.Sqrt(3/float64(m.in)) / 127
	b := make([]byte, 0, 4*m.out)
	for range m.out {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(mean)*(0.75+0.5*random.Float32())))
	}
	return b
}

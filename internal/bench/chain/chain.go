// Package chain generates a model that LiteRT, ExecuTorch and xpwc can all load: a chain of fully connected layers of
// float32 weights, alternately 2048 x 8192 and 8192 x 2048, as in the feed-forward parts of Llama 3.2 1B. As a .tflite
// model and as an ExecuTorch program (.pte) it has the same weights and computes the same. A .tflite model can have the
// weights in 8 bits, with one scale for each matrix.
package chain

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"xpwc/internal/output"
)

// Width is the length of the chain's input and output, float32 [1, Width].
const (
	Width       = 2048
	hiddenWidth = 8192
)

// MatrixBytes is the size of each matrix, in 8 bits a quarter of it.
const MatrixBytes = 4 * Width * hiddenWidth

// InInt8 is what the name of a model with weights in 8 bits ends in.
const InInt8 = "-int8.tflite"

func matrixBytes(path string) int {
	if strings.HasSuffix(path, InInt8) {
		return MatrixBytes / 4
	}
	return MatrixBytes
}

// MaxMatrices is how many a chain may have: 4 GiB.
const MaxMatrices = 64

// A matrix is stored [out, in].
type matrix struct {
	name    string
	in, out int
}

func matrices(n int) []matrix {
	all := make([]matrix, n)
	for i := range all {
		all[i] = matrix{fmt.Sprintf("layers.%d.weight", i), Width, hiddenWidth}
		if i%2 == 1 {
			all[i].in, all[i].out = hiddenWidth, Width
		}
	}
	return all
}

// Generate makes sure that a chain of an even number of matrices is at path, as the extension says: .tflite or .pte. A
// complete file is left as it is. A new one is renamed to path when it is complete and on the disk. progress, if not
// nil, is given the bytes written so far and in all. The error matches ctx.Err() or what the operating system
// returned, and names the file.
func Generate(ctx context.Context, path string, n int, progress func(done, total int64)) error {
	if n < 2 || n > MaxMatrices || n%2 != 0 {
		return fmt.Errorf("a chain of %d matrices: the number is even, and from 2 to %d", n, MaxMatrices)
	}
	head, err := head(path, matrices(n))
	if err != nil {
		return err
	}
	if isAt(path, head, n) {
		return nil
	}
	err = output.Write(path, func(f *os.File) error { return write(ctx, f, head, n, matrixBytes(path), progress) })
	if err != nil {
		return fmt.Errorf("generate %s: %w", path, err)
	}
	return nil
}

// dataOffset is where the matrices lie in either file, one after the other: their sizes are multiples of any page
// size.
const dataOffset = 1 << 16

// head is what lies before the matrices.
func head(path string, all []matrix) ([]byte, error) {
	var content []byte
	switch ext := filepath.Ext(path); ext {
	case ".tflite":
		content = tfliteModel(all, matrixBytes(path))
	case ".pte":
		content = program(all)
	default:
		return nil, fmt.Errorf("%s: a chain is a .tflite or a .pte file", path)
	}
	if len(content) > dataOffset {
		return nil, fmt.Errorf("%s: what describes the matrices has more than %d bytes", path, dataOffset)
	}
	return append(content, make([]byte, dataOffset-len(content))...), nil
}

// isAt reports whether the complete file is there.
func isAt(path string, head []byte, n int) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() != dataOffset+int64(n*matrixBytes(path)) {
		return false
	}
	is := make([]byte, dataOffset)
	_, err = io.ReadFull(f, is)
	return err == nil && bytes.Equal(is, head)
}

func write(ctx context.Context, f *os.File, head []byte, n, matrixBytes int, progress func(done, total int64)) error {
	if _, err := f.Write(head); err != nil {
		return err
	}
	const chunkSize = 1 << 20
	chunk := make([]byte, chunkSize)
	for i, m := range matrices(n) {
		var seed [32]byte
		copy(seed[4:], "xpwc chain")
		binary.LittleEndian.PutUint32(seed[:], uint32(i))
		random := rand.NewChaCha8(seed)
		// Uniform numbers of this bound have variance 1/in, which keeps the variance of what they are multiplied with.
		bound := float32(math.Sqrt(3 / float64(m.in)))
		for j := range matrixBytes / chunkSize {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := random.Read(chunk); err != nil {
				return err
			}
			for k := 0; k < chunkSize && matrixBytes == MatrixBytes; k += 4 {
				x := float32(int32(binary.LittleEndian.Uint32(chunk[k:]))) * (0x1p-31 * bound)
				binary.LittleEndian.PutUint32(chunk[k:], math.Float32bits(x))
			}
			if _, err := f.Write(chunk); err != nil {
				return err
			}
			if progress != nil {
				progress(int64(i*matrixBytes+(j+1)*chunkSize), int64(n*matrixBytes))
			}
		}
	}
	return nil
}

// Package chain generates a model that LiteRT, ExecuTorch and xpwc can all load: a chain of fully connected layers of
// float32 weights, alternately 2048 x 8192 and 8192 x 2048, as in the feed-forward parts of Llama 3.2 1B. As a .tflite
// model and as an ExecuTorch program (.pte) it has the same weights and computes the same. A .tflite model can have the
// weights in 8 bits, with one scale for each matrix.
package chain

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"

	"xpwc/internal/generated"
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

// Generate makes sure that a chain of an even number of matrices is at path, as the extension says: .tflite or .pte,
// and as [generated.Write] has it.
func Generate(ctx context.Context, path string, n int, progress func(done, total int64)) error {
	head, err := head(path, matrices(n))
	if err != nil {
		return err
	}
	parts := []generated.Part{{Bytes: head}}
	for i, m := range matrices(n) {
		p := generated.Part{Random: int64(matrixBytes(path))}
		copy(p.Seed[4:], "xpwc chain")
		binary.LittleEndian.PutUint32(p.Seed[:], uint32(i))
		if p.Random == MatrixBytes {
			p.Convert = generated.Floats(generated.Bound(m.in))
		}
		parts = append(parts, p)
	}
	return generated.Write(ctx, path, parts, progress)
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

// Package generated makes models of random weights: what the demo and the benchmarks run where a language model's sizes
// matter and its answers do not. They are fully connected matrices, in float32 or in 8 bits with one scale for each
// matrix (XNNPACK's qd8-f32-qc8w).
package generated

import (
	"context"
	"fmt"
	"path/filepath"
)

// A Model identifies a generated model. Its weights depend on that alone.
type Model struct {
	Int8 bool // weights in 8 bits

	matrices []matrix
	chain    bool // each matrix computes from the previous one's output, not from an input of its own
}

// A matrix is stored [out, in].
type matrix struct {
	name    string
	in, out int
}

// MaxLayers is how many layers a stack may have.
const MaxLayers = 256

// Stack is a model of the shape of Llama 3.2 1B's layers, of which each has seven matrices.
func Stack(layers int, int8 bool) Model {
	m := Model{Int8: int8}
	for i := range layers {
		for _, mat := range []matrix{
			{"self_attn.q_proj", 2048, 2048}, {"self_attn.k_proj", 2048, 512}, {"self_attn.v_proj", 2048, 512},
			{"self_attn.o_proj", 2048, 2048}, {"mlp.gate_proj", 2048, 8192}, {"mlp.up_proj", 2048, 8192},
			{"mlp.down_proj", 8192, 2048},
		} {
			mat.name = fmt.Sprintf("model.layers.%d.%s.weight", i, mat.name)
			m.matrices = append(m.matrices, mat)
		}
	}
	return m
}

// Width is the length of a chain's input and output, float32 [1, Width].
const Width = 2048

// Input returns the numbers of the input that a chain is measured with, as package execution has them.
func Input() []float32 {
	values := make([]float32, Width)
	for i := range values {
		values[i] = float32(uint32(i)*2654435761) / (1 << 32)
	}
	return values
}

// Chain is a model that LiteRT, ExecuTorch and xpwc can all load: matrices of 2048 x 8192 and 8192 x 2048 in turn, as
// in the feed-forward parts of Llama 3.2 1B. Their number is even.
func Chain(matrices int, int8 bool) Model {
	const hidden = 4 * Width
	m := Model{Int8: int8, chain: true}
	for i := range matrices {
		mat := matrix{fmt.Sprintf("layers.%d.weight", i), Width, hidden}
		if i%2 == 1 {
			mat.in, mat.out = mat.out, mat.in
		}
		m.matrices = append(m.matrices, mat)
	}
	return m
}

func (m Model) bytes(mat matrix) int {
	if m.Int8 {
		return mat.in * mat.out
	}
	return 4 * mat.in * mat.out
}

// WeightBytes returns the bytes of the unpacked matrices.
func (m Model) WeightBytes() (n int64) {
	for _, mat := range m.matrices {
		n += int64(m.bytes(mat))
	}
	return n
}

// Generate makes sure that the model is at path, by the extension: .tflite, or .pte of a chain in float32. A file
// of its size that begins as it does is left as it is. A new one is written next to it and renamed when it is complete
// and on the disk, so an interrupted run leaves nothing at path. progress, if not nil, is given the bytes written so
// far and in all, and is not called if there is nothing to write. The error matches ctx.Err() or what the operating
// system returned, and names the file.
func (m Model) Generate(ctx context.Context, path string, progress func(done, total int64)) error {
	var content []byte
	switch ext := filepath.Ext(path); {
	case ext == ".tflite":
		content = m.tflite()
	case ext == ".pte" && m.chain && !m.Int8:
		content = m.program()
	default:
		return fmt.Errorf("%s: a generated model is a .tflite file, or a chain in float32 a .pte file", path)
	}
	head := append(content, make([]byte, m.headBytes()-len(content))...)
	return m.write(ctx, path, head, progress)
}

// headBytes is where the matrices begin in either file, one after the other: there is room for the description of
// them. It is a multiple of any page size, as their sizes are, so that each can be given back alone.
func (m Model) headBytes() int { return (len(m.matrices)/64 + 1) << 16 }

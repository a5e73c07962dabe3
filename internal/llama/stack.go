// Package llama generates a transformer stack with the shape of Llama 3.2 1B and random weights: what the demo and the
// benchmarks run where a language model's sizes matter and its answers do not.
//
// A layer has seven fully connected matrices (query 2048x2048, key and value 2048x512, output 2048x2048, gate and up
// 2048x8192, down 8192x2048), either in int8 with a scale for each output channel on dynamically quantised activations
// (XNNPACK's qd8-f32-qc8w) or in float32. There is one position and no history, so the key gates the value in place of
// the softmax; the rest is the usual: root mean square norms, residual additions and gate*sigmoid(gate)*up.
package llama

import (
	"fmt"

	"xpwc/internal/tensorfile"
	"xpwc/xnnpack"
)

// Width is the length of the stack's input and output, float32 [1, Width].
const Width = 2048

const (
	keyWidth    = 512
	hiddenWidth = 8192
)

// The external values of every subgraph of a stack.
const (
	Input  xnnpack.ValueID = 0
	Output xnnpack.ValueID = 1
)

// MaxLayers is how many layers a stack may have.
const MaxLayers = 256

// Stack says which stack is meant.
type Stack struct {
	Layers  int  // 1 to MaxLayers
	Float32 bool // float32 weights in place of int8 ones
}

// WeightBytes returns the bytes of the unpacked matrices, without scales.
func (s Stack) WeightBytes() (n int64) {
	for _, m := range kinds {
		n += s.bytes(m)
	}
	return n * int64(s.Layers)
}

// LargestBytes returns the bytes of the largest unpacked matrix.
func (s Stack) LargestBytes() int64 { return s.bytes(kinds[up]) }

// A matrix is one of the weights of a layer, stored [out, in].
type matrix struct {
	name    string
	in, out int
}

// The order in which a layer's matrices lie in the file.
const (
	query = iota
	key
	value
	output
	gate
	up
	down
)

var kinds = [...]matrix{
	query:  {"self_attn.q_proj", Width, Width},
	key:    {"self_attn.k_proj", Width, keyWidth},
	value:  {"self_attn.v_proj", Width, keyWidth},
	output: {"self_attn.o_proj", Width, Width},
	gate:   {"mlp.gate_proj", Width, hiddenWidth},
	up:     {"mlp.up_proj", Width, hiddenWidth},
	down:   {"mlp.down_proj", hiddenWidth, Width},
}

func (s Stack) bytes(m matrix) int64 {
	if s.Float32 {
		return 4 * int64(m.in*m.out)
	}
	return int64(m.in * m.out)
}

// weightName is the name checkpoints of the Llama family use.
func weightName(layer, kind int) string {
	return fmt.Sprintf("model.layers.%d.%s.weight", layer, kinds[kind].name)
}

// places returns where the matrices lie in the file of weights, layer by layer, where the scales of each begin, and the
// file's size. All matrices come first: their sizes are multiples of any page size, so each begins on a page of its own
// and can be given back alone.
func (s Stack) places() (matrices []tensorfile.Place, scales []int64, size int64) {
	for range s.Layers {
		for _, m := range kinds {
			matrices = append(matrices, tensorfile.Place{Offset: size, Size: s.bytes(m), Alignment: 4})
			size += s.bytes(m)
		}
	}
	for i := range matrices {
		scales = append(scales, size)
		if !s.Float32 {
			size += 4 * int64(kinds[i%len(kinds)].out)
		}
	}
	return matrices, scales, size + end
}

// end is how many zeros end the file: more than kernels read beyond a tensor.
const end = 2 * tensorfile.Overread

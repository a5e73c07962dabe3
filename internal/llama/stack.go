// Package llama generates a transformer stack with the shape of Llama 3.2 1B and random weights: what the demo and the
// benchmarks run where a language model's sizes matter and its answers do not.
//
// A layer has seven fully connected matrices (query 2048x2048, key and value 2048x512, output 2048x2048, gate and up
// 2048x8192, down 8192x2048), either in int8 with a scale for each output channel on dynamically quantised activations
// (XNNPACK's qd8-f32-qc8w) or in float32. There is one position and no history, so the key gates the value in place of
// the softmax; the rest is the usual: root mean square norms, residual additions and gate*sigmoid(gate)*up.
package llama

import (
	"errors"
	"fmt"

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

// ErrLayers is matched by the errors about a number of layers that is not from 1 to MaxLayers.
var ErrLayers = errors.New("the number of layers is out of range")

// Stack says which stack is meant.
type Stack struct {
	Layers  int
	Float32 bool // float32 weights in place of int8 ones
}

func (s Stack) check() error {
	if s.Layers < 1 || s.Layers > MaxLayers {
		return fmt.Errorf("%w: %d, not from 1 to %d", ErrLayers, s.Layers, MaxLayers)
	}
	return nil
}

// LayersFor returns how many int8 layers come closest to the given bytes of weights, at least one and at most
// MaxLayers.
func LayersFor(bytes int64) int {
	layer := Stack{Layers: 1}.weightBytes()
	return int(min(max((bytes+layer/2)/layer, 1), MaxLayers))
}

// WeightBytes returns the bytes of the unpacked matrices, without scales; 0 if the number of layers is out of range.
func (s Stack) WeightBytes() int64 {
	if s.check() != nil {
		return 0
	}
	return s.weightBytes()
}

func (s Stack) weightBytes() int64 {
	var n int64
	for _, m := range kinds {
		n += int64(m.size(s.Float32))
	}
	return n * int64(s.Layers)
}

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

func (m matrix) size(float bool) int {
	if float {
		return 4 * m.in * m.out
	}
	return m.in * m.out
}

// weightName is the name checkpoints of the Llama family use.
func weightName(layer, kind int) string {
	return fmt.Sprintf("model.layers.%d.%s.weight", layer, kinds[kind].name)
}

// A place is where a matrix lies in the file of weights.
type place struct {
	offset, size int
	scales       int // offset of the scales
}

// places returns the matrices' places, layer by layer, and where the trailer begins. All matrices come first: their
// sizes are multiples of any page size, so each begins on a page of its own and can be given back alone.
func (s Stack) places() (all []place, trailer int) {
	all = make([]place, 0, s.Layers*len(kinds))
	for range s.Layers {
		for _, m := range kinds {
			all = append(all, place{offset: trailer, size: m.size(s.Float32)})
			trailer += m.size(s.Float32)
		}
	}
	if s.Float32 {
		return all, trailer
	}
	for i := range all {
		all[i].scales = trailer
		trailer += 4 * kinds[i%len(kinds)].out
	}
	return all, trailer
}

// trailerSize is more than XNNPACK may read beyond a tensor.
const trailerSize = 256

// trailer distinguishes a complete file of these parameters from any other.
func (s Stack) trailer() []byte {
	kind := "qc8w"
	if s.Float32 {
		kind = "f32"
	}
	t := make([]byte, trailerSize)
	copy(t, fmt.Sprintf("xpwc generated llama stack, version 1, %s, %d layers\n", kind, s.Layers))
	return t
}

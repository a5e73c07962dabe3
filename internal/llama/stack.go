// Package llama generates weights with the shape of Llama 3.2 1B's layers, and random: what the demo and the benchmarks
// run where a language model's sizes matter and its answers do not.
//
// A layer has seven fully connected matrices (query 2048x2048, key and value 2048x512, output 2048x2048, gate and up
// 2048x8192, down 8192x2048), either in int8 with a scale for each output channel on dynamically quantised activations
// (XNNPACK's qd8-f32-qc8w) or in float32. They are tensors with a description, as package described opens them: each
// matrix computes its own output from its own input.
package llama

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"xpwc/described"
	"xpwc/internal/generated"
	"xpwc/internal/tensorfile"
	"xpwc/safetensors"
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

// A matrix is one of the weights of a layer, stored [out, in].
type matrix struct {
	name    string
	in, out int
}

// kinds are a layer's matrices, in the order in which they lie in the file.
var kinds = [...]matrix{
	{"self_attn.q_proj", 2048, 2048},
	{"self_attn.k_proj", 2048, 512},
	{"self_attn.v_proj", 2048, 512},
	{"self_attn.o_proj", 2048, 2048},
	{"mlp.gate_proj", 2048, 8192},
	{"mlp.up_proj", 2048, 8192},
	{"mlp.down_proj", 8192, 2048},
}

func (s Stack) bytes(m matrix) int64 {
	if s.Float32 {
		return 4 * int64(m.in*m.out)
	}
	return int64(m.in * m.out)
}

// Generate makes sure that the stack's .safetensors file, with its description in the metadata, is at path, as
// [generated.Write] has it. The weights depend on the stack alone.
func (s Stack) Generate(ctx context.Context, path string, progress func(done, total int64)) error {
	f := file{header: map[string]any{}}
	var operators []described.Operator
	for i := range s.Layers * len(kinds) {
		m := kinds[i%len(kinds)]
		// The names that checkpoints of the Llama family use.
		o := described.Operator{Op: "fully_connected", Datatype: "f32",
			Weights: fmt.Sprintf("model.layers.%d.%s.weight", i/len(kinds), m.name)}
		part := generated.Part{Random: s.bytes(m), Seed: seed(i, false)}
		if s.Float32 {
			part.Convert = generated.Floats(generated.Bound(m.in))
			f.add(o.Weights, safetensors.F32, part, m.out, m.in)
		} else {
			o.Datatype, o.Scales = "qd8_f32_qc8w", strings.TrimSuffix(o.Weights, "weight")+"scales"
			part.Convert = symmetric
			f.add(o.Weights, safetensors.I8, part, m.out, m.in)
		}
		operators = append(operators, o)
	}
	for i, o := range operators {
		if o.Scales != "" {
			f.add(o.Scales, safetensors.F32, generated.Part{Bytes: scales(i)}, kinds[i%len(kinds)].out)
		}
	}
	// Kernels read beyond a tensor: there must be something.
	const end = 2 * tensorfile.Overread
	f.add(safetensors.PaddingPrefix+"0", safetensors.U8, generated.Part{Bytes: make([]byte, end)}, end)
	head, err := f.head(operators)
	if err != nil {
		return err
	}
	return generated.Write(ctx, path, append([]generated.Part{{Bytes: head}}, f.parts...), progress)
}

// A file is a safetensors file that is too large to be made in memory. All matrices come first: their sizes are
// multiples of any page size, so each begins on a page of its own and can be given back alone.
type file struct {
	header map[string]any
	parts  []generated.Part
	size   int64 // of the parts
}

func (f *file) add(name string, dtype safetensors.Dtype, p generated.Part, shape ...int) {
	begin := f.size
	f.size += int64(len(p.Bytes)) + p.Random
	f.parts = append(f.parts, p)
	f.header[name] = map[string]any{"dtype": dtype, "shape": shape, "data_offsets": []int64{begin, f.size}}
}

// headAlignment is what the size of the head is a multiple of: any page size divides it.
const headAlignment = 64 << 10

// head is what lies before the parts: the header's length, and the header with spaces at its end.
func (f *file) head(operators []described.Operator) ([]byte, error) {
	description, err := described.Format(operators)
	if err != nil {
		return nil, err
	}
	f.header["__metadata__"] = map[string]string{described.MetadataName: string(description)}
	text, err := json.Marshal(f.header)
	if err != nil {
		return nil, err
	}
	size := (8 + len(text) + headAlignment - 1) / headAlignment * headAlignment
	head := binary.LittleEndian.AppendUint64(nil, uint64(size-8))
	head = append(head, text...)
	return append(head, strings.Repeat(" ", size-len(head))...), nil
}

// seed is that of the i-th matrix, or of its scales.
func seed(i int, scales bool) (seed [32]byte) {
	copy(seed[8:], "xpwc llama stack")
	binary.LittleEndian.PutUint32(seed[:], uint32(i))
	if scales {
		seed[4] = 1
	}
	return seed
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
	random := rand.New(rand.NewChaCha8(seed(i, true)))
	mean := generated.Bound(m.in) / 127
	b := make([]byte, 0, 4*m.out)
	for range m.out {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(mean)*(0.75+0.5*random.Float32())))
	}
	return b
}

package modeltest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/flatbuf"
)

// An Operator is a builtin operator of TensorFlow Lite's schema that a [Layer] can be.
type Operator byte

// The operators of layers.
const (
	Add             Operator = 0   // x + kernel, which XNNPACK reads at inference
	FullyConnected  Operator = 9   // of a kernel [out, in]
	BatchMatMul     Operator = 126 // of a kernel [in, out]
	dequantize      Operator = 6
	fullyConnected8          = byte(8)
)

// A Signature is a computation of a .tflite file in a subgraph of its own: Layers one after the other, from an input
// "x" of float32 [Rows, in] to an output "y". All tensors of the subgraph have names that begin with Prefix.
type Signature struct {
	Name, Prefix string
	Rows         int
	Layers       []Layer
}

// A Layer is an operator with a constant kernel, and perhaps a bias.
type Layer struct {
	Operator Operator
	Kernel   Tensor
	Bias     *Tensor
}

// A Tensor is a constant: float32, or int8 if it has a scale, or float16 which DEQUANTIZE widens.
type Tensor struct {
	Name   string
	Buffer int // the number of its bytes
	Shape  []int32
	Scale  float32
	Zero   int64 // the zero point
	Half   bool
}

// WriteSignatures writes a .tflite file into a new directory and returns its path. The signatures refer to the buffers,
// which lie after the flatbuffer.
func WriteSignatures(t testing.TB, buffers [][]byte, signatures ...Signature) string {
	t.Helper()
	const alignment = 64
	build := func(first int) []byte {
		tables, end := []flatbuf.Fields{{}}, uint64(first)
		for _, b := range buffers {
			tables = append(tables, flatbuf.Fields{1: end, 2: uint64(len(b))})
			end += uint64(len(b)+alignment-1) &^ (alignment - 1)
		}
		return signaturesModel(tables, signatures)
	}
	first := (len(build(alignment)) + alignment - 1) &^ (alignment - 1)
	file := append(build(first), make([]byte, first-len(build(first)))...)
	for _, b := range buffers {
		file = append(append(file, b...), make([]byte, -len(b)&(alignment-1))...)
	}
	path := filepath.Join(t.TempDir(), "signatures.tflite")
	require.NoError(t, os.WriteFile(path, append(file, make([]byte, alignment)...), 0o600))
	return path
}

// signaturesModel is the flatbuffer. The numbers are the slots and values of schema.fbs.
func signaturesModel(buffers []flatbuf.Fields, signatures []Signature) []byte {
	operators := []Operator{Add, dequantize, FullyConnected, BatchMatMul}
	var codes, subgraphs, definitions []flatbuf.Fields
	for _, o := range operators {
		codes = append(codes, flatbuf.Fields{0: byte(o), 2: int32(1), 3: int32(o)})
	}
	for i, s := range signatures {
		g := &subgraph{prefix: s.Prefix}
		x := g.computed("x", int32(s.Rows), s.Layers[0].Inputs())
		y := x
		for _, l := range s.Layers {
			y = g.layer(l, y, int32(s.Rows))
		}
		subgraphs = append(subgraphs, flatbuf.Fields{0: g.tensors, 1: []int32{x}, 2: []int32{y}, 3: g.operators})
		named := func(name string, tensor int32) []flatbuf.Fields {
			return []flatbuf.Fields{{0: name, 1: uint32(tensor)}}
		}
		definitions = append(definitions,
			flatbuf.Fields{0: named("x", x), 1: named("y", y), 2: s.Name, 4: uint32(i)})
	}
	return flatbuf.Build(flatbuf.Fields{0: uint32(3), 1: codes, 2: subgraphs, 4: buffers, 7: definitions}, "TFL3")
}

type subgraph struct {
	prefix             string
	tensors, operators []flatbuf.Fields
}

func (g *subgraph) add(name string, buffer uint32, kind byte, shape ...int32) int32 {
	g.tensors = append(g.tensors, flatbuf.Fields{0: shape, 1: kind, 2: buffer, 3: g.prefix + name})
	return int32(len(g.tensors) - 1)
}

func (g *subgraph) computed(name string, shape ...int32) int32 { return g.add(name, 0, 0, shape...) }

// constant adds a constant, and returns the tensor that operators read.
func (g *subgraph) constant(t Tensor) int32 {
	const float32Type, float16Type, int8Type = byte(0), byte(1), byte(9)
	kind := float32Type
	switch {
	case t.Half:
		kind = float16Type
	case t.Scale != 0:
		kind = int8Type
	}
	stored := g.add(t.Name, uint32(t.Buffer+1), kind, t.Shape...)
	if t.Scale != 0 {
		g.tensors[stored][4] = flatbuf.Fields{2: []float32{t.Scale}, 3: []int64{t.Zero}}
	}
	if !t.Half {
		return stored
	}
	widened := g.computed(t.Name+" widened", t.Shape...)
	g.operator(1, widened, stored)
	return widened
}

func (g *subgraph) operator(code uint32, output int32, inputs ...int32) {
	o := flatbuf.Fields{0: code, 1: inputs, 2: []int32{output}}
	if code == 2 {
		o[3], o[4] = fullyConnected8, flatbuf.Fields{}
	}
	g.operators = append(g.operators, o)
}

func (g *subgraph) layer(l Layer, x, rows int32) int32 {
	inputs := []int32{x, g.constant(l.Kernel)}
	code := uint32(2)
	switch l.Operator {
	case Add:
		code = 0
	case BatchMatMul:
		code = 3
	default:
		inputs = append(inputs, -1)
		if l.Bias != nil {
			inputs[2] = g.constant(*l.Bias)
		}
	}
	y := g.computed("y"+string(rune('0'+len(g.operators))), rows, l.outputs())
	g.operator(code, y, inputs...)
	return y
}

// Inputs returns the length of a row that the layer reads.
func (l Layer) Inputs() int32 {
	if l.Operator == FullyConnected {
		return l.Kernel.Shape[1]
	}
	return l.Kernel.Shape[0]
}

func (l Layer) outputs() int32 {
	if l.Operator == FullyConnected {
		return l.Kernel.Shape[0]
	}
	return l.Kernel.Shape[len(l.Kernel.Shape)-1]
}

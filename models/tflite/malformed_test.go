package tflite

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/stretchr/testify/require"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/internal/instance"
	"xpwc/xnnpack"
)

// convolutional has a bit of everything that malformed files get wrong.
func convolutional() blueprint {
	return blueprint{
		tensors: []blueTensor{
			floats("in", []int{1, 6, 6, 2}), floats("out", nil), floats("a", nil), floats("b", nil), floats("c", nil),
			constantOf("kernel", 4, 3, 3, 2), constantOf("bias", 4),
			int32Tensor("paddings", []int{4, 2}, 0, 0, 1, 1, 1, 1, 0, 0),
			int32Tensor("size", []int{2}, 12, 12),
		},
		ops: []blueOp{
			{code: "PAD", inputs: []int{0, 7}, outputs: []int{2}},
			{code: "CONV_2D", inputs: []int{2, 5, 6}, outputs: []int{3},
				options: fields{conv2D.padding: byte(paddingValid),
					conv2D.strideH: int32(1), conv2D.strideW: int32(1), conv2D.activation: byte(activationReLU)}},
			{code: "MAX_POOL_2D", inputs: []int{3}, outputs: []int{4},
				options: fields{poolFilterHeight: int32(2), poolFilterWidth: int32(2),
					pool2D.strideH: int32(2), pool2D.strideW: int32(2)}},
			{code: "RESIZE_BILINEAR", inputs: []int{4, 8}, outputs: []int{1},
				options: fields{resizeHalfPixelCenters: true}},
		},
		inputs: []int{0}, outputs: []int{1},
	}
}

func TestMalformedModelsAreRefused(t *testing.T) {
	const huge = math.MaxInt32
	options := func(op int, slot int, v any) func(*blueprint) {
		return func(m *blueprint) { m.ops[op].options[slot] = v }
	}
	for name, c := range map[string]struct {
		change func(*blueprint)
		want   error
		text   string
	}{
		"operand that is no tensor": {func(m *blueprint) { m.ops[1].inputs[1] = 99 }, ErrMalformed,
			"name tensor 99 of 9"},
		"negative operand": {func(m *blueprint) { m.ops[1].inputs[0] = -2 }, ErrMalformed,
			"name tensor -2"},
		"missing operand": {func(m *blueprint) { m.ops[1].inputs[0] = absent }, ErrMalformed,
			"input 0 is missing"},
		"output that is no tensor": {func(m *blueprint) { m.ops[1].outputs[0] = absent }, ErrMalformed,
			"name tensor -1"},
		"model output that is no tensor": {func(m *blueprint) { m.outputs[0] = 77 }, ErrMalformed,
			"the model's outputs name tensor 77"},
		"no outputs":         {func(m *blueprint) { m.outputs = nil }, ErrMalformed, "0 outputs"},
		"no inputs":          {func(m *blueprint) { m.inputs = nil }, ErrMalformed, "0 inputs"},
		"input listed twice": {func(m *blueprint) { m.inputs = []int{0, 0} }, ErrMalformed, `input "in"`},
		"constant input": {func(m *blueprint) { m.inputs = []int{0, 6} }, ErrMalformed,
			`input "bias" is a constant`},
		"output that nothing computes": {func(m *blueprint) { m.ops = m.ops[:3] }, ErrMalformed,
			"not computed before"},
		"use before computation": {func(m *blueprint) { m.ops[0], m.ops[1] = m.ops[1], m.ops[0] },
			ErrMalformed, `operator 0, CONV_2D`},
		"cycle": {func(m *blueprint) { m.ops[0].inputs[0] = 4 }, ErrMalformed,
			"not computed before"},
		"computed twice": {func(m *blueprint) { m.ops[2].outputs[0] = 3 }, ErrMalformed,
			"computed twice"},
		"computed constant": {func(m *blueprint) { m.ops[2].outputs[0] = 5 }, ErrMalformed, "or constant"},
		"computed input": {func(m *blueprint) { m.ops[2].outputs[0] = 0 }, ErrMalformed,
			"computed twice"},
		"two outputs": {func(m *blueprint) { m.ops[0].outputs = []int{2, 3} }, ErrMalformed,
			"2 outputs, not 1"},
		"no output": {func(m *blueprint) { m.ops[2].outputs = nil }, ErrMalformed, "0 outputs"},
		"an absent operand too many": {func(m *blueprint) {
			m.ops[2] = blueOp{code: "CAST", inputs: []int{3, absent}, outputs: m.ops[2].outputs}
		}, ErrMalformed, "2 inputs, not 1"},
		"too few operands": {func(m *blueprint) { m.ops[1].inputs = m.ops[1].inputs[:1] }, ErrMalformed,
			"input 1 is missing"},
		"indices that are not given": {func(m *blueprint) {
			m.ops[2] = blueOp{code: "REVERSE_SEQUENCE", inputs: []int{3, absent}, outputs: m.ops[2].outputs}
		}, ErrMalformed, "input 1 is missing"},
		"too many operands": {func(m *blueprint) { m.ops[2].inputs = []int{3, 3} }, ErrMalformed,
			"2 inputs, not 1"},
		"short constant": {func(m *blueprint) { m.tensors[5].data = m.tensors[5].data[:20] },
			ErrMalformed, "20 bytes for 72 elements"},
		"long constant": {func(m *blueprint) { m.tensors[6].data = make([]byte, 99) }, ErrMalformed,
			"99 bytes for 4 elements"},
		"weights of another rank": {func(m *blueprint) { m.tensors[5].shape = []int{4, 9, 2} }, ErrMalformed,
			"not 4 dimensions"},
		"weights that are not constant": {func(m *blueprint) { m.ops[1].inputs[1] = 0 }, ErrUnsupported,
			"not constant"},
		"bias for other channels": {func(m *blueprint) { m.tensors[6] = constantOf("bias", 3) }, ErrMalformed,
			"bias of shape [3] for 4"},
		"channels that do not divide": {func(m *blueprint) { m.tensors[5].shape = []int{2, 3, 3, 4} },
			ErrMalformed, "for 2 output channels"},
		"seven dimensions": {func(m *blueprint) { m.tensors[0].shape = []int{1, 1, 1, 1, 6, 6, 2} },
			ErrMalformed, "7 dimensions"},
		"empty dimension": {func(m *blueprint) { m.tensors[0].shape[1] = 0 }, ErrMalformed,
			"no elements"},
		"negative dimension": {func(m *blueprint) { m.tensors[0].shape[1] = -6 }, ErrMalformed,
			"dimension -6"},
		"image of two dimensions": {func(m *blueprint) { m.tensors[0].shape = []int{6, 12} }, ErrMalformed,
			"paddings"},
		"huge image": {func(m *blueprint) { m.tensors[0].shape = []int{1, huge, huge, 2} },
			ErrMalformed, "more than"},
		"huge product": {func(m *blueprint) {
			m.tensors[0].shape = []int{65536, 65536, 65536, 65536}
		}, ErrMalformed, "more than"},
		"negative padding": {func(m *blueprint) {
			m.tensors[7] = int32Tensor("p", []int{4, 2}, 0, 0, -1, 0, 0, 0, 0, 0)
		}, ErrMalformed, "paddings"},
		"huge padding": {func(m *blueprint) {
			m.tensors[7] = int32Tensor("p", []int{4, 2}, huge, huge, huge, huge, huge, huge, 0, 0)
		}, ErrMalformed, "elements around"},
		"paddings for other dimensions": {func(m *blueprint) {
			m.tensors[7] = int32Tensor("p", []int{3, 2}, 0, 0, 0, 0, 0, 0)
		}, ErrMalformed, "paddings"},
		"paddings in single precision": {func(m *blueprint) { m.tensors[7] = constantOf("p", 4, 2) },
			ErrUnsupported, "integers"},
		"paddings that are computed": {func(m *blueprint) { m.ops[0].inputs[1] = 0 }, ErrUnsupported,
			"integers"},
		"no stride":       {options(1, conv2D.strideH, int32(0)), ErrMalformed, "stride 0"},
		"negative stride": {options(1, conv2D.strideW, int32(-1)), ErrMalformed, "stride -1"},
		"no dilation":     {options(1, conv2D.dilationH, int32(0)), ErrMalformed, "dilation 0"},
		"huge dilation": {options(1, conv2D.dilationH, int32(huge)), ErrMalformed,
			"dilation 2147483647"},
		"window beyond the image": {options(1, conv2D.dilationH, int32(100)), ErrMalformed,
			"reaches over 201"},
		"unknown padding": {options(1, conv2D.padding, byte(7)), ErrMalformed, "unknown padding 7"},
		"activation that XNNPACK cannot fuse": {options(1, conv2D.activation, byte(activationTanh)), ErrUnsupported,
			"fused activation TANH"},
		"unknown activation": {options(1, conv2D.activation, byte(99)), ErrUnsupported,
			"fused activation 99"},
		"empty pool": {options(2, poolFilterHeight, int32(0)), ErrMalformed, "window of 0"},
		"huge pool": {func(m *blueprint) {
			m.ops[2].options[poolFilterHeight] = int32(1 << 28)
			m.ops[2].options[poolFilterWidth] = int32(1 << 28)
		}, ErrUnsupported, "more than"},
		"both kinds of pixel centres": {options(3, resizeAlignCorners, true), ErrMalformed, "align_corners"},
		"new size of nothing": {func(m *blueprint) { m.tensors[8] = int32Tensor("s", []int{2}, 0, 4) },
			ErrMalformed, "no elements"},
		"new size of three dimensions": {func(m *blueprint) { m.tensors[8] = int32Tensor("s", []int{3}, 4, 4, 4) },
			ErrMalformed, "new size"},
		"huge new size": {func(m *blueprint) { m.tensors[8] = int32Tensor("s", []int{2}, huge, huge) },
			ErrUnsupported, "single precision"},
		"input of text": {func(m *blueprint) { m.tensors[0].dtype = typeString }, ErrUnsupported,
			"STRING"},
		"input of an unknown type": {func(m *blueprint) { m.tensors[0].dtype = 200 }, ErrUnsupported,
			"TensorType(200)"},
		"output of another type": {func(m *blueprint) { m.tensors[3].dtype = typeInt8 }, ErrUnsupported, "INT8"},
		"weights in half precision": {func(m *blueprint) {
			m.tensors[5] = halves("k", []int{4, 3, 3, 2}, wave(72)...)
		}, ErrUnsupported, "FLOAT16"},
		"weights of 16 bits": {func(m *blueprint) {
			m.tensors[5].dtype, m.tensors[5].data = typeInt16, m.tensors[5].data[:144]
		}, ErrUnsupported, "INT16"},
		"transposed convolution without a size": {func(m *blueprint) {
			m.ops[1].code, m.ops[1].custom = "CUSTOM", "Convolution2DTransposeBias"
		}, ErrMalformed, "0 bytes of options"},
		"transposed convolution of huge stride": {func(m *blueprint) {
			m.ops[1].code, m.ops[1].custom = "CUSTOM", "Convolution2DTransposeBias"
			m.ops[1].customOptions = []byte{1, 0, 0, 0, 255, 255, 255, 31, 255, 255, 255, 31}
		}, ErrMalformed, "stride"},
		"sparsity of other dimensions": {func(m *blueprint) {
			m.tensors[5].sparsity = &sparsity{traversalOrder: []int32{0}}
		}, ErrMalformed, "sparsity"},
		"constant beyond the file": {func(m *blueprint) {
			m.tensors[5].outside = true
		}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := convolutional()
			c.change(&m)
			path := save(t, m.bytes())
			model, err := Open(path, nil)
			if c.want == nil {
				require.NoError(t, err)
				require.NoError(t, model.Close())
				b := m.bytes()
				require.NoError(t, os.WriteFile(path, b[:len(b)-10], 0o644))
				_, err = Open(path, nil)
				require.ErrorIs(t, err, ErrMalformed)
				return
			}
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.text)
		})
	}
}

// XNNPACK has no such node: its output has a scale, too.
func TestAnIntegerFunctionOfQuantizedValuesWithoutAnOutputScaleIsRefused(t *testing.T) {
	m := blueprint{inputs: []int{0}, outputs: []int{1},
		ops: []blueOp{{code: "NEG", inputs: []int{0}, outputs: []int{1}}},
		tensors: []blueTensor{
			{name: "in", shape: []int{1}, dtype: typeUint8, scales: []float32{0.5}, zeroPoints: []int64{0}},
			{name: "out", shape: []int{1}, dtype: typeUint8},
		}}
	_, err := load(m.bytes(), Options{})
	require.ErrorIs(t, err, ErrUnsupported)
}

func TestMalformedSparsityIsRefused(t *testing.T) {
	dense := func(n int32) sparseDim { return sparseDim{format: dimensionDense, size: n} }
	for name, change := range map[string]func(s *sparsity){
		"order that is no permutation":  func(s *sparsity) { s.traversalOrder[1] = 0 },
		"order beyond the dimensions":   func(s *sparsity) { s.traversalOrder[1] = 9 },
		"block before its dimension":    func(s *sparsity) { s.traversalOrder = []int32{4, 1, 2, 3, 0} },
		"block of no dimension":         func(s *sparsity) { s.blockMap[0] = 4 },
		"block that does not divide":    func(s *sparsity) { s.dims[4].size = 3 },
		"block of nothing":              func(s *sparsity) { s.dims[4].size = 0 },
		"dense dimension of other size": func(s *sparsity) { s.dims[0] = dense(3) },
		"too few segments":              func(s *sparsity) { s.dims[3].segments = []int32{0, 3} },
		"segments that run back":        func(s *sparsity) { s.dims[3].segments = []int32{0, 4, 3} },
		"segments that begin late":      func(s *sparsity) { s.dims[3].segments = []int32{1, 2, 3} },
		"segments beyond the indices":   func(s *sparsity) { s.dims[3].segments = []int32{0, 1, 5} },
		"index beyond the dimension":    func(s *sparsity) { s.dims[3].indices[2] = 2 },
		"negative index":                func(s *sparsity) { s.dims[3].indices[0] = -1 },
		"unknown format":                func(s *sparsity) { s.dims[0].format = 5 },
	} {
		t.Run(name, func(t *testing.T) {
			good := sparsities()["blocks"].sparsity
			scatter := func() { good.scatter([]int{2, 1, 1, 4}) }
			require.NoError(t, fault.Try(scatter))
			change(good)
			require.ErrorIs(t, fault.Try(scatter), ErrMalformed)
		})
	}
}

func TestOptionsThatLieOutsideTheirTableAreRefused(t *testing.T) {
	m := convolutional()
	good := m.bytes()
	g := parse(good, "")
	options := g.operators[1].options.Position()
	vtable := int(options) - int(flatbuffers.GetSOffsetT(good[options:]))
	slot := vtable + 4 + 2*conv2D.dilationH
	if vtable+int(flatbuffers.GetVOffsetT(good[vtable:])) <= slot {
		slot = vtable + 4 + 2*conv2D.strideH
	}
	binary.LittleEndian.PutUint16(good[slot:], 0xfff0)
	_, err := load(good, Options{})
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, "leaves the table")
	require.ErrorContains(t, err, "CONV_2D")
}

// TestDamagedFilesNeverCrash cuts files off at every length and changes every byte in turn.
func TestDamagedFilesNeverCrash(t *testing.T) {
	for _, m := range []blueprint{convolutional(), widening(), weightCases()[1].model, summing()} {
		good := m.bytes()
		for n := range good {
			_, err := load(good[:n], Options{})
			if n < len(good)/2 {
				require.ErrorIs(t, err, ErrMalformed, "%d of %d bytes", n, len(good))
			}
		}
		for i := range good {
			for _, flip := range []byte{0x01, 0x80, 0xff} {
				bad := bytes.Clone(good)
				bad[i] ^= flip
				exercise(t, bad)
			}
		}
	}
}

// exercise does with a file's bytes all that can be done with a model; errors are fine, crashes are not.
func exercise(t testing.TB, b []byte) {
	p, err := load(b, Options{})
	if err != nil || weight(p) > 1<<24 { // there is nothing wrong with the latter, but too much to compute
		return
	}
	m := openBytes(t, b)
	defer func() { require.NoError(t, m.Close()) }()
	e, err := instance.New(m, instance.PackedInHeap, 1)
	if err != nil {
		return
	}
	_, _ = e.Infer()
	require.NoError(t, e.Close())
}

// openBytes opens a model that consists of b. Its file goes at once: there are many of them.
func openBytes(t testing.TB, b []byte) *Model {
	t.Helper()
	f, err := os.CreateTemp("", "*.tflite")
	require.NoError(t, err)
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	m, err := Open(f.Name(), nil)
	require.NoError(t, err)
	return m
}

// weight estimates how much there is to compute and to keep.
func weight(p *plan) float64 {
	size := func(id flow.ID) float64 {
		e := 1.0
		for _, d := range p.Array(id).Shape {
			e *= float64(d)
		}
		return e
	}
	total := 0.0
	for _, s := range p.steps {
		constants, computed := 1.0, 0.0
		inputs, outputs := s.Operands()
		for _, id := range inputs {
			if p.valueOf(id).constant != nil {
				constants *= size(id)
			}
			computed += size(id)
		}
		for _, id := range outputs {
			computed += size(id)
		}
		node, _ := s.Operation.(flow.Node)
		switch n := node.N.(type) {
		case xnnpack.MaxPooling2D:
			constants = float64(n.Pooling.Height) * float64(n.Pooling.Width)
		case xnnpack.AveragePooling2D:
			constants = float64(n.Pooling.Height) * float64(n.Pooling.Width)
		case xnnpack.Deconvolution2D, xnnpack.BatchMatrixMultiply:
			constants *= 1 << 10
		}
		total += computed * constants
	}
	return total
}

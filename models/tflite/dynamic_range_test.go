package tflite

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/modeltest"
)

// dynamicRange makes a model of an operator with weights of int8 for an input in single precision, and the same model
// with these weights dequantized. The channel is the weights' dimension of the outputs.
func dynamicRange(op blueOp, input, weights []int, channel int, perChannel bool, bias float32) (m, plain blueprint) {
	n := weights[channel]
	scales := []float32{1. / 16}
	if perChannel {
		scales = nil
		for i := range n {
			scales = append(scales, 1/float32(16+i))
		}
	}
	k := quantizedTensor("k", typeInt8, weights, channel, 0, scales, wave(len(newArray(weights...).v)))
	biases := wave(n)
	for i := range biases {
		biases[i] += bias
	}
	b := floats("b", []int{n}, biases...)
	return single(op, input, k, b), single(op, input, floats("k", weights, meaning(k)...), b)
}

func strided(slotH, slotW int) fields { return fields{slotH: int32(1), slotW: int32(1)} }

func TestWeightsOfInt8ForInputsInSinglePrecision(t *testing.T) {
	grouped := blueOp{code: "CONV_2D", options: strided(conv2D.strideH, conv2D.strideW)}
	for _, c := range []struct {
		name           string
		op             blueOp
		input, weights []int
		channel        int
		exact          bool // no kernel of XNNPACK quantizes this input
	}{
		{"FULLY_CONNECTED", blueOp{code: "FULLY_CONNECTED"}, []int{5, 24}, []int{7, 24}, 0, false},
		{"FULLY_CONNECTED of three dimensions",
			blueOp{code: "FULLY_CONNECTED", options: fields{fullyConnectedKeepNumDims: true}},
			[]int{2, 3, 24}, []int{7, 24}, 0, false},
		{"FULLY_CONNECTED of a flat input", blueOp{code: "FULLY_CONNECTED"}, []int{2, 3, 4}, []int{7, 12}, 0, false},
		{"FULLY_CONNECTED of one output", blueOp{code: "FULLY_CONNECTED"}, []int{5, 24}, []int{1, 24}, 0, true},
		{"CONV_2D", grouped, []int{2, 7, 8, 6}, []int{5, 3, 3, 6}, 0, false},
		{"CONV_2D in groups", grouped, []int{1, 7, 8, 6}, []int{4, 3, 3, 3}, 0, true},
		{"DEPTHWISE_CONV_2D",
			blueOp{code: "DEPTHWISE_CONV_2D", options: strided(depthwise2D.strideH, depthwise2D.strideW)},
			[]int{1, 7, 8, 6}, []int{1, 3, 3, 6}, 3, true},
	} {
		for _, perChannel := range []bool{false, true} {
			name := c.name + ", one scale"
			if perChannel {
				name = c.name + ", a scale for each channel"
			}
			t.Run(name, func(t *testing.T) {
				m, plain := dynamicRange(c.op, c.input, c.weights, c.channel, perChannel, 0)
				input := wave(len(newArray(c.input...).v))
				want := interpret(t, plain.bytes(), input)[0]
				opened := openModel(t, save(t, m.bytes()))
				got := modeltest.Run(t, opened, input)[0]
				var apart, size float64
				for i, w := range want {
					apart += math.Pow(float64(w)-float64(got[i]), 2)
					size += math.Pow(float64(w), 2)
				}
				if c.exact {
					require.LessOrEqual(t, math.Sqrt(apart/size), 1e-6)
				} else {
					require.LessOrEqual(t, math.Sqrt(apart/size), 1e-2)
					require.Greater(t, math.Sqrt(apart/size), 1e-6, "the input is not quantized")
				}

				path := filepath.Join(t.TempDir(), "packed.xpwc")
				for range 2 {
					out, _, stats := cached(t, opened, path, input)
					require.Equal(t, got, out[0])
					require.Empty(t, stats.Private)
				}
			})
		}
	}
}

// TestOneKernelWithTwoBiasesIsPackedTwice: XNNPACK packs the bias of dynamically quantized operators in.
func TestOneKernelWithTwoBiasesIsPackedTwice(t *testing.T) {
	op := blueOp{code: "FULLY_CONNECTED"}
	path := filepath.Join(t.TempDir(), "packed.xpwc")
	var answers [][]float32
	for _, bias := range []float32{0, 100, 0, 100} {
		m, _ := dynamicRange(op, []int{5, 24}, []int{7, 24}, 0, true, bias)
		opened := openModel(t, save(t, m.bytes()))
		want := modeltest.Run(t, opened, wave(120))[0]
		cache, err := xpwc.Open(path, nil)
		require.NoError(t, err)
		got := modeltest.RunCached(t, opened, cache, opened.DataMap(), wave(120))[0]
		require.NoError(t, cache.Close())
		require.Equal(t, want, got)
		answers = append(answers, got)
	}
	require.NotEqual(t, answers[0], answers[1])
}

// TestOneKernelAsRowsAndAsWeights: a table of tokens that is also the last layer's weights, as in many language models.
func TestOneKernelAsRowsAndAsWeights(t *testing.T) {
	k := quantizedTensor("k", typeInt8, []int{11, 8}, 0, 0, []float32{1. / 16}, wave(88))
	m := blueprint{
		tensors: []blueTensor{typed(floats("ids", []int{3}), typeInt32), k,
			{name: "row", dtype: typeInt8, scales: []float32{1. / 16}, zeroPoints: []int64{0}}, floats("wide", nil),
			floats("out", nil)},
		ops: []blueOp{{code: "GATHER", inputs: []int{1, 0}, outputs: []int{2}},
			{code: "DEQUANTIZE", inputs: []int{2}, outputs: []int{3}},
			{code: "FULLY_CONNECTED", inputs: []int{3, 1, absent}, outputs: []int{4}}},
		inputs: []int{0}, outputs: []int{4},
	}
	opened := openModel(t, save(t, m.bytes()))
	ids, table := []float32{10, 0, 3}, wave(88)
	got := modeltest.Run(t, opened, ids)[0]
	for i, id := range ids {
		for j := range 11 {
			sum := 0.0
			for n := range 8 {
				sum += float64(table[int(id)*8+n]) * float64(table[j*8+n])
			}
			require.InDelta(t, sum, got[11*i+j], 0.1)
		}
	}
	path := filepath.Join(t.TempDir(), "packed.xpwc")
	for range 2 {
		out, _, _ := cached(t, opened, path, ids)
		require.Equal(t, got, out[0])
	}
	modeltest.CheckPacked(t, opened)
}

func TestAllReasonsAgainstAModelComeAtOnce(t *testing.T) {
	m := single(blueOp{code: "RELU"}, []int{4})
	next := func(op blueOp, tensors ...blueTensor) {
		op.inputs, op.outputs = []int{len(m.tensors) - 1}, []int{len(m.tensors) + len(tensors)}
		for i := range tensors {
			op.inputs = append(op.inputs, len(m.tensors)+i)
		}
		m.tensors = append(append(m.tensors, tensors...), floats("next", nil))
		m.ops, m.outputs = append(m.ops, op), op.outputs
	}
	const nonzero, unique = opcode("WHERE"), opcode("UNIQUE")
	next(blueOp{code: nonzero})
	next(blueOp{code: "ABS"}) // depends on it, and is no reason of its own
	next(blueOp{code: nonzero})
	next(blueOp{code: "CUSTOM", custom: "Mine"})
	m.ops = append(m.ops, blueOp{code: "SOFTMAX", inputs: []int{1}, outputs: []int{len(m.tensors)}})
	m.tensors = append(m.tensors, floats("softmax", nil))
	m.ops = append(m.ops, blueOp{code: unique, inputs: []int{1, 1}, outputs: []int{len(m.tensors)}})
	m.tensors = append(m.tensors, floats("different", nil))
	_, err := Open(save(t, m.bytes()), nil)
	require.ErrorIs(t, err, ErrUnsupportedOp)
	require.ErrorIs(t, err, ErrUnsupported)
	for _, text := range []string{"operator 1, WHERE: unsupported operator (and 1 more)",
		"operator 4, Mine: unsupported operator", "operator 5, SOFTMAX: unsupported use: a beta of 0",
		"operator 6, UNIQUE: unsupported operator"} {
		require.ErrorContains(t, err, text)
	}
	require.NotContains(t, err.Error(), "ABS")
}

// blocks makes a product with weights of int4 that have a scale for each block of two.
func blocks() (m, plain blueprint) {
	k := blueTensor{name: "k", shape: []int{3, 4}, dtype: typeInt4, data: []byte{0x21, 0xf8, 0x07, 0x3e, 0x91, 0x44},
		block: 2}
	m = single(blueOp{code: "FULLY_CONNECTED"}, []int{2, 4}, k)
	m.tensors = append(m.tensors, halves("scales", []int{3, 2}, 1, 0.5, 0.25, 2, 1, 4))
	m.tensors[1].blockScale = len(m.tensors) - 1
	plain = single(blueOp{code: "FULLY_CONNECTED"}, []int{2, 4}, floats("k", []int{3, 4},
		1, 2, -4, -0.5, 1.75, 0, -4, 6, 1, -7, 16, 16))
	return m, plain
}

func TestWeightsOfInt4InBlocksAreThoseOfTheirScales(t *testing.T) {
	m, plain := blocks()
	input := wave(8)
	want := interpret(t, plain.bytes(), input)[0]
	require.InDeltaSlice(t, want, modeltest.Run(t, openModel(t, save(t, m.bytes())), input)[0], 1e-5)

	for name, change := range map[string]func(*blueprint){
		"a block that is no part of a row": func(m *blueprint) { m.tensors[1].block = 3 },
		"scales that are no tensor":        func(m *blueprint) { m.tensors[1].blockScale = 9 },
		"scales of bytes":                  func(m *blueprint) { m.tensors[3].dtype = typeInt8 },
		"scales less":                      func(m *blueprint) { m.tensors[3] = halves("s", []int{3}, 1, 2, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := blocks()
			change(&m)
			_, err := load(m.bytes(), Options{})
			require.ErrorIs(t, err, ErrMalformed)
		})
	}
}

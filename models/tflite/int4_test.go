package tflite

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
	"xpwc/xnnpack"
)

// fourBitWeights makes a product with weights of int4, and the same with weights of int8: with a scale for each output,
// or for each block of a row.
func fourBitWeights(rows, outputs, inputs, block int) (m, bytes blueprint) {
	k := blueTensor{name: "k", shape: []int{outputs, inputs}, dtype: typeInt4}
	var whole []byte
	for i := range outputs * inputs {
		n := int8((i*7+3)%16 - 8)
		whole = append(whole, byte(n))
		if i%2 == 0 {
			k.data = append(k.data, byte(n)&15)
		} else {
			k.data[i/2] |= byte(n) << 4
		}
	}
	scales := make([]float32, outputs)
	for i := range scales {
		scales[i] = 1 / float32(16+i)
	}
	op, bias := blueOp{code: "FULLY_CONNECTED"}, constantOf("b", outputs)
	if block == 0 {
		k.scales, k.zeroPoints = scales, make([]int64, outputs)
		m = single(op, []int{rows, inputs}, k, bias)
		k.dtype, k.data = typeInt8, whole
		return m, single(op, []int{rows, inputs}, k, bias)
	}
	k.block = block
	m = single(op, []int{rows, inputs}, k, bias)
	blocks := make([]float32, outputs*inputs/block)
	for i := range blocks {
		blocks[i] = []float32{0.5, 0.25, 1}[i%3]
	}
	m.tensors[1].blockScale = len(m.tensors)
	m.tensors = append(m.tensors, halves("scales", []int{outputs, inputs / block}, blocks...))
	var dense []float32
	for i, n := range whole {
		dense = append(dense, float32(int8(n))*blocks[i/block])
	}
	return m, single(op, []int{rows, inputs}, floats("k", []int{outputs, inputs}, dense...), bias)
}

func TestWeightsOfInt4ArePackedIn4Bits(t *testing.T) {
	for name, c := range map[string]struct{ rows, outputs, inputs, block int }{
		"a scale for each output":  {5, 12, 64, 0},
		"one output":               {4, 1, 64, 0},
		"blocks of 32":             {1, 12, 128, 32},
		"a block is a row":         {14, 8, 64, 64},
		"blocks of 32, one output": {1, 1, 64, 32},
	} {
		t.Run(name, func(t *testing.T) {
			m, wide := fourBitWeights(c.rows, c.outputs, c.inputs, c.block)
			opened := openModel(t, save(t, m.bytes()))
			input := wave(c.rows * c.inputs)
			got := modeltest.Run(t, opened, input)[0]
			want := modeltest.Run(t, openModel(t, save(t, wide.bytes())), input)[0]
			l2, _, _ := deviation(got, want)
			require.LessOrEqual(t, l2, 1e-2)

			kernel := slices.IndexFunc(opened.plan.constants, func(k *constant) bool { return len(k.shape) == 2 })
			k := opened.plan.constants[kernel].describe()
			rows := xnnpack.Tensor{Type: xnnpack.DynamicQInt8, Shape: []int{c.rows, c.inputs}}
			if narrow := k.Type.Size() == 4; !narrow {
				four := k
				four.Type, four.Quantization.BlockSize = xnnpack.ChannelQInt4, 0
				if c.block > 0 {
					four.Type, four.Quantization.BlockSize = xnnpack.BlockQInt4, c.block
				}
				require.ErrorIs(t, xnnpack.FullyConnectedDefect(rows, four), xnnpack.ErrKnownDefect)
			}
			path := filepath.Join(t.TempDir(), "packed.xpwc")
			for range 2 {
				out, _, stats := cached(t, opened, path, input)
				require.Equal(t, got, out[0])
				require.Empty(t, stats.Private)
			}
			modeltest.CheckPacked(t, opened)
		})
	}
}

// Rows of an odd length begin within a byte, and XNNPACK has no blocks of 16.
func TestWeightsOfInt4ThatXNNPACKLacksAreWidened(t *testing.T) {
	for name, c := range map[string]struct{ inputs, block int }{"odd rows": {33, 0}, "blocks of 16": {64, 16}} {
		m, wide := fourBitWeights(2, 7, c.inputs, c.block)
		if c.inputs%2 == 1 {
			m.tensors[1].data = m.tensors[1].data[:(7*c.inputs+1)/2]
		}
		input := wave(2 * c.inputs)
		want := modeltest.Run(t, openModel(t, save(t, wide.bytes())), input)[0]
		require.InDeltaSlice(t, want, modeltest.Run(t, openModel(t, save(t, m.bytes())), input)[0], 1e-4, name)
	}
}

func TestScalesOfBlocksAreRoundedToEven(t *testing.T) {
	for f, want := range map[float32]uint16{1: 0x3f80, 1 + 0x1p-8: 0x3f80, 1 + 0x3p-8: 0x3f82, 1 + 0x1p-8 + 0x1p-12: 0x3f81} {
		require.Equal(t, want, bfloat16(f), "%v", f)
	}
}

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
	rounded := map[float32]uint16{1: 0x3f80, 1 + 0x1p-8: 0x3f80, 1 + 0x3p-8: 0x3f82, 1 + 0x1p-8 + 0x1p-12: 0x3f81}
	for f, want := range rounded {
		require.Equal(t, want, bfloat16(f), "%v", f)
	}
}

func TestRowsOfNarrowTablesAreWidenedAlone(t *testing.T) {
	scales := []float32{1, 0.5, 0.25}
	want := func(numbers []int8, width int, scale func(i int) float32) (out []float32) {
		for _, row := range []int{2, 0, 1} {
			for i := row * width; i < (row+1)*width; i++ {
				out = append(out, float32(numbers[i])*scale(i))
			}
		}
		return out
	}
	pack := func(numbers []int8, bits int) (out []byte) {
		for i, n := range numbers {
			if i*bits%8 == 0 {
				out = append(out, 0)
			}
			out[i*bits/8] |= byte(n) & (1<<bits - 1) << (i * bits % 8)
		}
		return out
	}
	for name, c := range map[string]struct {
		dtype       elementType
		bits, width int
		block       int
		low, count  int
	}{
		"int8":           {typeInt8, 8, 5, 0, -128, 256},
		"int4":           {typeInt4, 4, 6, 0, -8, 16},
		"int4, odd rows": {typeInt4, 4, 5, 0, -8, 16},
		"int4 in blocks": {typeInt4, 4, 6, 2, -8, 16},
		"int2":           {typeInt2, 2, 6, 0, -2, 4},
		"int2, odd rows": {typeInt2, 2, 5, 0, -2, 4},
	} {
		numbers := make([]int8, 3*c.width)
		for i := range numbers {
			numbers[i] = int8(c.low + i*7%c.count)
		}
		table := blueTensor{name: "table", dtype: c.dtype, shape: []int{3, c.width}, data: pack(numbers, c.bits)}
		m := blueprint{tensors: []blueTensor{int32Tensor("ids", []int{3}), table, floats("rows", nil)},
			ops:    []blueOp{{code: "EMBEDDING_LOOKUP", inputs: []int{0, 1}, outputs: []int{2}}},
			inputs: []int{0}, outputs: []int{2}}
		scale := func(i int) float32 { return scales[i/c.width] }
		if m.tensors[1].scales, m.tensors[1].zeroPoints = scales, make([]int64, 3); c.block > 0 {
			m.tensors[1].scales, m.tensors[1].block, m.tensors[1].blockScale = nil, c.block, 3
			blocks := make([]float32, len(numbers)/c.block)
			for i := range blocks {
				blocks[i] = float32(i%4 + 1)
			}
			m.tensors = append(m.tensors, halves("scales", []int{len(blocks)}, blocks...))
			scale = func(i int) float32 { return blocks[i/c.block] }
		}
		opened := openModel(t, save(t, m.bytes()))
		require.Empty(t, opened.plan.constants, "%s: the table stays in the file", name)
		require.Equal(t, want(numbers, c.width, scale), modeltest.Run(t, opened, []float32{2, 0, 1})[0], name)
	}
}

func TestWeightsOfInt2AreMultiplied(t *testing.T) {
	k := blueTensor{name: "k", shape: []int{3, 4}, dtype: typeInt2, data: []byte{0b11_10_01_00, 0b00_01_10_11, 0b01_01_11_11},
		scales: []float32{1, 0.5, 2}, zeroPoints: []int64{0, 0, 0}}
	m := single(blueOp{code: "FULLY_CONNECTED"}, []int{1, 4}, k)
	got := modeltest.Run(t, openModel(t, save(t, m.bytes())), []float32{1, -2, 0.5, 4})[0]
	require.InDeltaSlice(t, []float32{-2 - 1 - 4, 0.5 * (-1 + 4 + 0.5), 2 * (-1 + 2 + 0.5 + 4)}, got, 0.1)
}

package tflite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// TestBiasesThatAConverterStoredOnceArePacked: converters store equal bytes once, such as biases of zeros.
func TestBiasesThatAConverterStoredOnceArePacked(t *testing.T) {
	second := floats("bias 2", []int{6})
	second.sharing = 3
	m := blueprint{
		tensors: []blueTensor{floats("in", []int{1, 6}), constantOf("kernel 1", 6, 6),
			floats("kernel 2", []int{6, 6}, wave(72)[36:]...), constantOf("bias 1", 6), second, floats("middle", nil),
			floats("out", nil)},
		ops: []blueOp{{code: "FULLY_CONNECTED", inputs: []int{0, 1, 3}, outputs: []int{5}},
			{code: "FULLY_CONNECTED", inputs: []int{5, 2, 4}, outputs: []int{6}}},
		inputs: []int{0}, outputs: []int{6},
	}
	modeltest.CheckPacked(t, openModel(t, save(t, m.bytes())))
}

// TestEqualBytesWithTwoScalesAreDequantizedTwice: what is stored once may mean two things.
func TestEqualBytesWithTwoScalesAreDequantizedTwice(t *testing.T) {
	op := blueOp{code: "DEPTHWISE_CONV_2D", options: strided(depthwise2D.strideH, depthwise2D.strideW)}
	m, plain := dynamicRange(op, []int{1, 4, 4, 3}, []int{1, 1, 1, 3}, 3, false, 0)
	twice := m.tensors[1]
	twice.name, twice.scales, twice.sharing, twice.data = "k, twice", []float32{1. / 8}, 1, nil
	m.tensors = append(m.tensors, twice, floats("out 2", nil))
	op.inputs, op.outputs = []int{0, 4, 2}, []int{5}
	m.ops, m.outputs = append(m.ops, op), append(m.outputs, 5)
	input := wave(48)
	got, want := modeltest.Run(t, openModel(t, save(t, m.bytes())), input), interpret(t, plain.bytes(), input)[0]
	bias := wave(3)
	for i, w := range want {
		require.InDelta(t, w, got[0][i], 1e-5)
		require.InDelta(t, 2*(w-bias[i%3])+bias[i%3], got[1][i], 1e-5)
	}
}

func TestHalfPrecisionThatIsWidenedTwiceIsPackedOnce(t *testing.T) {
	m := blueprint{
		tensors: []blueTensor{floats("in", []int{1, 4}), halves("kernel", []int{4, 4}, sharedHalves[:16]...),
			floats("wide 1", []int{4, 4}), floats("wide 2", []int{4, 4}), floats("middle", nil), floats("out", nil)},
		ops: []blueOp{{code: "DEQUANTIZE", inputs: []int{1}, outputs: []int{2}},
			{code: "DEQUANTIZE", inputs: []int{1}, outputs: []int{3}},
			{code: "FULLY_CONNECTED", inputs: []int{0, 2, absent}, outputs: []int{4}},
			{code: "FULLY_CONNECTED", inputs: []int{4, 3, absent}, outputs: []int{5}}},
		inputs: []int{0}, outputs: []int{5},
	}
	model := openModel(t, save(t, m.bytes()))
	path := filepath.Join(t.TempDir(), "cache.xpwc")
	require.EqualValues(t, 1, modeltest.PackWhole(t, model, path).Packed.Entries)
	require.Zero(t, modeltest.PackWhole(t, model, path).Packed)
	require.EqualValues(t, 4*4*4, model.WeightBytes())
}

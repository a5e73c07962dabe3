package tflite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
	"xpwc/models"
	"xpwc/xnnpack"
)

func int16Tensor(name string, scale float32, shape ...int) blueTensor {
	return blueTensor{name: name, dtype: typeInt16, shape: shape, scales: []float32{scale}, zeroPoints: []int64{0}}
}

func TestInputsAndOutputsOfInt16AreGivenAsTheyAre(t *testing.T) {
	b := single(blueOp{code: "ABS"}, []int{4})
	b.tensors[0], b.tensors[1] = int16Tensor("in", 0.5, 4), int16Tensor("out", 0.25, 4)
	m := openModel(t, save(t, b.bytes()))
	require.Equal(t, []models.Value{{Name: "in", Shape: []int{4}, Declared: models.Int16,
		Quantization: xnnpack.Quantization{Scale: 0.5}}}, m.Inputs())
	require.Equal(t, []models.Value{{ID: 1, Name: "out", Shape: []int{4}, Declared: models.Int16,
		Quantization: xnnpack.Quantization{Scale: 0.25}}}, m.Outputs())
	largest := float32(8191.75)
	require.Equal(t, []float32{1, 2.5, 0, largest}, modeltest.Run(t, m, []float32{1, -2.5, 0, -16384})[0])
}

func TestQuantizingToInt16KeepsWhatIsInItsRange(t *testing.T) {
	b := single(blueOp{code: "QUANTIZE"}, []int{3})
	b.tensors[1] = int16Tensor("q", 1.0/1024, 3)
	b.tensors = append(b.tensors, floats("out", []int{3}))
	b.ops = append(b.ops, blueOp{code: "DEQUANTIZE", inputs: []int{1}, outputs: []int{2}})
	b.outputs = []int{2}
	got := modeltest.Run(t, openModel(t, save(t, b.bytes())), []float32{-100, 0.5, 100})[0]
	require.Equal(t, []float32{-32, 0.5, 32 - 1.0/1024}, got)
}

// A sum exceeds the range of its int16. The next operator gets the greatest number of int16.
func TestAnOperatorKeepsInt16InItsRange(t *testing.T) {
	const narrow = 1.0 / 1024
	b := blueprint{inputs: []int{0}, outputs: []int{4}, tensors: []blueTensor{int16Tensor("in", 0.25, 2),
		quantizedTensor("half", typeInt16, []int{2}, 0, 0, []float32{0.5}, []float32{0.5, 0.5}),
		int16Tensor("sum", narrow, 2), int16Tensor("product", narrow, 2), floats("out", []int{2})},
		ops: []blueOp{{code: "ADD", inputs: []int{0, 0}, outputs: []int{2}},
			{code: "MUL", inputs: []int{2, 1}, outputs: []int{3}},
			{code: "DEQUANTIZE", inputs: []int{3}, outputs: []int{4}}}}
	got := modeltest.Run(t, openModel(t, save(t, b.bytes())), []float32{20, -3})[0]
	require.Equal(t, []float32{(32 - narrow) / 2, -3}, got)
}

func TestABiasOfInt16CountsStepsOfTheProductsWhateverItsScale(t *testing.T) {
	b := single(blueOp{code: "FULLY_CONNECTED"}, []int{1, 2},
		quantizedTensor("k", typeInt8, []int{2, 2}, 0, 0, []float32{0.5, 0.25}, []float32{1, 2, 3, 4}),
		quantizedTensor("b", typeInt64, []int{2}, 0, 0, []float32{1, 1}, []float32{8, 16}))
	last := len(b.tensors) - 1
	b.tensors[0], b.tensors[last] = int16Tensor("in", 0.5, 1, 2), int16Tensor("out", 0.5, 1, 2)
	got := modeltest.Run(t, openModel(t, save(t, b.bytes())), []float32{1, 1})[0]
	require.Equal(t, []float32{1 + 2 + 8*0.5*0.5, 3 + 4 + 16*0.5*0.25}, got)
}

func TestSelectedInt16IsCountedInTheStepsOfTheOutput(t *testing.T) {
	b := blueprint{inputs: []int{0}, outputs: []int{3}, tensors: []blueTensor{int16Tensor("in", 1, 2),
		{name: "c", shape: []int{2}, dtype: typeBool, data: []byte{1, 0}}, int16Tensor("b", 2, 2),
		int16Tensor("out", 4, 2)},
		ops: []blueOp{{code: "ADD", inputs: []int{0, 0}, outputs: []int{2}},
			{code: "SELECT_V2", inputs: []int{1, 0, 2}, outputs: []int{3}}}}
	got := modeltest.Run(t, openModel(t, save(t, b.bytes())), []float32{3, 5})[0]
	require.Equal(t, []float32{3 * 4, 5 * 2 / 2 * 4}, got)
}

func TestASumOfInt16OverAllDimensionsIsANumberWithinItsRange(t *testing.T) {
	for _, keep := range []bool{false, true} {
		b := single(blueOp{code: "SUM", options: fields{reducerKeepDims: keep}}, []int{2, 3},
			int32Tensor("axes", []int{2}, 0, 1))
		b.tensors[0], b.tensors[2] = int16Tensor("in", 0.5, 2, 3), int16Tensor("out", 0.5)
		m := openModel(t, save(t, b.bytes()))
		require.Equal(t, []float32{10.5}, modeltest.Run(t, m, []float32{1, 2, 3, 4, 5, -4.5})[0])
		require.Equal(t, []float32{16383.5}, modeltest.Run(t, m, []float32{9000, 9000, 0, 0, 0, 0})[0])
	}
}

func TestConstantsOfInt16WithEqualBytesAndOtherScalesAreDifferent(t *testing.T) {
	b := blueprint{inputs: []int{0}, outputs: []int{2, 4}, tensors: []blueTensor{int16Tensor("in", 1, 2),
		quantizedTensor("a", typeInt16, []int{2}, 0, 0, []float32{1}, []float32{3, 5}), int16Tensor("x", 1, 2),
		quantizedTensor("b", typeInt16, []int{2}, 0, 0, []float32{2}, []float32{6, 10}), int16Tensor("y", 1, 2)},
		ops: []blueOp{{code: "ADD", inputs: []int{0, 1}, outputs: []int{2}},
			{code: "ADD", inputs: []int{0, 3}, outputs: []int{4}}}}
	b.tensors[3].sharing = 1
	got := modeltest.Run(t, openModel(t, save(t, b.bytes())), []float32{1, 2})
	require.Equal(t, [][]float32{{4, 7}, {7, 12}}, got)
}

func TestInt16ThatCannotRunIsRefused(t *testing.T) {
	for name, change := range map[string]func(m *blueprint){
		"a scale of 0":     func(m *blueprint) { m.tensors[0].scales[0] = 0 },
		"a zero point":     func(m *blueprint) { m.tensors[1].zeroPoints[0] = 3 },
		"many scales":      func(m *blueprint) { m.tensors[0].scales = []float32{1, 2, 3, 4} },
		"what is not cast": func(m *blueprint) { m.ops[0].code = "CAST" },
	} {
		m := single(blueOp{code: "ABS"}, []int{4})
		m.tensors[0], m.tensors[1] = int16Tensor("in", 0.5, 4), int16Tensor("out", 0.25, 4)
		change(&m)
		_, err := Open(save(t, m.bytes()), nil)
		require.ErrorIs(t, err, ErrUnsupported, name)
	}
}

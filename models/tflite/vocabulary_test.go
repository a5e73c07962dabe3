package tflite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// vocabulary makes a file with a table of int8 that gives rows and is the weights of the last product. The last row is
// 0, 1, 2, …; the others are a hole in the file. Outputs are the rows and, if weighs, the product.
func vocabulary(t *testing.T, weighs bool) string {
	t.Helper()
	const rows, width, offset = 1 << 18, 2048, 1 << 16
	m := blueprint{
		tensors: []blueTensor{int32Tensor("ids", []int{2}),
			{name: "table", dtype: typeInt8, shape: []int{rows, width}, scales: []float32{0.5}, zeroPoints: []int64{0},
				outside: true, hole: rows * width},
			floats("rows", nil), floats("logits", nil)},
		ops: []blueOp{{code: "EMBEDDING_LOOKUP", inputs: []int{0, 1}, outputs: []int{2}},
			{code: "FULLY_CONNECTED", inputs: []int{2, 1, absent}, outputs: []int{3}}},
		inputs: []int{0}, outputs: []int{2},
	}
	if weighs {
		m.outputs = []int{2, 3}
	}
	b := m.write(map[int]uint64{1: offset})
	require.Less(t, len(b), offset)
	path := filepath.Join(t.TempDir(), "model.tflite")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	last := make([]byte, width)
	for i := range last {
		last[i] = byte(i % 128)
	}
	_, err = f.WriteAt(last, offset+(rows-1)*width)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return path
}

func TestATableOfHalfAGibibyteIsReadInPlace(t *testing.T) {
	m := openModel(t, vocabulary(t, false))
	got := modeltest.Run(t, m, []float32{1<<18 - 1, 7})[0]
	require.Equal(t, []float32{0, 0.5, 1, 1.5}, got[:4])
	require.Equal(t, make([]float32, 2048), got[2048:])
	require.Zero(t, m.WeightBytes())
}

func TestWeightsOfHalfAGibibyteArePlanned(t *testing.T) {
	m := openModel(t, vocabulary(t, true))
	require.Equal(t, []int{2, 1 << 18}, m.Outputs()[1].Shape)
	require.Equal(t, int64(1<<29), m.WeightBytes())
}

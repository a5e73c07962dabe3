package chain

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/execution"
	"xpwc/internal/instance"
	"xpwc/internal/modelfile"
)

// run returns the chain's answer to the input that all models are measured with.
func run(t testing.TB, path string) []byte {
	t.Helper()
	m, err := modelfile.File{Path: path}.Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	e, err := execution.Load(m, instance.PackedInHeap, 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	require.NoError(t, e.FillKnuth())
	_, err = e.Infer()
	require.NoError(t, err)
	out, shape, err := e.Output(0)
	require.NoError(t, err)
	require.Equal(t, []int{1, Width}, shape)
	return append([]byte(nil), out...)
}

func TestBothFilesComputeTheSame(t *testing.T) {
	dir := t.TempDir()
	model, program := filepath.Join(dir, "chain.tflite"), filepath.Join(dir, "chain.pte")
	for _, path := range []string{model, program} {
		var written int64
		require.NoError(t, Generate(t.Context(), path, 2, func(done, total int64) {
			require.EqualValues(t, dataOffset+2*MatrixBytes, total)
			written = done
		}))
		require.EqualValues(t, dataOffset+2*MatrixBytes, written)
	}
	answer := run(t, model)
	require.NotEqual(t, make([]byte, len(answer)), answer)
	require.Equal(t, answer, run(t, program))
}

func TestWeightsIn8BitsComputeAboutTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chain-int8.tflite")
	require.NoError(t, Generate(t.Context(), path, 2, nil))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, dataOffset+2*MatrixBytes/4, info.Size())
	values := make([]float32, Width)
	_, err = binary.Decode(run(t, path), binary.LittleEndian, values)
	require.NoError(t, err)
	sum := 0.0
	for _, v := range values {
		sum += float64(v) * float64(v)
	}
	require.InDelta(t, 1.0/3, sum/Width, 0.2, "the variance of the input's numbers, or a little more")
}

func TestACompleteChainIsLeftAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chain.tflite")
	require.NoError(t, Generate(t.Context(), path, 2, nil))
	before, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, Generate(t.Context(), path, 2, func(int64, int64) { t.Error("written again") }))
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))

	require.NoError(t, os.Truncate(path, before.Size()/2))
	require.NoError(t, Generate(t.Context(), path, 2, nil))
	after, err = os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, before.Size(), after.Size())
}

func TestOnlyWhatAChainCanBeIsGenerated(t *testing.T) {
	require.ErrorContains(t, Generate(t.Context(), filepath.Join(t.TempDir(), "chain.onnx"), 2, nil), ".pte")
}

package generated_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/execution"
	"xpwc/internal/generated"
	"xpwc/internal/instance"
	"xpwc/internal/modelfile"
)

// run returns the chain's answer to the input that all models are measured with.
func run(t testing.TB, path string) []byte {
	t.Helper()
	m, err := modelfile.File{Path: path}.Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	e, err := instance.New(m, instance.PackedInHeap, 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	require.NoError(t, execution.FillKnuth(e))
	_, err = e.Infer()
	require.NoError(t, err)
	out, shape, err := e.Output(0)
	require.NoError(t, err)
	require.Equal(t, []int{1, generated.Width}, shape)
	return append([]byte(nil), out...)
}

func TestBothFilesComputeTheSame(t *testing.T) {
	dir := t.TempDir()
	model, program := filepath.Join(dir, "chain.tflite"), filepath.Join(dir, "chain.pte")
	for _, path := range []string{model, program} {
		var written int64
		require.NoError(t, generated.Chain(2, false).Generate(t.Context(), path, func(done, total int64) {
			require.EqualValues(t, 1<<16+256+generated.Chain(2, false).WeightBytes(), total)
			written = done
		}))
		require.EqualValues(t, 1<<16+256+generated.Chain(2, false).WeightBytes(), written)
	}
	answer := run(t, model)
	require.NotEqual(t, make([]byte, len(answer)), answer)
	require.Equal(t, answer, run(t, program))
}

func TestWeightsIn8BitsComputeAboutTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chain.tflite")
	require.NoError(t, generated.Chain(2, true).Generate(t.Context(), path, nil))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 1<<16+256+generated.Chain(2, true).WeightBytes(), info.Size())
	values := make([]float32, generated.Width)
	_, err = binary.Decode(run(t, path), binary.LittleEndian, values)
	require.NoError(t, err)
	sum := 0.0
	for _, v := range values {
		sum += float64(v) * float64(v)
	}
	require.InDelta(t, 1.0/3, sum/generated.Width, 0.2, "the variance of the input's numbers, or a little more")
}

func TestOnlyWhatAModelCanBeIsGenerated(t *testing.T) {
	for name, m := range map[string]generated.Model{
		"model.onnx": generated.Chain(2, false), "chain.pte": generated.Chain(2, true),
		"stack.pte": generated.Stack(1, false),
	} {
		require.ErrorContains(t, m.Generate(t.Context(), filepath.Join(t.TempDir(), name), nil), ".pte", name)
	}
}

package llama_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/described"
	"xpwc/internal/llama"
	"xpwc/internal/modeltest"
)

func generated(t testing.TB, s llama.Stack) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.safetensors")
	require.NoError(t, s.Generate(context.Background(), path, nil))
	return path
}

func TestTheStackIsPackedOnce(t *testing.T) {
	for name, stack := range map[string]llama.Stack{"int8": {Layers: 1}, "float32": {Layers: 1, Float32: true}} {
		t.Run(name, func(t *testing.T) {
			m, err := described.Open(generated(t, stack), "")
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close()) }()
			require.Equal(t, stack.WeightBytes(), m.WeightBytes())
			require.Len(t, m.Inputs(), 7)
			modeltest.CheckPacked(t, m)
		})
	}
}

// The guess knows neither the limits of outputs nor the datatype.
func TestTheGuessedDescriptionIsTheStacks(t *testing.T) {
	path := generated(t, llama.Stack{Layers: 1})
	m, err := described.Open(path, "")
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	own, err := described.Parse([]byte(m.Description()))
	require.NoError(t, err)
	var guessed []described.Operator
	for _, o := range described.Describe(m.File()) {
		if o.Op == described.LeftOut {
			continue
		}
		require.Equal(t, []string{"activation", "datatype"}, o.Assumed)
		o.Assumed = nil
		guessed = append(guessed, o)
	}
	require.Equal(t, own, guessed)
}

func TestWeightsAreGeneratedOnceAndAlwaysTheSame(t *testing.T) {
	stack := llama.Stack{Layers: 1}
	path := generated(t, stack)
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, stack.Generate(context.Background(), path,
		func(int64, int64) { t.Error("a complete file is written again") }))

	require.NoError(t, os.Truncate(path, int64(len(first)-1)))
	var done, total int64
	require.NoError(t, stack.Generate(context.Background(), path, func(d, n int64) { done, total = d, n }))
	require.Equal(t, total, done)
	second, err := os.ReadFile(path)
	require.NoError(t, err)
	require.EqualValues(t, len(first), total)
	require.True(t, string(first) == string(second), "the weights differ")
	m, err := described.Open(path, "")
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	w, known := m.File().Lookup("model.layers.0.mlp.down_proj.weight")
	require.True(t, known)
	require.NotContains(t, string(w.Data), "\x80", "symmetric weights have no -128")
}

func TestAnInterruptedGenerationLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	err := llama.Stack{Layers: 1}.Generate(ctx, filepath.Join(dir, "weights"), func(int64, int64) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

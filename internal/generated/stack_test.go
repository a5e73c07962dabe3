package generated_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/generated"
	"xpwc/internal/tests/modeltest"
	"xpwc/models/tflite"
)

func written(t testing.TB, m generated.Model) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.tflite")
	require.NoError(t, m.Generate(t.Context(), path, nil))
	return path
}

func TestTheStackIsPackedOnce(t *testing.T) {
	for name, stack := range map[string]generated.Model{
		"int8": generated.Stack(1, true), "float32": generated.Stack(1, false),
	} {
		t.Run(name, func(t *testing.T) {
			m, err := tflite.Open(written(t, stack), nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close()) }()
			require.Equal(t, stack.WeightBytes(), m.WeightBytes())
			require.Len(t, m.Inputs(), 7)
			modeltest.CheckPacked(t, m)
		})
	}
}

func TestWeightsAreGeneratedOnceAndAlwaysTheSame(t *testing.T) {
	stack := generated.Stack(1, true)
	path := written(t, stack)
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, stack.Generate(t.Context(), path,
		func(int64, int64) { t.Error("a complete file is written again") }))

	require.NoError(t, os.Truncate(path, int64(len(first)-1)))
	var done, total int64
	require.NoError(t, stack.Generate(t.Context(), path, func(d, n int64) { done, total = d, n }))
	require.Equal(t, total, done)
	second, err := os.ReadFile(path)
	require.NoError(t, err)
	require.EqualValues(t, len(first), total)
	require.True(t, string(first) == string(second), "the weights differ")
	weights := second[total-stack.WeightBytes():]
	require.NotContains(t, string(weights), "\x80", "symmetric weights have no -128")
}

func TestAnInterruptedGenerationLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	err := generated.Stack(1, true).Generate(ctx, filepath.Join(dir, "m.tflite"), func(int64, int64) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestTheLargestModelCanBeDescribed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := generated.Stack(generated.MaxLayers, true)
	err := m.Generate(ctx, filepath.Join(t.TempDir(), "m.tflite"), func(int64, int64) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
}

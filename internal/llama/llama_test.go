package llama_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/llama"
	"xpwc/internal/modeltest"
)

func generated(t testing.TB, s llama.Stack) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weights")
	require.NoError(t, s.Generate(context.Background(), path, nil))
	return path
}

func open(t testing.TB, s llama.Stack, path string) *llama.Model {
	t.Helper()
	m, err := s.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// input is numbers between -0.5 and 0.5.
func input() []float32 {
	x := make([]float32, llama.Width)
	for i := range x {
		x[i] = float32(i*7919%llama.Width)/llama.Width - 0.5
	}
	return x
}

// cached runs the model on the cache file at path.
func cached(t testing.TB, m *llama.Model, path string) ([][]float32, xpwc.Stats) {
	t.Helper()
	c, err := xpwc.Open(path, nil)
	require.NoError(t, err)
	out := modeltest.RunCached(t, m, c, m.DataMap(), input())
	require.NoError(t, c.Save())
	stats := c.Stats()
	require.NoError(t, c.Close())
	return out, stats
}

func TestAnswersAreTameAndTheSameWithACacheAndWithout(t *testing.T) {
	for name, stack := range map[string]llama.Stack{"int8": {Layers: 1}, "float32": {Layers: 1, Float32: true}} {
		t.Run(name, func(t *testing.T) {
			m := open(t, stack, generated(t, stack))
			plain := modeltest.Run(t, m, input())
			var squares float64
			for _, x := range plain[0] {
				squares += float64(x) * float64(x)
			}
			require.InDelta(t, 1, math.Sqrt(squares/llama.Width), 1e-3, "the root mean square of the last norm")

			cache := filepath.Join(t.TempDir(), "cache")
			cold, stats := cached(t, m, cache)
			require.Equal(t, plain, cold)
			require.EqualValues(t, 7, stats.Packed.Entries, "all matrices of a layer are packed")
			require.Empty(t, stats.Private)
			warm, stats := cached(t, m, cache)
			require.Equal(t, plain, warm)
			require.EqualValues(t, 7, stats.Hits.Entries)
			require.Zero(t, stats.Packed.Entries)
			require.Zero(t, stats.WrittenBytes)
		})
	}
}

func TestTheStackIsPackedOnce(t *testing.T) {
	stack := llama.Stack{Layers: 1}
	modeltest.CheckPacked(t, open(t, stack, generated(t, stack)))
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
	require.NotContains(t, string(second[:stack.WeightBytes()]), "\x80", "symmetric weights have no -128")
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

func TestWrongFilesAreErrors(t *testing.T) {
	one := llama.Stack{Layers: 1}
	path := generated(t, one)
	_, err := llama.Stack{Layers: 2}.Open(path)
	require.ErrorIs(t, err, llama.ErrNotWeights)
	require.ErrorContains(t, err, path)
	_, err = one.Open(path + ".absent")
	require.ErrorIs(t, err, os.ErrNotExist)

	m := open(t, one, path)
	_, err = m.DataMap().Tensor("absent")
	require.ErrorIs(t, err, xpwc.ErrUnknownTensor)
	_, err = m.NewLoader().Load("absent")
	require.ErrorIs(t, err, xpwc.ErrUnknownTensor)
	_, err = m.Subgraph(failing{})
	require.ErrorIs(t, err, errFailing)
}

var errFailing = errors.New("nothing is there")

type failing struct{}

func (failing) Load(string, ...xpwc.LoadOption) ([]byte, error) { return nil, errFailing }

func TestAClosedModelRefusesToBeUsed(t *testing.T) {
	for name, stack := range map[string]llama.Stack{"int8": {Layers: 1}, "float32": {Layers: 1, Float32: true}} {
		t.Run(name, func(t *testing.T) {
			m, err := stack.Open(generated(t, stack))
			require.NoError(t, err)
			const weight = "model.layers.0.mlp.up_proj.weight"
			tensor, err := m.DataMap().Tensor(weight)
			require.NoError(t, err)
			l := m.NewLoader()
			require.NoError(t, m.Close())
			require.NoError(t, m.Close())
			_, err = m.DataMap().Tensor(weight)
			require.ErrorIs(t, err, xpwc.ErrClosed)
			_, err = l.Load(weight)
			require.ErrorIs(t, err, xpwc.ErrClosed)
			_, err = m.Subgraph(l)
			require.ErrorIs(t, err, xpwc.ErrClosed)
			tensor.Evict()
			l.Finalize()
		})
	}
}

func BenchmarkSubgraph(b *testing.B) {
	stack := llama.Stack{Layers: 8}
	m := open(b, stack, generated(b, stack))
	for b.Loop() {
		s, err := m.Subgraph(m.NewLoader())
		require.NoError(b, err)
		require.NoError(b, s.Delete())
	}
}

// A file that was changed a moment ago has no stamp, and then its parts have none: an equal one would stand for any
// content.
func TestAPartOfAFileWithoutAStampHasNone(t *testing.T) {
	s := llama.Stack{Layers: 1}
	path := generated(t, s)
	require.NoError(t, os.Chtimes(path, time.Now(), time.Now())) // however long it took to generate
	m := open(t, s, path)
	tensor, err := m.DataMap().Tensor("model.layers.0.mlp.up_proj.weight")
	require.NoError(t, err)
	require.Empty(t, tensor.Identity.Stamp)
}

package ideal_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/bench/ideal"
	"xpwc/internal/llama"
	"xpwc/xnnpack"
)

// run gives the answer of a runtime made with the cache.
func run(t testing.TB, m *llama.Model, cache xnnpack.WeightsCache) []float32 {
	t.Helper()
	g, err := m.Subgraph(m.NewLoader())
	require.NoError(t, err)
	r, err := xnnpack.NewRuntime(g, &xnnpack.RuntimeOptions{WeightsCache: cache})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Delete()) }()
	require.NoError(t, g.Delete())
	require.NoError(t, r.Reshape())
	in, err := xnnpack.NewBuffer(4 * llama.Width)
	require.NoError(t, err)
	defer in.Free()
	out, err := xnnpack.NewBuffer(4 * llama.Width)
	require.NoError(t, err)
	defer out.Free()
	for i := range in.Float32s() {
		in.Float32s()[i] = float32(i%17) / 17
	}
	require.NoError(t, r.Setup(map[xnnpack.ValueID][]byte{llama.Input: in.Bytes(), llama.Output: out.Bytes()}))
	require.NoError(t, r.Invoke())
	return append([]float32(nil), out.Float32s()...)
}

func open(t testing.TB, path string) *ideal.Cache {
	t.Helper()
	c, err := ideal.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestWhatWasRecordedAnswersEveryLookUp(t *testing.T) {
	stack := llama.Stack{Layers: 1}
	path := filepath.Join(t.TempDir(), "weights")
	require.NoError(t, stack.Generate(context.Background(), path, nil))
	m, err := stack.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()

	recorder, err := ideal.New()
	require.NoError(t, err)
	want := run(t, m, nil)
	require.Equal(t, want, run(t, m, recorder))
	require.Equal(t, 7, recorder.Misses())
	recording := filepath.Join(t.TempDir(), "recording")
	require.NoError(t, os.WriteFile(recording, []byte("something else"), 0o600))
	require.NoError(t, recorder.Save(recording), "it takes the place of what was there")
	payloads := len(recorder.Payloads())
	require.NoError(t, recorder.Close())
	require.NoError(t, recorder.Close())

	c := open(t, recording)
	require.Len(t, c.Payloads(), payloads)
	require.Equal(t, want, run(t, m, c))
	require.Zero(t, c.Misses())
	require.Zero(t, c.Unasked())

	// A second runtime asks for more than there is.
	require.Equal(t, want, run(t, m, c))
	require.Equal(t, 7, c.Misses())
	require.Equal(t, 7, open(t, recording).Unasked())
}

func TestOtherFilesAreNoRecordings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"", "short", "long enough to have a footer, but it is none"} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := ideal.Open(path)
		require.ErrorIs(t, err, ideal.ErrNotRecording)
		require.ErrorContains(t, err, path)
	}
	_, err := ideal.Open(path + ".absent")
	require.ErrorIs(t, err, os.ErrNotExist)
}

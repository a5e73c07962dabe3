package ideal_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/described"
	"xpwc/internal/bench/ideal"
	"xpwc/internal/llama"
	"xpwc/xnnpack"
)

// run gives the answer of a runtime made with the cache.
func run(t testing.TB, m *described.Model, cache xnnpack.WeightsCache) (all []float32) {
	t.Helper()
	g, err := m.Subgraph(m.NewLoader())
	require.NoError(t, err)
	r, err := xnnpack.NewRuntime(g, &xnnpack.RuntimeOptions{WeightsCache: cache})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Delete()) }()
	require.NoError(t, g.Delete())
	require.NoError(t, r.Reshape())
	values := map[xnnpack.ValueID][]byte{}
	for _, v := range append(m.Inputs(), m.Outputs()...) {
		b, err := xnnpack.NewBuffer(4 * xnnpack.Elements(v.Shape))
		require.NoError(t, err)
		defer b.Free()
		for i := range b.Float32s() {
			b.Float32s()[i] = float32(i%17) / 17
		}
		values[v.ID] = b.Bytes()
		defer func() { all = append(all, b.Float32s()...) }()
	}
	require.NoError(t, r.Setup(values))
	require.NoError(t, r.Invoke())
	return nil
}

func TestWhatWasRecordedAnswersEveryLookUp(t *testing.T) {
	stack := llama.Stack{Layers: 1}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	require.NoError(t, stack.Generate(context.Background(), path, nil))
	m, err := described.Open(path, "")
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()

	recorder, err := ideal.New()
	require.NoError(t, err)
	want := run(t, m, nil)
	require.Equal(t, want, run(t, m, recorder))
	require.ErrorContains(t, recorder.CheckAnswers(), "7 look-ups missed")
	recording := filepath.Join(t.TempDir(), "recording")
	require.NoError(t, os.WriteFile(recording, []byte("something else"), 0o600))
	places, err := recorder.Save(recording)
	require.NoError(t, err, "it takes the place of what was there")
	require.Len(t, places, 7)
	for _, p := range places {
		require.Zero(t, p[0]%128)
	}
	require.NoError(t, recorder.Close())
	require.NoError(t, recorder.Close())

	open := func() *ideal.Cache {
		c, err := ideal.Open(recording, places)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		return c
	}
	c := open()
	require.Equal(t, want, run(t, m, c))
	require.NoError(t, c.CheckAnswers())

	// A second runtime asks for more than there is.
	require.Equal(t, want, run(t, m, c))
	require.ErrorContains(t, c.CheckAnswers(), "7 look-ups missed")
	require.ErrorContains(t, open().CheckAnswers(), "7 answers are left")

	_, err = ideal.Open(recording+".absent", places)
	require.ErrorIs(t, err, os.ErrNotExist)
}

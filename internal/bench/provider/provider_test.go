package provider_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/bench/provider"
	"xpwc/internal/generated"
	"xpwc/models"
	"xpwc/models/tflite"
	"xpwc/xnnpack"
)

// run gives the answer of a runtime made with the cache.
func run(t testing.TB, m *tflite.Model, cache xnnpack.WeightsCache, finalize func() error) (outputs []float32) {
	t.Helper()
	g, err := m.Subgraph(models.NewMemory(m.DataMap()))
	require.NoError(t, err)
	r, err := xnnpack.NewRuntime(g, &xnnpack.RuntimeOptions{WeightsCache: cache})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Delete()) }()
	require.NoError(t, g.Delete())
	if finalize != nil {
		require.NoError(t, finalize())
	}
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
		defer func() { outputs = append(outputs, b.Float32s()...) }()
	}
	require.NoError(t, r.Setup(values))
	require.NoError(t, r.Invoke())
	return nil
}

func TestWhatWasWrittenAnswersEveryLookUp(t *testing.T) {
	stack := generated.Stack(1, true)
	path := filepath.Join(t.TempDir(), "m.tflite")
	require.NoError(t, stack.Generate(t.Context(), path, nil))
	m, err := tflite.Open(path, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()

	want := run(t, m, nil, nil)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("something else"), 0o600))
	writer, err := provider.Create(file)
	require.NoError(t, err, "it takes the place of what was there")
	require.Equal(t, want, run(t, m, writer, writer.Finalize))
	answers, size, err := writer.Keep()
	require.NoError(t, err)
	require.Equal(t, 7, answers)
	require.NoError(t, writer.Close())
	require.NoError(t, writer.Close())
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.GreaterOrEqual(t, info.Size(), size)

	open := func() *provider.Cache {
		c, err := provider.Open(file)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		return c
	}
	c := open()
	require.Equal(t, want, run(t, m, c, nil))
	require.NoError(t, c.CheckAnswers())

	// A second runtime asks for more than there is.
	require.Equal(t, want, run(t, m, c, nil))
	require.ErrorContains(t, c.CheckAnswers(), "7 look-ups missed")
	require.ErrorContains(t, open().CheckAnswers(), "7 answers are left")

	_, err = provider.Open(file + ".absent")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = provider.Create(filepath.Join(file, "below"))
	require.ErrorContains(t, err, "below")
}

//go:build cgo

package executorch

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models"
	"xpwc/models/inference"
)

func TestProgramsInMemoryAnswerAndShareAFile(t *testing.T) {
	const program = "mlp_fp32"
	p := openProgram(t, program)
	content, err := os.ReadFile(p.Path())
	require.NoError(t, err)
	input, _ := inputOf(t, filepath.Join(filepath.Dir(p.Path()), program+".in0.npy"), models.Float32)
	file := filepath.Join(t.TempDir(), "model.xpwc")
	o := &Options{Options: inference.Options{CacheFrom: 1}}
	run := func(m *inference.Runner, err error) (answer any, packed int) {
		require.NoError(t, err)
		outputs, err := m.Run(t.Context(), input)
		require.NoError(t, err)
		require.NoError(t, m.Close())
		return outputs[0].Data, int(m.Cache().Stats().Packed.Entries)
	}
	want, packed := run(Load(p.Path(), file, o))
	require.NotZero(t, packed)
	whole, err := os.Open(p.Path())
	require.NoError(t, err)
	defer whole.Close()
	for _, s := range []models.Source{
		models.Bytes("embedded", content),
		models.Reader("decrypted", bytes.NewReader(content), int64(len(content))),
		models.Section(whole, 0, int64(len(content))),
	} {
		answer, packed := run(LoadSource(s, file, o))
		require.Equal(t, want, answer, s.Name())
		require.Zero(t, packed, s.Name())
	}
	_, err = OpenSource(models.Bytes("program", content), models.Bytes("weights", content))
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, "weights")
	require.ErrorContains(t, err, "not a .ptd")
}

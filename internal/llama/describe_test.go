package llama

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/described"
	"xpwc/internal/modeltest"
	"xpwc/safetensors"
)

// save writes the stack's weights as a safetensors file, with scales of the name that torchao gives them.
func (m *Model) save(t *testing.T, path string) {
	t.Helper()
	var tensors []safetensors.Tensor
	for layer := range m.stack.Layers {
		for k := range kinds {
			name := weightName(layer, k)
			w, err := m.DataMap().Tensor(name)
			require.NoError(t, err)
			f := m.matrices[name].filter
			scales, err := binary.Append(nil, binary.LittleEndian, f.Quantization.Scales)
			require.NoError(t, err)
			tensors = append(tensors,
				safetensors.Tensor{Name: name, Dtype: safetensors.I8, Shape: f.Shape, Data: w.Data},
				safetensors.Tensor{Name: name[:len(name)-len("weight")] + "scales", Dtype: safetensors.F32,
					Shape: f.Shape[:1], Data: scales})
		}
	}
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, safetensors.Write(file, tensors, nil))
	require.NoError(t, file.Close())
}

// What is packed by the description that is guessed of the stack's tensors is what the stack itself looks up.
func TestTheGuessedDescriptionIsTheStacks(t *testing.T) {
	dir := t.TempDir()
	s := Stack{Layers: 1}
	require.NoError(t, s.Generate(t.Context(), filepath.Join(dir, "weights"), nil))
	m, err := s.Open(filepath.Join(dir, "weights"))
	require.NoError(t, err)
	m.save(t, filepath.Join(dir, "m.safetensors"))
	tensors, err := described.OpenTensors(filepath.Join(dir, "m.safetensors"))
	require.NoError(t, err)
	text, err := described.Format(described.Describe(tensors))
	require.NoError(t, err)
	guessed, err := described.Parse(text)
	require.NoError(t, err)
	var byHand []described.Operator
	for k := range kinds {
		name := weightName(0, k)
		byHand = append(byHand, described.Operator{Op: "fully_connected", Datatype: "qd8_f32_qc8w", Weights: name,
			Scales: name[:len(name)-len("weight")] + "scales"})
	}
	for i := range guessed {
		require.Equal(t, []string{"activation", "datatype"}, guessed[i].Assumed)
		guessed[i].Assumed = nil
	}
	require.Equal(t, byHand, guessed)
	d, err := described.New(tensors, guessed)
	require.NoError(t, err)
	modeltest.PackWhole(t, d, filepath.Join(dir, "cache"))

	x := make([]float32, Width)
	for i := range x {
		x[i] = float32(i*7919%Width)/Width - 0.5
	}
	cache, err := xpwc.Open(filepath.Join(dir, "cache"), nil)
	require.NoError(t, err)
	require.Equal(t, modeltest.Run(t, m, x), modeltest.RunCached(t, m, cache, m.DataMap(), x))
	require.EqualValues(t, 7, cache.Stats().Hits.Entries)
	require.Zero(t, cache.Stats().Packed.Entries)
	require.NoError(t, cache.Close())
	require.NoError(t, d.Close())
	require.NoError(t, m.Close())
}

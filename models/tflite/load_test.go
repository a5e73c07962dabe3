//go:build cgo

package tflite

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
	"xpwc/models/inference"
)

func TestLoadedModelsComputeTheSameWithoutAFileAtTheFirstStartAndAtTheNext(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "golden", "manifest.json"))
	require.NoError(t, err)
	var golden manifest
	require.NoError(t, json.Unmarshal(b, &golden))
	for _, c := range golden.Models {
		if c.Input.Set != "portrait" {
			continue
		}
		t.Run(c.Model, func(t *testing.T) {
			path, input := modelPath(t, c.Model), portrait(t, c.Input.File)
			want := modeltest.Run(t, openModel(t, path), input)
			file := filepath.Join(t.TempDir(), "model.xpwc")
			for _, start := range []struct {
				file  string
				packs bool
			}{{"", true}, {file, true}, {file, false}} {
				m, err := Load(path, start.file, &Options{Options: inference.Options{CacheFrom: 1}})
				require.NoError(t, err)
				outputs, err := m.Run(t.Context(), input)
				require.NoError(t, err)
				require.Len(t, outputs, len(c.Outputs))
				for i, o := range outputs {
					require.Equal(t, c.Outputs[i].Name, o.Name)
					require.Equal(t, c.Outputs[i].Shape, o.Shape)
					require.Equal(t, want[i], o.Data, "bit for bit")
					want := readFloats(t, filepath.Join("testdata", "golden", c.Outputs[i].File))
					requireClose(t, o.Name, o.Data.([]float32), want, c.Tolerance)
				}
				require.NoError(t, m.Close())
				require.Equal(t, start.packs, m.Cache().Stats().Packed.Entries > 0)
			}
		})
	}
}

func TestAFileThatIsNoModelIsNotLoaded(t *testing.T) {
	dir := t.TempDir()
	path, file := filepath.Join(dir, "model.tflite"), filepath.Join(dir, "model.xpwc")
	_, err := Load(path, file, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("no model"), 0o600))
	_, err = Load(path, file, nil)
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, path)
	require.NoFileExists(t, file)
}

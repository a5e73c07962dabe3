//go:build cgo

package harness

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
	"xpwc/models/safetensors"
)

// Safetensors is a safetensors file with tensors of float32.
func Safetensors(t testing.TB, tensors map[string][]byte) []byte {
	t.Helper()
	var complete []safetensors.Tensor
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		content := tensors[name]
		complete = append(complete, safetensors.Tensor{Name: name, Dtype: safetensors.F32,
			Shape: []int{len(content) / 4},
			Data:  content})
	}
	var file bytes.Buffer
	require.NoError(t, safetensors.Write(&file, complete, nil))
	return file.Bytes()
}

// A model whose file is overwritten in place while a session packs from it, at a moment of the test's choosing.
type Overwritten struct {
	T        *testing.T
	Path     string // of the model
	Cache    string
	Old, New map[string][]byte
	Data     *safetensors.File
	Done     chan struct{} // the file is overwritten
}

func NewOverwritten(t *testing.T) *Overwritten {
	o := &Overwritten{
		T: t, Path: filepath.Join(t.TempDir(), "model.safetensors"), Cache: Path(t),
		Old: ThreeLayers.Weights(1), New: ThreeLayers.Weights(2), Done: make(chan struct{}),
	}
	require.NoError(t, os.WriteFile(o.Path, Safetensors(t, o.Old), 0o600))
	testkit.Settled(t, o.Path)
	data, err := safetensors.Open(o.Path)
	require.NoError(t, err)
	o.Data = data
	t.Cleanup(func() { require.NoError(t, data.Close()) })
	return o
}

// Overwrite is for one call.
func (o *Overwritten) Overwrite() {
	Overwrite(o.T, o.Path, Safetensors(o.T, o.New))
	close(o.Done)
}

// NextProcess loads what is in the file now, twice.
func (o *Overwritten) NextProcess() {
	o.T.Helper()
	want := ThreeLayers.Plain(o.T, o.New)
	testkit.Settled(o.T, o.Path)
	for range 2 {
		data, err := safetensors.Open(o.Path)
		require.NoError(o.T, err)
		c := OpenCache(o.T, o.Cache, nil)
		require.Equal(o.T, want, ThreeLayers.Run(o.T, c, data))
		require.NoError(o.T, c.Close())
		require.NoError(o.T, data.Close())
	}
}

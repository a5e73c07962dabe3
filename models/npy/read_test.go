package npy_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/npy"
)

func TestOneFileIsReadAsItIsInItsDirectory(t *testing.T) {
	dir := filepath.Join("testdata", "reference")
	d, err := npy.Open(dir)
	require.NoError(t, err)
	defer d.Close()
	require.NotEmpty(t, d.Tensors())
	for _, want := range d.Tensors() {
		content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(want.Name)+".npy"))
		require.NoError(t, err)
		got, err := npy.Read(content)
		require.NoError(t, err, want.Name)
		want.Name = ""
		require.Equal(t, want, got)
		_, err = npy.Read(content[:len(content)-1])
		if len(want.Data) > 0 {
			require.ErrorIs(t, err, npy.ErrMalformed)
		}
	}
	_, err = npy.Read(nil)
	require.ErrorIs(t, err, npy.ErrMalformed)
}

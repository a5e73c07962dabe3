package npy

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/testkit"
	"xpwc/models/safetensors"
)

// directory writes files, by their paths in it.
func directory(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	return dir
}

func openDir(t testing.TB, dir string) *Dir {
	t.Helper()
	d, err := Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func bytesOf(t testing.TB, values any) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, values)
	require.NoError(t, err)
	return b
}

func TestWhatNumPyWroteIsRead(t *testing.T) {
	d := openDir(t, "testdata/reference")
	small := bytesOf(t, []int16{-1, 256})
	want := []safetensors.Tensor{
		{Name: "empty", Dtype: safetensors.U8, Shape: []int{0, 3}, Data: []byte{}},
		{Name: "kernel", Dtype: safetensors.F32, Shape: []int{2, 3},
			Data: bytesOf(t, []float32{-2.5, -1.5, -0.5, 0.5, 1.5, 2.5})},
		{Name: "layer/bias", Dtype: safetensors.F32, Shape: []int{2}, Data: bytesOf(t, []float32{0.5, -0.5})},
		{Name: "scalar", Dtype: safetensors.F64, Shape: []int{}, Data: bytesOf(t, 0.5)},
		{Name: "v1", Dtype: safetensors.I16, Shape: []int{1, 2, 1}, Data: small},
		{Name: "v2", Dtype: safetensors.I16, Shape: []int{1, 2, 1}, Data: small},
		{Name: "v3", Dtype: safetensors.I16, Shape: []int{1, 2, 1}, Data: small},
	}
	require.Equal(t, want, d.Tensors())
	for _, w := range want {
		got, ok := d.Lookup(w.Name)
		require.True(t, ok)
		require.Equal(t, w, got)
		tensor, err := d.Tensor(w.Name)
		require.NoError(t, err)
		require.Equal(t, w.Data, tensor.Data, "NumPy aligns arrays, so nothing is copied")
		require.Equal(t, filepath.Join(d.Path(), filepath.FromSlash(w.Name)+".npy"), tensor.Identity.Source)
		digest, err := tensor.Identity.Digest()
		require.NoError(t, err)
		require.Equal(t, xpwc.DigestOf(w.Data), digest)
		tensor.Evict()
		require.Equal(t, w.Data, tensor.Data)
	}
	_, ok := d.Lookup("absent")
	require.False(t, ok)
	_, err := d.Tensor("absent")
	require.ErrorIs(t, err, xpwc.ErrUnknownTensor)
	require.ErrorContains(t, err, d.Path())
}

func TestAnArrayAtAnyAddressIsCopied(t *testing.T) {
	file := v1(sound, 0)
	require.NotZero(t, len(file)%16)
	content := bytesOf(t, []float32{1, 2, 3, 4, 5, 6})
	d := openDir(t, directory(t, map[string][]byte{"a.npy": append(file, content...)}))
	tensor, err := d.Tensor("a")
	require.NoError(t, err)
	require.Nil(t, tensor.Data)
	got := make([]byte, tensor.Size)
	require.NoError(t, tensor.Fill(got))
	require.Equal(t, content, got)
}

func TestOnlyArraysOfTheDirectoryAreRead(t *testing.T) {
	file := v1(sound, 24)
	dir := directory(t, map[string][]byte{
		"a.npy": file, "a/b/c.npy": file, "d.npy/e.npy": file, "notes.txt": nil, "archive.npz": nil,
		"._a.npy":    []byte("made by another system"),
		".git/f.npy": nil, "npy": nil,
	})
	require.Equal(t, []string{"a", "a/b/c", "d.npy/e"}, names(openDir(t, dir)))
}

func names(d *Dir) []string {
	var out []string
	for _, a := range d.Tensors() {
		out = append(out, a.Name)
	}
	return out
}

func TestAFileThatCannotBeReadIsAnErrorThatNamesIt(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	_, err := Open(absent)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, absent)
	_, err = Open("testdata/README.md")
	require.ErrorContains(t, err, "README.md is not a directory")
	file := v1(sound, 24)
	dir := directory(t, map[string][]byte{"a.npy": file, "sub/bad.npy": file[:50]})
	_, err = Open(dir)
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, filepath.Join(dir, "sub", "bad.npy"))
}

func TestASingleFileIsOneArrayOfItsOwnName(t *testing.T) {
	dir := directory(t, map[string][]byte{"a.npy": v1(sound, 24), "b.npy": v1(sound, 24)})
	path := filepath.Join(dir, "a.npy")
	d := openDir(t, path)
	require.Equal(t, path, d.Path())
	require.Equal(t, []string{"a"}, names(d))
	tensor, err := d.Tensor("a")
	require.NoError(t, err)
	require.Equal(t, path, tensor.Identity.Source)
	_, err = d.Tensor("b")
	require.ErrorIs(t, err, xpwc.ErrUnknownTensor)
	require.NoError(t, d.Close()) // Windows lets nobody change a mapped file
	require.NoError(t, os.WriteFile(path, []byte("no array"), 0o600))
	_, err = Open(path)
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, path)
}

func TestAnotherFileHasOtherStamps(t *testing.T) {
	file := v1(sound, 24)
	dir := directory(t, map[string][]byte{"a.npy": file, "b.npy": file})
	stamps := map[string]bool{"": true}
	for range 2 {
		testkit.Settled(t, filepath.Join(dir, "a.npy"))
		testkit.Settled(t, filepath.Join(dir, "b.npy"))
		d := openDir(t, dir)
		for _, name := range []string{"a", "b"} {
			tensor, err := d.Tensor(name)
			require.NoError(t, err)
			require.False(t, stamps[tensor.Identity.Stamp])
			stamps[tensor.Identity.Stamp] = true
		}
		require.NoError(t, d.Close())
		for _, name := range []string{"a", "b"} {
			path := filepath.Join(dir, name+".npy")
			require.NoError(t, os.WriteFile(path+"2", file, 0o600))
			require.NoError(t, os.Rename(path+"2", path))
		}
	}
}

func TestAClosedDirectoryGivesNoBytes(t *testing.T) {
	d, err := Open("testdata/reference")
	require.NoError(t, err)
	tensor, err := d.Tensor("kernel")
	require.NoError(t, err)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	_, err = d.Tensor("kernel")
	require.ErrorIs(t, err, xpwc.ErrClosed)
	require.ErrorContains(t, err, "kernel.npy")
	_, err = tensor.Identity.Digest()
	require.ErrorIs(t, err, xpwc.ErrClosed)
	tensor.Evict()
	require.Len(t, d.Tensors(), 7)
	got, ok := d.Lookup("kernel")
	require.True(t, ok)
	require.Equal(t, []int{2, 3}, got.Shape)
	require.Nil(t, got.Data)
}

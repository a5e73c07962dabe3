package executorch

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/testkit"
)

func save(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := OpenFile(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func floats(values ...float32) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, values)
	if err != nil {
		panic(err)
	}
	return b
}

func TestWhatExecuTorchWroteIsRead(t *testing.T) {
	weight := NamedData{"weight", &TensorMeta{Float, []int{2, 3}, []int{0, 1}}, floats(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)}
	bias := NamedData{"bias", &TensorMeta{Float, []int{2}, []int{0}}, floats(0.5, -0.5)}
	duplicate := bias
	duplicate.Name = "bias again"
	blob := NamedData{"blob", nil, []byte("opaque blob")}
	bare := func(d NamedData) NamedData { d.Meta = nil; return d }
	for path, want := range map[string][]NamedData{
		"testdata/reference.ptd": {weight, bias, blob, duplicate},
		"testdata/reference.pte": {bare(weight), bare(bias), blob},
	} {
		f := open(t, path)
		require.Equal(t, want, f.NamedData(), path)
		for _, w := range want {
			got, ok := f.Lookup(w.Name)
			require.True(t, ok)
			require.Equal(t, w, got)
			d, err := f.Tensor(w.Name)
			require.NoError(t, err)
			require.Equal(t, w.Data, d.Data, "the segments are aligned, so nothing is copied")
			require.Equal(t, f.Path(), d.Identity.Source)
			digest, err := d.Identity.Digest()
			require.NoError(t, err)
			require.Equal(t, xpwc.DigestOf(w.Data), digest)
			d.Evict()
			require.Equal(t, w.Data, d.Data)
		}
		_, ok := f.Lookup("absent")
		require.False(t, ok)
		_, err := f.Tensor("absent")
		require.ErrorIs(t, err, xpwc.ErrUnknownTensor)
		require.ErrorContains(t, err, filepath.FromSlash(path))
	}
}

func TestDataAtAnyAddressIsCopied(t *testing.T) {
	b := sound(false)
	b.segments[2] = segment{132, 168}
	f := open(t, save(t, b.bytes()))
	d, err := f.Tensor("b")
	require.NoError(t, err)
	require.Nil(t, d.Data)
	got := make([]byte, d.Size)
	require.NoError(t, d.Fill(got))
	require.Equal(t, b.data[132:300], got)
}

func TestAnotherFileHasOtherStamps(t *testing.T) {
	b := sound(true)
	path := save(t, b.bytes())
	stamps := map[string]bool{"": true}
	for range 2 {
		f := open(t, testkit.Settled(t, path))
		for _, name := range []string{"a", "b"} {
			d, err := f.Tensor(name)
			require.NoError(t, err)
			require.False(t, stamps[d.Identity.Stamp])
			stamps[d.Identity.Stamp] = true
		}
		require.NoError(t, f.Close())
		b.data[0]++
		require.NoError(t, os.WriteFile(path+"2", b.bytes(), 0o600))
		require.NoError(t, os.Rename(path+"2", path))
	}
}

func TestAClosedFileGivesNoBytes(t *testing.T) {
	f, err := OpenFile("testdata/reference.ptd")
	require.NoError(t, err)
	d, err := f.Tensor("weight")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	_, err = f.Tensor("weight")
	require.ErrorIs(t, err, xpwc.ErrClosed)
	require.ErrorContains(t, err, "reference.ptd")
	_, err = d.Identity.Digest()
	require.ErrorIs(t, err, xpwc.ErrClosed)
	d.Evict()
	require.Len(t, f.NamedData(), 4)
	got, ok := f.Lookup("weight")
	require.True(t, ok)
	require.NotNil(t, got.Meta)
	require.Nil(t, got.Data)
}

func TestAFileThatCannotBeOpenedIsAnErrorThatNamesIt(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent.ptd")
	_, err := OpenFile(absent)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, absent)
	bad := save(t, sound(true).bytes()[:100])
	_, err = OpenFile(bad)
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, bad)
}

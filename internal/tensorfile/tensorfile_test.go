package tensorfile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/mapped"
	"xpwc/internal/tensorfile"
	"xpwc/internal/tests/testkit"
)

var page = os.Getpagesize()

func open(t *testing.T, size int) (*mapped.File, []byte) {
	t.Helper()
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i%251 + 1)
	}
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	f, err := mapped.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f, content
}

func TestContentIsInPlaceUnlessCCouldNotReadItThere(t *testing.T) {
	f, content := open(t, 2*page)
	end := int64(2 * page)
	for _, c := range []struct {
		place   tensorfile.Place
		inPlace bool
	}{
		{tensorfile.Place{Offset: 0, Size: 4, Alignment: 4}, true},
		{tensorfile.Place{Offset: 4, Size: 4, Alignment: 4}, true},
		{tensorfile.Place{Offset: 5, Size: 4, Alignment: 4}, false},
		{tensorfile.Place{Offset: 5, Size: 4, Alignment: 1}, true},
		{tensorfile.Place{Offset: 24, Size: 8, Alignment: 16}, false},
		{tensorfile.Place{Offset: 0, Size: end - 128, Alignment: 16}, true},
		{tensorfile.Place{Offset: 0, Size: end - 127, Alignment: 16}, false},
		{tensorfile.Place{Offset: end - 1, Size: 1, Alignment: 1}, false},
		{tensorfile.Place{Offset: 64, Size: 0, Alignment: 8}, true},
		{tensorfile.Place{Offset: end, Size: 0, Alignment: 8}, false},
	} {
		tensor, err := tensorfile.Tensor(f, c.place)
		require.NoError(t, err)
		want := content[c.place.Offset:][:c.place.Size]
		require.Equal(t, c.inPlace, tensor.Fill == nil, "%+v", c.place)
		got := tensor.Data
		if !c.inPlace {
			require.Nil(t, tensor.Data)
			require.Error(t, tensor.Fill(make([]byte, tensor.Size+1)))
			got = make([]byte, tensor.Size)
			require.NoError(t, tensor.Fill(got))
		}
		require.True(t, bytes.Equal(want, got), "%+v", c.place)
		require.Equal(t, len(got), cap(got), "nobody reaches the tensors after it")
		digest, err := tensor.Identity.Digest()
		require.NoError(t, err)
		require.Equal(t, xpwc.DigestOf(want), digest)
		require.Equal(t, f.Path(), tensor.Identity.Source)
	}
}

func TestTensorsOfOneFileHaveStampsOfTheirOwn(t *testing.T) {
	lately, _ := open(t, page)
	tensor, err := tensorfile.Tensor(lately, tensorfile.Place{Size: 16, Alignment: 1})
	require.NoError(t, err)
	require.Empty(t, tensor.Identity.Stamp, "it could be written to again at the same time")
	require.Equal(t, lately, tensor.Identity.Watch)

	f, err := mapped.Open(testkit.Settled(t, lately.Path()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.NotEmpty(t, f.Stamp())
	stamps := map[string]bool{}
	for _, p := range []tensorfile.Place{{0, 16, 1}, {16, 16, 1}, {0, 32, 1}} {
		tensor, err := tensorfile.Tensor(f, p)
		require.NoError(t, err)
		require.Contains(t, tensor.Identity.Stamp, f.Stamp())
		stamps[tensor.Identity.Stamp] = true
	}
	require.Len(t, stamps, 3)
}

func TestAClosedFileIsAnErrorWhereverItsBytesAreAskedFor(t *testing.T) {
	f, _ := open(t, page)
	tensor, err := tensorfile.Tensor(f, tensorfile.Place{Offset: 0, Size: 8, Alignment: 1})
	require.NoError(t, err)
	computed, err := tensorfile.Tensor(f, tensorfile.Place{Offset: 1, Size: 8, Alignment: 8})
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = tensorfile.Tensor(f, tensorfile.Place{Offset: 0, Size: 8, Alignment: 1})
	require.ErrorIs(t, err, xpwc.ErrClosed)
	require.ErrorContains(t, err, f.Path())
	require.ErrorIs(t, computed.Fill(make([]byte, 8)), xpwc.ErrClosed)
	_, err = tensor.Identity.Digest()
	require.ErrorIs(t, err, xpwc.ErrClosed)
	tensor.Evict()
	require.Nil(t, tensorfile.Place{Offset: 0, Size: 8}.In(f.Data()))
}

func TestAConversionIsPartOfTheIdentity(t *testing.T) {
	lately, content := open(t, 2*page)
	f, err := mapped.Open(testkit.Settled(t, lately.Path()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	place := tensorfile.Place{Offset: 8, Size: 4, Alignment: 4}
	stored, err := tensorfile.Tensor(f, place)
	require.NoError(t, err)
	doubled, err := tensorfile.Converted(f, place, tensorfile.Conversion{
		Name: "doubled", Size: 8,
		Fill:   func(dst, stored []byte) error { copy(dst, append(bytes.Clone(stored), stored...)); return nil },
		Digest: func(stored []byte) xpwc.Digest { return xpwc.DigestOf(append([]byte("doubled"), stored...)) },
	})
	require.NoError(t, err)
	require.Nil(t, doubled.Data)
	dst := make([]byte, doubled.Size)
	require.NoError(t, doubled.Fill(dst))
	require.Equal(t, bytes.Repeat(content[8:12], 2), dst)
	require.ErrorContains(t, doubled.Fill(dst[:4]), "4 bytes of memory for a tensor of 8")
	require.NotEqual(t, stored.Identity.Stamp, doubled.Identity.Stamp)
	digests := map[xpwc.Digest]bool{}
	for _, tensor := range []xpwc.Tensor{stored, doubled} {
		d, err := tensor.Identity.Digest()
		require.NoError(t, err)
		digests[d] = true
	}
	require.Len(t, digests, 2)

	require.NoError(t, f.Close())
	require.ErrorIs(t, doubled.Fill(dst), xpwc.ErrClosed)
	_, err = tensorfile.Converted(f, place, tensorfile.Conversion{Size: 8})
	require.ErrorIs(t, err, xpwc.ErrClosed)
}

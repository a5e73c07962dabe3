package cachefile_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
)

// between writes a file that has a cache at an offset, and other bytes before and behind it.
func between(t *testing.T, cache []byte, offset int) string {
	t.Helper()
	before := bytes.Repeat([]byte{0xa5}, offset)
	return write(t, append(append(before, cache...), "what comes behind"...))
}

func sampleBytes(t *testing.T) []byte {
	var m maker
	m.add(weights...)
	m.commit(t)
	return m.bytes()
}

func TestACacheInAnotherFileTellsWhatOneOfItsOwnDoes(t *testing.T) {
	for name, cache := range map[string][]byte{"native": sampleBytes(t), "ExecuTorch's": executorchFile(2, "a", "b")} {
		t.Run(name, func(t *testing.T) {
			own := open(t, write(t, cache))
			for _, offset := range []int{0, 1, 65536} {
				path := between(t, cache, offset)
				f, err := cachefile.OpenSection(path, int64(offset), int64(len(cache)))
				require.NoError(t, err)
				defer f.Close()
				require.Equal(t, path, f.Path())
				require.Equal(t, entries(t, own), entries(t, f))
				want, err := own.Info()
				require.NoError(t, err)
				got, err := f.Info()
				require.NoError(t, err)
				require.Equal(t, want, got)
				segments, err := own.Map()
				require.NoError(t, err)
				require.Equal(t, segments, requireMapCovers(t, f, len(cache)))
				for _, e := range entries(t, f) {
					require.NoError(t, f.Check(e))
				}
				differences, _, err := cachefile.Diff(own, f)
				require.NoError(t, err)
				require.Empty(t, differences)
				problems, err := cachefile.VerifySection(path, int64(offset), int64(len(cache)), nil)
				require.NoError(t, err)
				require.Empty(t, problems)
			}
		})
	}
}

func TestACacheIsTakenOutOfAnotherFile(t *testing.T) {
	cache := sampleBytes(t)
	path := between(t, cache, 4096)
	f, err := cachefile.OpenSection(path, 4096, int64(len(cache)))
	require.NoError(t, err)
	defer f.Close()
	require.ErrorIs(t, f.Write(path, nil, cachefile.WriteOptions{}), cachefile.ErrSameFile)
	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, f.Write(out, nil, cachefile.WriteOptions{}))
	requireSound(t, out)
	differences, _, err := cachefile.Diff(f, open(t, out))
	require.NoError(t, err)
	require.Empty(t, differences)
}

func TestDamageInAnotherFileIsToldFromWhereTheCacheBegins(t *testing.T) {
	cache := sampleBytes(t)
	damaged := bytes.Clone(cache)
	first := entries(t, open(t, write(t, cache)))[0]
	damaged[first.Offset] ^= 1
	own, err := cachefile.Verify(write(t, damaged), nil)
	require.NoError(t, err)
	require.Len(t, own, 1)
	require.Equal(t, first.Offset, own[0].Offset)
	path := between(t, damaged, 65536)
	problems, err := cachefile.VerifySection(path, 65536, int64(len(cache)), nil)
	require.NoError(t, err)
	own[0].Path = path
	require.Equal(t, own, problems)
	f, err := cachefile.OpenSection(path, 65536, int64(len(cache)))
	require.NoError(t, err)
	defer f.Close()
	require.ErrorIs(t, f.Check(entries(t, f)[0]), cachefile.ErrDamaged)
	_, err = cachefile.OpenSection(path, 65536, int64(len(cache)-1))
	require.ErrorIs(t, err, cachefile.ErrDamaged, "it is cut off")
}

func TestWhatIsNoSectionOfAFileIsAnError(t *testing.T) {
	cache := sampleBytes(t)
	path := between(t, cache, 4096)
	info, err := os.Stat(path)
	require.NoError(t, err)
	size := int64(len(cache))
	for _, c := range []struct {
		path         string
		offset, size int64
		want         error
	}{
		{path, 0, size, cachefile.ErrNotCache},
		{path, -1, size, cachefile.ErrNotCache},
		{path, 4096, 0, cachefile.ErrNotCache},
		{path, 4096, -1, cachefile.ErrNotCache},
		{path, 4096, math.MaxInt64, cachefile.ErrNotCache},
		{path, 4096, info.Size() - 4095, cachefile.ErrDamaged},
		{path, math.MaxInt64 - size, size, cachefile.ErrDamaged},
		{path + ".missing", 4096, size, os.ErrNotExist},
		{filepath.Dir(path), 4096, size, cachefile.ErrNotCache},
	} {
		_, err := cachefile.OpenSection(c.path, c.offset, c.size)
		require.ErrorIs(t, err, c.want, "%d bytes at %d", c.size, c.offset)
		require.ErrorContains(t, err, c.path)
		_, err = cachefile.VerifySection(c.path, c.offset, c.size, nil)
		require.ErrorIs(t, err, c.want, "%d bytes at %d", c.size, c.offset)
	}
}

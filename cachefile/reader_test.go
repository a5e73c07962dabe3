package cachefile_test

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/format"
)

// between writes a file that has a cache at an offset, and other bytes before and behind it.
func between(t *testing.T, cache []byte, offset int) string {
	t.Helper()
	padding := bytes.Repeat([]byte{0xa5}, offset)
	return write(t, append(append(padding, cache...), "what comes behind"...))
}

// section is the part of a file that has the cache.
func section(t *testing.T, path string, offset, size int64) *io.SectionReader {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return io.NewSectionReader(f, offset, size)
}

func TestACacheInAnotherFileTellsWhatOneOfItsOwnDoes(t *testing.T) {
	for name, cache := range map[string][]byte{"native": sample(t), "ExecuTorch's": executorchFile("a", "b")} {
		t.Run(name, func(t *testing.T) {
			direct := open(t, write(t, cache))
			for _, offset := range []int{0, 1, 65536} {
				path := between(t, cache, offset)
				packed := section(t, path, int64(offset), int64(len(cache)))
				f, err := cachefile.NewFile(packed, packed.Size())
				require.NoError(t, err)
				require.Equal(t, path, f.Path())
				require.Equal(t, entries(t, direct), entries(t, f))
				want, err := direct.Info()
				require.NoError(t, err)
				got, err := f.Info()
				require.NoError(t, err)
				require.Equal(t, want, got)
				segments, err := direct.Map()
				require.NoError(t, err)
				require.Equal(t, segments, requireMapCovers(t, f, len(cache)))
				for _, e := range entries(t, f) {
					require.NoError(t, f.Check(e))
				}
				differences, _, err := cachefile.Diff(direct, f)
				require.NoError(t, err)
				require.Empty(t, differences)
				problems, err := cachefile.VerifyReader(packed, packed.Size(), nil)
				require.NoError(t, err)
				require.Empty(t, problems)
			}
		})
	}
}

func TestACacheIsTakenOutOfAnotherFile(t *testing.T) {
	cache := sample(t)
	path := between(t, cache, 4096)
	packed := section(t, path, 4096, int64(len(cache)))
	f, err := cachefile.NewFile(packed, packed.Size())
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, copyTo(f, out, nil, cachefile.WriteOptions{}))
	requireSound(t, out)
	differences, _, err := cachefile.Diff(f, open(t, out))
	require.NoError(t, err)
	require.Empty(t, differences)
}

func TestDamageInAnotherFileIsToldFromWhereTheCacheBegins(t *testing.T) {
	cache := sample(t)
	damaged := bytes.Clone(cache)
	first := entries(t, open(t, write(t, cache)))[0]
	damaged[first.Offset] ^= 1
	want, err := cachefile.Verify(write(t, damaged), nil)
	require.NoError(t, err)
	require.Len(t, want, 1)
	require.Equal(t, first.Offset, want[0].Offset)
	path := between(t, damaged, 65536)
	packed := section(t, path, 65536, int64(len(cache)))
	problems, err := cachefile.VerifyReader(packed, packed.Size(), nil)
	require.NoError(t, err)
	want[0].Path = path
	require.Equal(t, want, problems)
	f, err := cachefile.NewFile(packed, packed.Size())
	require.NoError(t, err)
	require.ErrorIs(t, f.Check(entries(t, f)[0]), cachefile.ErrDamaged)
}

func TestSizesThatNoCacheHasAreErrors(t *testing.T) {
	cache := sample(t)
	path := between(t, cache, 4096)
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	info, err := file.Stat()
	require.NoError(t, err)
	size := int64(len(cache))
	for _, c := range []struct {
		offset, size int64
		want         error
	}{
		{0, size, cachefile.ErrNotCache},
		{4096, -1, cachefile.ErrNotCache},
		{4096, math.MinInt64, cachefile.ErrNotCache},
		{4096, size - 1, cachefile.ErrDamaged},
		{4096, info.Size() - 4095, cachefile.ErrDamaged},
		{4096, math.MaxInt64, cachefile.ErrDamaged},
		{math.MaxInt64 - size, size, cachefile.ErrDamaged},
	} {
		section := io.NewSectionReader(file, c.offset, math.MaxInt64-c.offset)
		_, err := cachefile.NewFile(section, c.size)
		require.ErrorIs(t, err, c.want, "%d bytes at %d", c.size, c.offset)
		require.ErrorContains(t, err, path)
		problems, err := cachefile.VerifyReader(section, c.size, nil)
		if c.want == cachefile.ErrDamaged {
			require.NoError(t, err)
			require.NotEmpty(t, problems)
			require.ErrorIs(t, &problems[0], cachefile.ErrDamaged, "%d bytes at %d", c.size, c.offset)
		} else {
			require.ErrorIs(t, err, c.want, "%d bytes at %d", c.size, c.offset)
		}
	}
}

func TestACacheInMemoryIsRead(t *testing.T) {
	cache := sample(t)
	f, err := cachefile.NewFile(bytes.NewReader(cache), int64(len(cache)))
	require.NoError(t, err)
	require.Empty(t, f.Path())
	require.Len(t, entries(t, f), len(weights))
	require.NoError(t, f.Close())
	require.Len(t, entries(t, f), len(weights), "Close is for what Open opened")
	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, copyTo(f, out, nil, cachefile.WriteOptions{}))
	differences, _, err := cachefile.Diff(f, open(t, out))
	require.NoError(t, err)
	require.Empty(t, differences)

	// What follows the size is none of it.
	longer := append(bytes.Clone(cache), "what follows"...)
	problems, err := cachefile.VerifyReader(bytes.NewReader(longer), int64(len(cache)), nil)
	require.NoError(t, err)
	require.Empty(t, problems)

	damaged := bytes.Clone(cache)
	damaged[16] ^= 1
	_, err = cachefile.NewFile(bytes.NewReader(damaged), int64(len(damaged)))
	require.ErrorIs(t, err, cachefile.ErrDamaged)
	require.Equal(t, "offset 0: the header's checksum is wrong", err.Error(), "there is no path to name")
	f, err = cachefile.NewFile(bytes.NewReader(nil), 0)
	require.NoError(t, err)
	require.Empty(t, entries(t, f), "as an empty file")
}

// A reader may fail, as a disk does.
func TestWhatAReaderFailsWithIsReturned(t *testing.T) {
	cache := sample(t)
	for _, offset := range []int64{0, format.HeaderSize, int64(len(cache)) - 1} {
		r := failing{bytes.NewReader(cache), offset}
		_, err := cachefile.VerifyReader(r, int64(len(cache)), nil)
		f, openErr := cachefile.NewFile(r, int64(len(cache)))
		if offset == format.HeaderSize { // in the first payload
			require.NoError(t, err)
			require.NoError(t, openErr)
			openErr = f.Check(entries(t, f)[0])
		} else {
			require.ErrorIs(t, err, syscall.EIO)
		}
		require.ErrorIs(t, openErr, syscall.EIO)
	}
}

// failing fails where one byte is concerned.
type failing struct {
	io.ReaderAt
	offset int64
}

func (f failing) ReadAt(b []byte, offset int64) (int, error) {
	if offset <= f.offset && f.offset < offset+int64(len(b)) {
		return 0, syscall.EIO
	}
	return f.ReaderAt.ReadAt(b, offset)
}

// readerFunc is an io.ReaderAt.
type readerFunc func(b []byte, offset int64) (int, error)

func (f readerFunc) ReadAt(b []byte, offset int64) (int, error) { return f(b, offset) }

func TestTheLastBytesOfAReaderMayComeWithTheEnd(t *testing.T) {
	for name, cache := range map[string][]byte{"native": sample(t), "ExecuTorch's": executorchFile("a", "b")} {
		t.Run(name, func(t *testing.T) {
			r := readerFunc(func(b []byte, offset int64) (int, error) {
				n := copy(b, cache[min(offset, int64(len(cache))):])
				if offset+int64(len(b)) >= int64(len(cache)) {
					return n, io.EOF
				}
				return n, nil
			})
			f, err := cachefile.NewFile(r, int64(len(cache)))
			require.NoError(t, err)
			for _, e := range entries(t, f) {
				require.NoError(t, f.Check(e))
			}
			problems, err := cachefile.VerifyReader(r, int64(len(cache)), nil)
			require.NoError(t, err)
			require.Empty(t, problems)
		})
	}
}

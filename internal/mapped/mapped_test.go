package mapped_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"xpwc/internal/mapped"
)

var page = os.Getpagesize()

// content is n bytes that are not zero and differ from page to page.
func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i%251 + 1)
	}
	return b
}

func write(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

func open(t *testing.T, path string) *mapped.File {
	t.Helper()
	f, err := mapped.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func TestTheWholeFileIsMapped(t *testing.T) {
	for _, c := range []struct{ size, pages int }{
		{0, 0}, {1, 1}, {page - 1, 1}, {page, 1}, {page + 1, 2}, {17*page + 5, 18},
	} {
		want := content(c.size)
		f := open(t, write(t, want))
		require.True(t, bytes.Equal(want, f.Data()), "%d bytes", c.size)
		require.NotNil(t, f.Data())
		require.EqualValues(t, c.pages*page, f.Readable())
		require.NoError(t, f.View(func(data []byte) error {
			require.Len(t, data, c.size)
			return nil
		}))
		require.ErrorIs(t, f.View(func([]byte) error { return os.ErrInvalid }), os.ErrInvalid)
	}
}

func TestDroppedMemoryIsReadFromTheFileAgain(t *testing.T) {
	n := 5*page + 100
	f := open(t, write(t, content(n)))
	data := f.Data()
	for _, start := range []int{0, 1, page - 1, page, page + 1, 3*page + 17, 5 * page, n - 1, n} {
		for _, end := range []int{0, 1, page, 2*page - 1, 2 * page, 2*page + 1, 5 * page, n - 1, n} {
			if start <= end {
				f.Drop(data[start:end])
				f.Drop(data[start:end:end])
				require.True(t, bytes.Equal(content(n), data), "%d to %d", start, end)
			}
		}
	}
	f.Drop(nil)
	empty := open(t, write(t, nil))
	empty.Drop(empty.Data())
	empty.Drop(data)
	require.True(t, bytes.Equal(content(n), data))
}

func TestMemoryThatIsNotOfTheMappingIsNotDropped(t *testing.T) {
	f := open(t, write(t, content(2*page)))
	foreign := content(8 * page)
	f.Drop(foreign)
	require.True(t, bytes.Equal(content(8*page), foreign))
}

func TestStampChangesWithTheFile(t *testing.T) {
	path := write(t, content(10))
	stamp := func(path string) string { // not mapped afterwards: Windows would not let it be written to
		f, err := mapped.Open(path)
		require.NoError(t, err)
		require.Equal(t, path, f.Path())
		changed, err := f.Changed() // which returns when another change would show
		require.NoError(t, err)
		require.False(t, changed)
		require.NoError(t, f.Close())
		f, err = mapped.Open(path)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.NotEmpty(t, f.Stamp())
		return f.Stamp()
	}
	old := stamp(path)
	require.Equal(t, old, stamp(path))

	time := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(path, time, time))
	touched := stamp(path)
	require.NotEqual(t, old, touched)

	// Another file of the same size and time.
	another := write(t, content(10))
	require.NoError(t, os.Chtimes(another, time, time))
	require.NotEqual(t, touched, stamp(another))

	require.NoError(t, os.WriteFile(path, content(11), 0o600))
	require.NoError(t, os.Chtimes(path, time, time))
	require.NotEqual(t, touched, stamp(path))
}

func TestPathIsAbsolute(t *testing.T) {
	path := write(t, content(1))
	t.Chdir(filepath.Dir(path))
	f := open(t, filepath.Base(path))
	require.True(t, filepath.IsAbs(f.Path()))
	got, err := os.ReadFile(f.Path())
	require.NoError(t, err)
	require.Equal(t, content(1), got)
}

func TestWhatCannotBeMappedIsAnErrorThatNamesIt(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]error{filepath.Join(dir, "absent"): fs.ErrNotExist, dir: nil} {
		_, err := mapped.Open(path)
		require.ErrorContains(t, err, path)
		if want != nil {
			require.ErrorIs(t, err, want)
		}
	}
}

func TestAClosedFileRefusesToBeUsed(t *testing.T) {
	for _, size := range []int{0, 3 * page} {
		f := open(t, write(t, content(size)))
		data := f.Data()
		require.NoError(t, f.Close())
		require.NoError(t, f.Close())
		require.Nil(t, f.Data())
		err := f.View(func([]byte) error {
			t.Error("the memory of a closed file is given out")
			return nil
		})
		require.ErrorIs(t, err, fs.ErrClosed)
		require.ErrorContains(t, err, f.Path())
		f.Drop(data)
		f.Drop(nil)
	}
}

func TestCloseWaitsForWhatReadsTheFile(t *testing.T) {
	f := open(t, write(t, content(64*page)))
	want := content(64 * page)
	var reading, done sync.WaitGroup
	for range 4 {
		reading.Add(1)
		done.Go(func() {
			first := true
			for {
				err := f.View(func(data []byte) error {
					assert.True(t, bytes.Equal(want, data))
					return nil
				})
				f.Drop(f.Data())
				if first {
					reading.Done()
					first = false
				}
				if err != nil {
					assert.ErrorIs(t, err, fs.ErrClosed)
					return
				}
			}
		})
	}
	reading.Wait()
	require.NoError(t, f.Close())
	done.Wait()
}

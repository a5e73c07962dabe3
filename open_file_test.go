package xpwc

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// handOver opens a file as a program does that hands it over.
func handOver(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func mustOpenFile(t *testing.T, f *os.File, o *Options) *Cache {
	t.Helper()
	c, err := OpenFile(f, o)
	require.NoError(t, err)
	require.NoError(t, f.Close(), "the caller may close it at once")
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// packedFile makes a cache file of tensors.
func packedFile(t *testing.T, tensors map[string][]byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	open(t, c, tensors).close(t)
	require.NoError(t, c.Close())
	return path
}

func TestAFileThatIsHandedOverServesWhatIsInIt(t *testing.T) {
	tensors := someTensors(3, 5000)
	for _, o := range []*Options{nil, {Strict: true, Prefetch: true, Verify: VerifyOnUse}} {
		path := packedFile(t, tensors)
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		f := handOver(t, path, os.O_RDONLY)
		if runtime.GOOS != "windows" {
			require.NoError(t, os.Remove(path), "nothing needs a path")
		}
		c := mustOpenFile(t, f, o)
		require.Equal(t, path, c.Path())
		open(t, c, tensors).close(t)
		require.EqualValues(t, 3, c.Stats().Hits.Entries)

		open(t, c, someTensors(5, 5000)).close(t)
		require.EqualValues(t, 2, c.Stats().Private[ReasonReadOnly].Entries, "it is open for reading alone")
		require.NoError(t, c.Save())
		require.NoError(t, c.Close())
		if runtime.GOOS == "windows" {
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, before, after)
		}
	}
}

// Its name may lead to another file, which somebody else opens.
func TestAFileThatIsHandedOverHasFiguresOfItsOwn(t *testing.T) {
	tensors := someTensors(3, 5000)
	path := packedFile(t, tensors)
	c := mustOpenFile(t, handOver(t, path, os.O_RDONLY), nil)
	open(t, c, tensors).close(t)
	again := mustOpenFile(t, handOver(t, path, os.O_RDONLY), nil)
	require.False(t, c.Shares(again))
	require.NoError(t, c.Close())
	other := mustOpen(t, path, nil)
	require.False(t, c.Shares(other))
	require.EqualValues(t, 3, c.Stats().Hits.Entries)
}

func TestAFileThatIsHandedOverForWritingIsPackedInto(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux opens a descriptor's file once more")
	}
	tensors := someTensors(3, 5000)
	dir := t.TempDir()
	path := filepath.Join(dir, "cache")
	f := handOver(t, path, os.O_RDWR|os.O_CREATE)
	kept, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer kept.Close()
	require.NoError(t, os.Rename(path, path+".elsewhere"), "nothing needs a path")
	c := mustOpenFile(t, f, nil)
	open(t, c, tensors).close(t)
	require.NoError(t, c.Save())
	require.EqualValues(t, 3, c.Stats().Packed.Entries)
	require.Empty(t, c.Stats().Private)
	require.ErrorIs(t, c.Compact(), os.ErrPermission)
	require.NoError(t, c.Close())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)

	for range 2 {
		c = mustOpenFile(t, handOver(t, path+".elsewhere", os.O_RDWR), &Options{Strict: true})
		open(t, c, tensors).close(t)
		require.EqualValues(t, 3, c.Stats().Hits.Entries)
		require.NoError(t, c.Close())
	}
	c = mustOpen(t, path+".elsewhere", &Options{Strict: true})
	open(t, c, tensors).close(t)
	require.EqualValues(t, 3, c.Stats().Hits.Entries)
}

func TestTwoCachesOfOneOpeningAreTwoWriters(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux opens a descriptor's file once more")
	}
	f := handOver(t, filepath.Join(t.TempDir(), "cache"), os.O_RDWR|os.O_CREATE)
	a, err := OpenFile(f, &Options{WriterWait: -1})
	require.NoError(t, err)
	defer a.Close()
	b := mustOpenFile(t, f, &Options{WriterWait: -1})

	slow := newSession(t, a, someTensors(1, 100))
	require.Equal(t, missing, lookUp(slow, 42, load(t, slow, "tensor 0"), 0))
	require.NotNil(t, reserve(slow, 1000), "a is the writer from here on")
	open(t, b, someTensors(2, 100)).close(t)
	require.EqualValues(t, 2, b.Stats().Private[ReasonBusy].Entries, "although they share one opening of the file")
	require.NoError(t, slow.Close())
}

// What is damaged, or another program's, would have to be replaced: only its directory could.
func TestAFileThatIsHandedOverIsNeverReplaced(t *testing.T) {
	for name, damage := range map[string]func([]byte){
		"damaged":          func(b []byte) { copy(b[8:], strings.Repeat("?", 60)) },
		"a newer version":  func(b []byte) { b[8] = 99 },
		"an older version": func(b []byte) { b[8] = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			path := packedFile(t, someTensors(2, 100))
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			damage(b)
			require.NoError(t, os.WriteFile(path, b, 0o600))
			c := mustOpenFile(t, handOver(t, path, os.O_RDWR), nil)
			open(t, c, someTensors(2, 100)).close(t)
			require.NotEmpty(t, c.Stats().Private)
			require.Zero(t, c.Stats().Packed.Entries)
			require.NoError(t, c.Close())
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, b, after)
			left, err := os.ReadDir(filepath.Dir(path))
			require.NoError(t, err)
			require.Len(t, left, 1)
		})
	}
}

func TestWhatIsHandedOverIsCheckedAsAPathIs(t *testing.T) {
	path := packedFile(t, someTensors(1, 100))
	dir, err := os.Open(filepath.Dir(path))
	require.NoError(t, err)
	defer dir.Close()
	_, err = OpenFile(dir, nil)
	require.ErrorIs(t, err, ErrNotCache)

	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("something that somebody wrote"), 0o600))
	_, err = OpenFile(handOver(t, text, os.O_RDONLY), nil)
	require.ErrorIs(t, err, ErrNotCache)

	closed := handOver(t, path, os.O_RDONLY)
	require.NoError(t, closed.Close())
	_, err = OpenFile(closed, nil)
	require.Error(t, err)
	_, err = OpenFile(nil, nil)
	require.ErrorIs(t, err, os.ErrInvalid)
	if runtime.GOOS == "windows" {
		return
	}
	require.NoError(t, os.Chmod(path, 0o666))
	_, err = OpenFile(handOver(t, path, os.O_RDONLY), nil)
	require.ErrorIs(t, err, ErrUnsafeFile)
	c := mustOpenFile(t, handOver(t, path, os.O_RDONLY), &Options{AllowUnsafeFile: true})
	open(t, c, someTensors(1, 100)).close(t)
	require.EqualValues(t, 1, c.Stats().Hits.Entries)
}

// Nothing can be put in the place of a file that is known by a descriptor alone. When a flush of it fails, what was
// committed serves on, and the file is written to again after a while.
func TestAFlushFailsOfAFileThatWasHandedOver(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system cannot open the file once more")
	}
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpenFile(t, handOver(t, path, os.O_RDWR|os.O_CREATE), &Options{WriterWait: -1})
	h := &hooks{}
	setFiles(c, hookedFiles{filesOf(c), h})
	before, m := someTensors(2, 3000), map[string][]byte{"new": contentOf("new", 5000)}
	open(t, c, before).close(t)
	require.NoError(t, c.Save())
	o := open(t, c, m)
	holdCommits(c)
	h.flush = func(string) error { return syscall.EIO }
	require.ErrorIs(t, c.Save(), syscall.EIO)
	h.flush = nil
	require.ErrorIs(t, o.Err(), ErrLost)
	require.NoError(t, o.Close())

	hits := c.Stats().Hits.Entries
	open(t, c, before).close(t)
	require.Equal(t, hits+2, c.Stats().Hits.Entries, "what was committed is there")
	writeAgain(c)
	open(t, c, m).close(t)
	require.NoError(t, c.Save())
	require.NoError(t, c.Close())
	after := mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
	open(t, after, before).close(t)
	open(t, after, m).close(t)
	require.Zero(t, after.Stats().Misses)
	require.Zero(t, after.Stats().DamagedPayloads)
}

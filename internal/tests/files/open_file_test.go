package files

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
)

// handOver opens a file as a program does that hands it over.
func handOver(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func mustOpenFile(t *testing.T, f *os.File, o *xpwc.Options) *xpwc.Cache {
	t.Helper()
	c, err := xpwc.OpenFile(f, o)
	require.NoError(t, err)
	require.NoError(t, f.Close(), "the caller may close it at once")
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// packedFile makes a cache file of tensors.
func packedFile(t *testing.T, tensors map[string][]byte) (path string) {
	t.Helper()
	path = harness.Path(t)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Close())
	return path
}

func TestAnOpenFileServesItsEntries(t *testing.T) {
	tensors := harness.Tensors(3, 5000)
	for _, o := range []*xpwc.Options{nil, {Strict: true, Prefetch: true, Verify: xpwc.VerifyOnUse}} {
		path := packedFile(t, tensors)
		original, err := os.ReadFile(path)
		require.NoError(t, err)
		f := handOver(t, path, os.O_RDONLY)
		if runtime.GOOS != "windows" {
			require.NoError(t, os.Remove(path), "nothing needs a path")
		}
		c := mustOpenFile(t, f, o)
		require.Equal(t, path, c.Path())
		harness.PackTensors(t, c, tensors).MustClose(t)
		require.EqualValues(t, 3, c.Stats().Hits.Entries)

		harness.PackTensors(t, c, harness.Tensors(5, 5000)).MustClose(t)
		require.EqualValues(t, 2, c.Stats().Private[xpwc.ReasonReadOnly].Entries, "it is open for reading alone")
		require.NoError(t, c.Save())
		require.NoError(t, c.Close())
		if runtime.GOOS == "windows" {
			rewritten, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, original, rewritten)
		}
	}
}

// Its name may lead to another file, which somebody else opens.
func TestAnOpenFileHasItsOwnStats(t *testing.T) {
	tensors := harness.Tensors(3, 5000)
	path := packedFile(t, tensors)
	c := mustOpenFile(t, handOver(t, path, os.O_RDONLY), nil)
	harness.PackTensors(t, c, tensors).MustClose(t)
	repeated := mustOpenFile(t, handOver(t, path, os.O_RDONLY), nil)
	require.False(t, c.Shares(repeated))
	require.NoError(t, c.Close())
	second := harness.Open(t, path, nil)
	require.False(t, c.Shares(second))
	require.EqualValues(t, 3, c.Stats().Hits.Entries)
}

func TestAnOpenWritableFileIsPackedInto(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux opens a descriptor's file once more")
	}
	tensors := harness.Tensors(3, 5000)
	dir := t.TempDir()
	path := filepath.Join(dir, "cache")
	f := handOver(t, path, os.O_RDWR|os.O_CREATE)
	retained, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer retained.Close()
	require.NoError(t, os.Rename(path, path+".elsewhere"), "nothing needs a path")
	c := mustOpenFile(t, f, nil)
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Save())
	require.EqualValues(t, 3, c.Stats().Packed.Entries)
	require.Empty(t, c.Stats().Private)
	require.ErrorIs(t, c.Compact(), os.ErrPermission)
	require.NoError(t, c.Close())
	remains, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, remains, 1)

	for range 2 {
		c = mustOpenFile(t, handOver(t, path+".elsewhere", os.O_RDWR), &xpwc.Options{Strict: true})
		harness.PackTensors(t, c, tensors).MustClose(t)
		require.EqualValues(t, 3, c.Stats().Hits.Entries)
		require.NoError(t, c.Close())
	}
	c = harness.Open(t, path+".elsewhere", &xpwc.Options{Strict: true})
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.EqualValues(t, 3, c.Stats().Hits.Entries)
}

func TestTwoCachesOfOneDescriptorAreTwoWriters(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux opens a descriptor's file once more")
	}
	f := handOver(t, harness.Path(t), os.O_RDWR|os.O_CREATE)
	a, err := xpwc.OpenFile(f, &xpwc.Options{WriterWait: -1})
	require.NoError(t, err)
	defer a.Close()
	b := mustOpenFile(t, f, &xpwc.Options{WriterWait: -1})

	slow := harness.NewSession(t, a, harness.Tensors(1, 100))
	require.Equal(t, harness.NotFound, harness.LookUp(slow, 42, harness.Load(t, slow, "tensor 0"), 0))
	require.NotNil(t, harness.Reserve(slow, 1000), "a is the writer from here on")
	harness.PackTensors(t, b, harness.Tensors(2, 100)).MustClose(t)
	require.EqualValues(t, 2, b.Stats().Private[xpwc.ReasonBusy].Entries, "although they share one opening of the file")
	require.NoError(t, slow.Close())
}

// What is damaged, or another program's, would have to be replaced: only its directory could.
func TestAnOpenFileIsNeverReplaced(t *testing.T) {
	for name, damage := range map[string]func([]byte){
		"damaged":          func(b []byte) { copy(b[8:], strings.Repeat("?", 60)) },
		"a newer version":  func(b []byte) { b[8] = 99 },
		"an older version": func(b []byte) { b[8] = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			path := packedFile(t, harness.Tensors(2, 100))
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			damage(b)
			require.NoError(t, os.WriteFile(path, b, 0o600))
			c := mustOpenFile(t, handOver(t, path, os.O_RDWR), nil)
			harness.PackTensors(t, c, harness.Tensors(2, 100)).MustClose(t)
			require.NotEmpty(t, c.Stats().Private)
			require.Zero(t, c.Stats().Packed.Entries)
			require.NoError(t, c.Close())
			rewritten, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, b, rewritten)
			remains, err := os.ReadDir(filepath.Dir(path))
			require.NoError(t, err)
			require.Len(t, remains, 1)
		})
	}
}

func TestAnOpenFileIsCheckedLikeAPath(t *testing.T) {
	path := packedFile(t, harness.Tensors(1, 100))
	dir, err := os.Open(filepath.Dir(path))
	require.NoError(t, err)
	defer dir.Close()
	_, err = xpwc.OpenFile(dir, nil)
	require.ErrorIs(t, err, xpwc.ErrNotCache)

	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("something that somebody wrote"), 0o600))
	_, err = xpwc.OpenFile(handOver(t, text, os.O_RDONLY), nil)
	require.ErrorIs(t, err, xpwc.ErrNotCache)

	closed := handOver(t, path, os.O_RDONLY)
	require.NoError(t, closed.Close())
	_, err = xpwc.OpenFile(closed, nil)
	require.Error(t, err)
	_, err = xpwc.OpenFile(nil, nil)
	require.ErrorIs(t, err, os.ErrInvalid)
	if runtime.GOOS == "windows" {
		return
	}
	require.NoError(t, os.Chmod(path, 0o666))
	_, err = xpwc.OpenFile(handOver(t, path, os.O_RDONLY), nil)
	require.ErrorIs(t, err, xpwc.ErrUnsafeFile)
	c := mustOpenFile(t, handOver(t, path, os.O_RDONLY), &xpwc.Options{AllowUnsafeFile: true})
	harness.PackTensors(t, c, harness.Tensors(1, 100)).MustClose(t)
	require.EqualValues(t, 1, c.Stats().Hits.Entries)
}

// Nothing can be put in the place of a file that is known by a descriptor alone. When a flush of it fails, what was
// committed serves on, and the file is written to again after a while.
func TestAFailingFlushOfAnOpenFileIsSurvived(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system cannot open the file once more")
	}
	path := harness.Path(t)
	c := mustOpenFile(t, handOver(t, path, os.O_RDWR|os.O_CREATE), &xpwc.Options{WriterWait: -1})
	h := &harness.Hooks{}
	harness.SetFiles(c, harness.HookedFiles{Files: harness.Files(c), Hooks: h})
	original, m := harness.Tensors(2, 3000), map[string][]byte{"new": harness.Content("new", 5000)}
	harness.PackTensors(t, c, original).MustClose(t)
	require.NoError(t, c.Save())
	o := harness.PackTensors(t, c, m)
	harness.HoldCommits(c)
	h.Flush = func(string) error { return syscall.EIO }
	require.ErrorIs(t, c.Save(), syscall.EIO)
	h.Flush = nil
	require.ErrorIs(t, o.Err(), xpwc.ErrLost)
	require.NoError(t, o.Close())

	hits := c.Stats().Hits.Entries
	harness.PackTensors(t, c, original).MustClose(t)
	require.Equal(t, hits+2, c.Stats().Hits.Entries, "what was committed is there")
	harness.WriteAgain(c)
	harness.PackTensors(t, c, m).MustClose(t)
	require.NoError(t, c.Save())
	require.NoError(t, c.Close())
	reopened := harness.Open(t, path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
	harness.PackTensors(t, reopened, original).MustClose(t)
	harness.PackTensors(t, reopened, m).MustClose(t)
	require.Zero(t, reopened.Stats().Misses)
	require.Zero(t, reopened.Stats().DamagedPayloads)
}

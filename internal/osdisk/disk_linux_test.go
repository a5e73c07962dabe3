package osdisk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/internal/store"
)

func diskIn(t *testing.T, dir string) *Disk {
	t.Helper()
	f, err := createFile(filepath.Join(dir, "cache"))
	require.NoError(t, err)
	d := &Disk{File: f, path: f.Name(), writable: true}
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// cachedPages counts the pages of a part of a file that are in the page cache, since Linux 6.5.
func cachedPages(f *os.File, offset, size uint64) (n uint64, err error) {
	var stat unix.Cachestat_t
	err = unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Off: offset, Len: size}, &stat, 0)
	return stat.Cache, err
}

func TestWhatIsPreparedIsInThePageCache(t *testing.T) {
	d := diskIn(t, t.TempDir())
	if !d.Prepares() {
		t.Skip("nothing is prepared here")
	}
	const size = 4 * store.PreparedAtOnce
	require.NoError(t, d.Allocate(0, size))
	require.NoError(t, d.Prepare(store.PreparedAtOnce, store.PreparedAtOnce))
	n, err := cachedPages(d.File, store.PreparedAtOnce, store.PreparedAtOnce)
	if err != nil {
		t.Skipf("what is in the page cache cannot be asked: %v", err)
	}
	require.EqualValues(t, store.PreparedAtOnce/os.Getpagesize(), n)
	n, err = cachedPages(d.File, 2*store.PreparedAtOnce, 2*store.PreparedAtOnce)
	require.NoError(t, err)
	require.Zero(t, n)
	content := make([]byte, size)
	_, err = d.ReadAt(content, 0)
	require.NoError(t, err)
	require.Equal(t, make([]byte, size), content)
}

func TestMemoryIsPreparedOnlyWhereThatIsKnownToPay(t *testing.T) {
	const shared = "/dev/shm"
	var fs unix.Statfs_t
	if unix.Statfs(shared, &fs) != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skip("there is no tmpfs")
	}
	dir, err := os.MkdirTemp(shared, "xpwc")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.False(t, diskIn(t, dir).Prepares())
}

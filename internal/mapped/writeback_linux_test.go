package mapped

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// writable makes a file and maps it, as a program does that changes it there and never calls write.
func writable(t *testing.T, path string) []byte {
	t.Helper()
	require.NoError(t, os.WriteFile(path, make([]byte, 2*os.Getpagesize()), 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	data, err := unix.Mmap(int(f.Fd()), 0, 2*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	t.Cleanup(func() { require.NoError(t, unix.Munmap(data)) })
	return data
}

// The system notes the time of a change through a mapping with the first one to a page, and not again until the page
// is written.
func TestWhatIsChangedAgainThroughAMappingShows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	data := writable(t, path)
	data[0] = 1
	f, err := Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	changed, err := f.Changed() // it waits until another change would show
	require.NoError(t, err)
	require.False(t, changed)
	before, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, before.Close())
	if before.Stamp() == "" {
		t.Skip("files have no stamps here")
	}
	data[0] = 2
	changed, err = f.Changed()
	require.NoError(t, err)
	require.True(t, changed)
	after, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, after.Close())
	require.NotEqual(t, before.Stamp(), after.Stamp())
}

// A tmpfs never notes them: its pages are never written.
func TestATmpfsHasNoStamps(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "xpwc-")
	if err != nil {
		t.Skip(err)
	}
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &fs))
	if fs.Type != unix.TMPFS_MAGIC {
		t.Skip("/dev/shm is no tmpfs here")
	}
	path := filepath.Join(dir, "file")
	data := writable(t, path)
	data[0] = 1
	earlier := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(path, earlier, earlier))
	f, err := Open(path)
	require.NoError(t, err)
	_, err = f.Changed() // it waits until the file could have a stamp
	require.NoError(t, err)
	require.NoError(t, f.Close())
	data[0] = 2
	f, err = Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	require.Empty(t, f.Stamp())
}

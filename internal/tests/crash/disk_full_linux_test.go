package crash

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/thindisk"
)

// mounted mounts a file system of its own for the test. It skips the test where this process may not mount, which
// leaves TestAFileSizeLimitIsSurvived to test the same.
func mounted(t *testing.T, kind string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "mounted")
	require.NoError(t, os.Mkdir(dir, 0o700))
	thindisk.MountTmpfs(t, dir, "1m")
	unmount := func() { require.NoError(t, unix.Unmount(dir, 0)) }
	if kind == "tmpfs" {
		t.Cleanup(unmount)
		return dir
	}
	unmount()
	thindisk.MountImage(t, dir+".image", dir, 8<<20, "loop", "-b", "1024", "-m", "0")
	t.Cleanup(unmount)
	return dir
}

// free returns how many bytes of a file system can still be used.
func free(t *testing.T, dir string) int64 {
	t.Helper()
	var s unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &s))
	return int64(s.Bavail) * s.Bsize
}

// fill leaves only so much of a file system free. The ballast is to be removed.
func fill(t *testing.T, dir string, leave int64) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	size := int64(0)
	for range 100 { // the file system needs some space itself, so that one try does not do
		switch extra := free(t, dir) - leave; {
		case extra == 0:
			return ballast
		case extra > 0:
			err := unix.Fallocate(int(f.Fd()), 0, size, extra)
			if !errors.Is(err, unix.ENOSPC) {
				require.NoError(t, err)
			}
			size += extra
		default:
			size += extra
			require.NoError(t, f.Truncate(size))
		}
	}
	require.Equal(t, leave, free(t, dir), "the file system cannot be filled to this point")
	return ballast
}

func TestAFullDiskIsSurvived(t *testing.T) {
	if path := os.Getenv(harness.EnvChild); path != "" {
		require.NoError(t, onFullDisk(path, os.Getenv(harness.EnvRound)))
		return
	}
	for kind, step := range map[string]int{"tmpfs": os.Getpagesize(), "ext4": 1024} {
		t.Run(kind, func(t *testing.T) {
			dir := mounted(t, kind)
			points := atEveryPoint(t, dir, step, func(path, work string, space int) outcome {
				ballast := fill(t, dir, int64(space))
				o := startOnFullDisk(t, "TestAFullDiskIsSurvived", path, work)
				require.NoError(t, os.Remove(ballast))
				return o
			})
			t.Logf("%d points", points)
		})
	}
}

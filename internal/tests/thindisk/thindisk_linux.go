package thindisk

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Mount returns the directory of an ext4 file system that pretends to have more space than the tmpfs has which it lies
// on, and a path on that tmpfs for FillUp. It skips the test where this process may not mount.
func Mount(t testing.TB) (dir, ballast string) {
	t.Helper()
	backing, dir := filepath.Join(t.TempDir(), "backing"), filepath.Join(t.TempDir(), "mounted")
	require.NoError(t, os.Mkdir(backing, 0o700))
	require.NoError(t, os.Mkdir(dir, 0o700))
	MountTmpfs(t, backing, "16m")
	t.Cleanup(func() { require.NoError(t, unix.Unmount(backing, unix.MNT_DETACH)) })
	MountImage(t, filepath.Join(backing, "image"), dir, 64<<20, "loop,errors=continue", "-m", "0", "-O", "^has_journal",
		"-E", "lazy_itable_init=0")
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir, filepath.Join(backing, "ballast")
}

// MountTmpfs mounts a tmpfs of a size on a directory. It skips the test where this process may not mount.
func MountTmpfs(t testing.TB, dir, size string) {
	t.Helper()
	err := unix.Mount("none", dir, "tmpfs", 0, "size="+size+",mode=0700")
	if errors.Is(err, unix.EPERM) {
		t.Skip("this process may not mount file systems")
	}
	require.NoError(t, err)
}

// MountImage makes an ext4 file system of so many bytes in a sparse file, with options of mkfs.ext4, and mounts it. It
// skips the test where this process may not.
func MountImage(t testing.TB, image, dir string, size int64, options string, mkfs ...string) {
	t.Helper()
	f, err := os.Create(image)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Close())
	command := func(name string, arguments ...string) {
		out, err := exec.Command(name, arguments...).CombinedOutput()
		if strings.Contains(string(out), "failed to setup loop device") {
			t.Skip("this process may not mount a file: " + string(out))
		}
		require.NoError(t, err, "%s: %s", name, out)
	}
	command("mkfs.ext4", append(append([]string{"-q"}, mkfs...), image)...)
	command("mount", "-o", options, image, dir)
}

// FillUp fills the storage below the disk: writes before a Sync stay, and later writes are lost.
func FillUp(t testing.TB, ballast string) {
	t.Helper()
	f, err := os.Create(ballast)
	require.NoError(t, err)
	zeros := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(zeros)
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, f.Close())
}

// Sync has the disk that a directory is on take all that was written to it, and no other disk.
func Sync(t testing.TB, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	require.NoError(t, err)
	require.NoError(t, unix.Syncfs(int(f.Fd())))
	require.NoError(t, f.Close())
}

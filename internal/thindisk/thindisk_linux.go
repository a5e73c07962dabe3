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
	err := unix.Mount("none", backing, "tmpfs", 0, "size=16m,mode=0700")
	if errors.Is(err, unix.EPERM) {
		t.Skip("this process may not mount file systems")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(backing, unix.MNT_DETACH)) })
	image := filepath.Join(backing, "image")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 64<<20))
	for _, command := range [][]string{
		{"mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=0", image},
		{"mount", "-o", "loop,errors=continue", image, dir},
	} {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if strings.Contains(string(out), "failed to setup loop device") {
			t.Skip("this process may not mount a file: " + string(out))
		}
		require.NoError(t, err, "%s: %s", command, out)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir, filepath.Join(backing, "ballast")
}

// FillUp leaves nothing of what the disk lies on: what it has taken before a Sync stays, and what is written from now
// on is lost.
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

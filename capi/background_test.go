//go:build linux && cgo

package main

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

// thinDisk returns the directory of an ext4 file system that pretends to have more space than the tmpfs has which it
// lies on, and a path on that tmpfs.
func thinDisk(t *testing.T) (dir, ballast string) {
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

func TestWhatGoesWrongInTheBackgroundIsLoggedWhenItHappens(t *testing.T) {
	t.Parallel()
	t.Run("packed weights are damaged", func(t *testing.T) {
		t.Parallel()
		eachWay(t, "background.c", func(t *testing.T, p program) { p.run(t, nil, "damaged", t.TempDir()) })
	})
	t.Run("the file is gone", func(t *testing.T) {
		t.Parallel()
		eachWay(t, "background.c", func(t *testing.T, p program) { p.run(t, nil, "replaced", t.TempDir()) })
	})
	t.Run("the disk fails", func(t *testing.T) {
		t.Parallel()
		eachWay(t, "background.c", func(t *testing.T, p program) {
			dir, ballast := thinDisk(t)
			p.run(t, nil, "disk", dir, ballast)
		})
	})
}

func TestAForkedChildIsRightAfterItsParentsCommitHasFailed(t *testing.T) {
	t.Parallel()
	eachWay(t, "ended.c", func(t *testing.T, p program) {
		dir, ballast := thinDisk(t)
		p.run(t, nil, dir, ballast)
	})
}

//go:build unix

package workdir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockKeepsName: on Unix, a directory can be renamed while a file in it is open.
const lockKeepsName = false

// tryLock takes a file's lock unless another process has it; the error matches errors.ErrUnsupported where there are
// no locks.
func tryLock(f *os.File) (bool, error) {
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	case errors.Is(err, unix.ENOLCK):
		return false, errors.ErrUnsupported
	default:
		return err == nil, err
	}
}

// openMarker opens a file, and neither what a link leads to nor a pipe's other end.
func openMarker(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// rename is Rename. The directory is opened first, so that nothing can fail between the two but the disk.
func rename(from, to, dir string) error {
	names, err := os.Open(dir)
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if names == nil {
		return os.Rename(from, to)
	}
	defer names.Close()
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := names.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// ours reports whether a directory belongs to this user.
func ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

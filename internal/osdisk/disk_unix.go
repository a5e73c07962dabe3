//go:build unix

package osdisk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"xpwc/internal/fd"
)

// ErrReadOnlyFileSystem makes a cache read-only, as a lack of permission does.
const ErrReadOnlyFileSystem = unix.EROFS

// openFlags keep a terminal or a FIFO from being opened by mistake, where that would wait for its other end.
const openFlags = unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY

// openFile opens an existing file. A final symbolic link is an error unless insecure is set.
func openFile(path string, writable, insecure bool) (*os.File, error) {
	flag := os.O_RDONLY
	if writable {
		flag = os.O_RDWR
	}
	if !insecure {
		flag |= unix.O_NOFOLLOW
	}
	return openAt(path, flag|openFlags, 0)
}

func createFile(path string) (*os.File, error) {
	return openAt(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
}

// restore and removeReplaced are for Windows, where a file may have to step aside for its successor.
func restore(string) bool   { return false }
func removeReplaced(string) {}

func (d *Disk) Replaced() (bool, error) {
	var mine, named unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &mine); err != nil {
		return false, err
	}
	err := inDirectory("stat", d.path, func(dir int, name string) error { return unix.Fstatat(dir, name, &named, 0) })
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return mine.Dev != named.Dev || mine.Ino != named.Ino, nil
}

// flushDir returns when the names in a path's directory are on the disk.
func flushDir(path string) error {
	return inDirectory("flush the directory of", path, func(dir int, _ string) error {
		name := "."
		if dir == unix.AT_FDCWD {
			name = filepath.Dir(path)
		}
		f, err := fd.OpenAt(dir, name, path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// TryLock takes an advisory lock.
func (d *Disk) TryLock() (bool, error) {
	switch err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	default:
		return false, fmt.Errorf("lock %s: %w", d.path, err)
	}
}

func (d *Disk) Unlock() error { return unix.Flock(int(d.Fd()), unix.LOCK_UN) }

// withinFileSizeLimit returns EFBIG for a file that would grow beyond the process' limit: the system would also send
// SIGXFSZ, which ends the process.
func withinFileSizeLimit(size int64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if uint64(size) > uint64(limit.Cur) {
		return fmt.Errorf("file size limit of %d bytes: %w", limit.Cur, unix.EFBIG)
	}
	return nil
}

//go:build unix

package emulator

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// hold opens a directory and takes its lock, until the file is closed or the process ends. It returns nil on a file
// system without locks. The error matches errHeld or fs.ErrNotExist if another process has it or has removed it.
func hold(path string) (*os.File, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	switch err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, errors.Join(fmt.Errorf("%s: %w", path, errHeld), dir.Close())
	case err != nil:
		return nil, dir.Close()
	}
	// The process that removed it may have had the lock first.
	if _, err := os.Lstat(path); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// ownDirectory reports whether a path is a directory of this user.
func ownDirectory(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

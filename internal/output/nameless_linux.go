package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"xpwc/internal/fd"
)

// searching opens a directory only to look names up in it.
const searching = unix.O_PATH

// createNameless makes a file that has no name. It fails where the file system has no such files, or the system nothing
// to link them by, as without /proc.
func (d *directory) createNameless(path string) (*os.File, error) {
	f, err := fd.OpenAt(d.fd(), ".", path, unix.O_RDWR|unix.O_TMPFILE, 0o644)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(linkOf(f)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// linkOf is what the system calls an open file.
func linkOf(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

func (d *directory) link(f *os.File, name string) error {
	return unix.Linkat(unix.AT_FDCWD, linkOf(f), d.fd(), name, unix.AT_SYMLINK_FOLLOW)
}

// lock takes the lock of a file that keeps removeAbandoned of other processes away from it. If another descriptor has
// that lock, it does the same.
func lock(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

func unlock(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// removeAbandoned removes the complete files of this user whose writers were killed before they had renamed them. It
// removes what it can: an abandoned file takes space, and no reader opens it.
func (d *directory) removeAbandoned() {
	if !d.listed {
		return
	}
	if _, err := d.Seek(0, io.SeekStart); err != nil {
		return
	}
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if isCompleteName(name) && d.abandoned(name) {
			_ = d.remove(name)
		}
	}
}

// isCompleteName reports whether a name is one that randomName gives a complete file.
func isCompleteName(name string) bool {
	random, complete := strings.CutPrefix(name, completePrefix)
	return complete && len(random) >= 26 && strings.Trim(random, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// abandoned reports whether a file is this user's and no writer holds its lock.
func (d *directory) abandoned(name string) bool {
	f, err := d.read(name, name)
	if err != nil {
		return false
	}
	defer f.Close()
	var info unix.Stat_t
	return unix.Fstat(int(f.Fd()), &info) == nil && info.Mode&unix.S_IFMT == unix.S_IFREG &&
		int(info.Uid) == os.Geteuid() && unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

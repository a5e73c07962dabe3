package output

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"xpwc/internal/fd"
)

// searching opens a directory only to look names up in it.
const searching = unix.O_PATH

// createNameless makes a file that has no name. It fails where the file system has no such files, or the system nothing
// to link them by, as without /proc.
func (d *directory) createNameless(as string) (*os.File, error) {
	f, err := fd.OpenAt(d.fd(), ".", as, unix.O_RDWR|unix.O_TMPFILE, 0o644)
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

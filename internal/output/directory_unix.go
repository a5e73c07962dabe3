//go:build unix

package output

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"xpwc/internal/fd"
)

// A directory is an open one: names are looked up in it alone.
type directory struct {
	*os.File
	listed bool // it is open for reading, without which it cannot be flushed
}

// openDirectory also opens a directory that this process may not list, as a drop box.
func openDirectory(path string) (*directory, error) {
	f, err := fd.OpenAt(unix.AT_FDCWD, path, path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, os.ErrPermission) && searching != 0 {
		f, err = fd.OpenAt(unix.AT_FDCWD, path, path, searching|unix.O_DIRECTORY, 0)
		return &directory{f, false}, err
	}
	return &directory{f, true}, err
}

func (d *directory) fd() int { return int(d.Fd()) }

func (d *directory) create(name, path string) (*os.File, error) {
	return fd.OpenAt(d.fd(), name, path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o644)
}

func (d *directory) open(name, path string) (*os.File, error) {
	return fd.OpenAt(d.fd(), name, path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

func (d *directory) read(name, path string) (*os.File, error) {
	return fd.OpenAt(d.fd(), name, path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

func (d *directory) rename(_ *os.File, oldName, newName string) error {
	return unix.Renameat(d.fd(), oldName, d.fd(), newName)
}

func (d *directory) remove(name string) error { return unix.Unlinkat(d.fd(), name, 0) }

// flush returns when the names in the directory are on the disk, or are written by the system itself.
func (d *directory) flush() error {
	if !d.listed {
		return nil
	}
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

func (d *directory) close() error { return d.Close() }

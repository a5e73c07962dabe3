//go:build unix

package fd

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens a file, or creates it with these permissions if the flags say so, for reading and writing without the
// poller: that is for regular files and directories. Programs that the process starts do not inherit it. The error is
// a *fs.PathError.
func Open(path string, flags int, permissions fs.FileMode) (*os.File, error) {
	for {
		descriptor, err := unix.Open(path, flags|unix.O_CLOEXEC, uint32(permissions.Perm()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && flags&unix.O_NONBLOCK != 0 { // by which os.NewFile knows what is for the poller
			if err = unix.SetNonblock(descriptor, false); err != nil {
				_ = unix.Close(descriptor)
			}
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return os.NewFile(uintptr(descriptor), path), nil
	}
}

// descriptorsLeft returns an error unless there are as many descriptors as the poller takes.
func descriptorsLeft() error {
	for range needed { // all at once
		descriptor, err := unix.Open("/", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			return err
		}
		if err == nil { // what else is wrong with that directory does not matter
			defer unix.Close(descriptor)
		}
	}
	return nil
}

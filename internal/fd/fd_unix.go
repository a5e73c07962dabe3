//go:build unix

package fd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens a regular file or directory for reading and writing without the poller. With O_CREATE in flags it creates
// a file with these permissions. Child processes do not inherit it. The error is a *fs.PathError.
func Open(path string, flags int, permissions fs.FileMode) (*os.File, error) {
	f, err := OpenAt(unix.AT_FDCWD, path, path, flags, permissions)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return f, nil
}

// OpenAt is Open for a name in an open directory. The file is named path, and the error is the system's.
func OpenAt(dir int, name, path string, flags int, permissions fs.FileMode) (*os.File, error) {
	for {
		descriptor, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, uint32(permissions.Perm()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case flags&unix.O_NONBLOCK != 0: // by which os.NewFile knows what is for the poller
			_ = unix.SetNonblock(descriptor, false)
		}
		return os.NewFile(uintptr(descriptor), path), nil
	}
}

// openToRead does not wait for the writer of a pipe.
func openToRead(path string) (*os.File, error) {
	return Open(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

// needed is how many descriptors the poller takes at most: the queue's, and two that wake it.
const needed = 3

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

// Duplicate returns another descriptor of the same opening of a file: position and locks are shared. Programs that the
// process starts do not inherit it.
func Duplicate(f *os.File) (*os.File, error) {
	var descriptor int
	err := control(f, func(number int) (err error) {
		descriptor, err = unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "duplicate", Path: f.Name(), Err: err}
	}
	return os.NewFile(uintptr(descriptor), f.Name()), nil
}

// Reopen opens a file that is open for reading and writing once more, with locks of its own. The error matches
// fs.ErrPermission if it is not open for both, or if the system has no way, as Linux without /proc.
func Reopen(f *os.File) (*os.File, error) {
	var reopened *os.File
	err := control(f, func(number int) error {
		flags, err := unix.FcntlInt(uintptr(number), unix.F_GETFL, 0)
		if err == nil && flags&unix.O_ACCMODE != unix.O_RDWR {
			err = fs.ErrPermission
		}
		if err == nil {
			reopened, err = reopen(number, f)
		}
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "reopen", Path: f.Name(), Err: err}
	}
	return reopened, nil
}

// reopen opens a descriptor's file by the name that the system has for the descriptor.
func reopen(number int, f *os.File) (*os.File, error) {
	name := fmt.Sprintf("/proc/self/fd/%d", number)
	descriptor, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (%w)", name, fs.ErrPermission, err)
	}
	reopened := os.NewFile(uintptr(descriptor), f.Name())
	mine, err := f.Stat()
	if err == nil {
		var theirs fs.FileInfo
		if theirs, err = reopened.Stat(); err == nil && !os.SameFile(mine, theirs) {
			err = fmt.Errorf("%s is another file: %w", name, fs.ErrPermission)
		}
	}
	if err != nil {
		_ = reopened.Close()
		return nil, err
	}
	return reopened, nil
}

// control calls a function with a file's descriptor, which stays open meanwhile and as blocking as it was.
func control(f *os.File, do func(number int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := c.Control(func(number uintptr) { failed = do(int(number)) }); err != nil {
		return err
	}
	return failed
}

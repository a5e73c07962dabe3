//go:build unix

package osdisk

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"xpwc/internal/fd"
)

// held are the directories of this process that names are looked up in by descriptor, by their paths.
var held = struct {
	sync.Mutex
	directories map[string]*heldDirectory
}{directories: map[string]*heldDirectory{}}

type heldDirectory struct {
	*os.File
	path  string
	users int // who has it held, and who looks a name up in it now
}

// Hold implements [store.Holder]. Where files may be anybody's, so may directories.
func (o Files) Hold(path string) (release func(), err error) {
	if o.Insecure {
		return func() {}, nil
	}
	dir := filepath.Dir(path)
	f, err := fd.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	d := heldAt(dir, f)
	if d.File != f { // it is held already
		_ = f.Close()
	}
	return d.release, nil
}

// heldAt returns the directory that is held at a path, for one user more: what was opened if there is none.
func heldAt(path string, opened *os.File) *heldDirectory {
	held.Lock()
	defer held.Unlock()
	d := held.directories[path]
	if d == nil && opened != nil {
		d = &heldDirectory{File: opened, path: path}
		held.directories[path] = d
	}
	if d != nil {
		d.users++
	}
	return d
}

func (d *heldDirectory) release() {
	if d.leave() {
		_ = d.Close()
	}
}

// leave takes a user away, and reports whether it was the last one.
func (d *heldDirectory) leave() (last bool) {
	held.Lock()
	defer held.Unlock()
	if d.users--; d.users > 0 {
		return false
	}
	delete(held.directories, d.path)
	return true
}

// inDirectory calls do with a path's name in its directory, if that is held, and with the path itself otherwise. Its
// error names the path.
func inDirectory(operation, path string, do func(dir int, name string) error) error {
	dir, name := unix.AT_FDCWD, path
	if d := heldAt(filepath.Dir(path), nil); d != nil {
		defer d.release()
		dir, name = int(d.Fd()), filepath.Base(path)
	}
	for {
		switch err := do(dir, name); err {
		case nil:
			return nil
		case unix.EINTR:
		default:
			return &fs.PathError{Op: operation, Path: path, Err: err}
		}
	}
}

// openAt opens a file as [fd.Open] does.
func openAt(path string, flags int, permissions fs.FileMode) (f *os.File, err error) {
	err = inDirectory("open", path, func(dir int, name string) (err error) {
		f, err = fd.OpenAt(dir, name, path, flags, permissions)
		return err
	})
	return f, err
}

func rename(oldPath, newPath string) error { // of one directory
	return inDirectory("rename", oldPath, func(dir int, name string) error {
		if dir == unix.AT_FDCWD {
			return unix.Rename(oldPath, newPath)
		}
		return unix.Renameat(dir, name, dir, filepath.Base(newPath))
	})
}

func remove(path string) error {
	return inDirectory("remove", path, func(dir int, name string) error { return unix.Unlinkat(dir, name, 0) })
}

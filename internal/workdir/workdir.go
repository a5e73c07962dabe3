// Package workdir writes files beside the place where they are to appear, and renames them: a reader of the path has
// the old file or the new one whole, whenever the process or the machine stops. A hidden directory of the process'
// own has them until then. Directories that killed processes have left are removed.
//
//	dir, err := workdir.New(filepath.Dir(path))
//	defer dir.Remove()
//	f, err := dir.Create("new")
//	// write to f
//	err = workdir.Place(f, path)
//
// Such a directory is called .xpwc- and a number, and has a file in it, in-use, that says what it is. Who prepares
// something there holds the file's lock. So a directory of that name, with that file, that nobody has locked is one
// that a killed process has left; anything else is left alone.
package workdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

const (
	prefix = ".xpwc-"
	marker = "in-use"
	text   = "A process prepares a file of packed weights here. When none does, xpwc removes this directory.\n"
)

// A Dir is a directory of this process' own.
type Dir struct {
	path string
	lock *os.File

	mu      sync.Mutex
	removed bool
}

// New makes a directory in another one, after removing what killed processes have left there. The caller removes it.
func New(parent string) (*Dir, error) {
	Sweep(parent)
	const attempts = 100 // a sweep of another process may get hold of a directory before this process has locked it
	for range attempts {
		path, err := os.MkdirTemp(parent, prefix+"*")
		if at := (*fs.PathError)(nil); errors.As(err, &at) { // which names a directory that nobody has asked for
			err = &fs.PathError{Op: "make a file in", Path: parent, Err: at.Err}
		}
		if err != nil {
			return nil, err
		}
		d, err := claim(path)
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
		if d != nil {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%s: other processes remove every directory that is made here", parent)
}

// claim locks a directory that was just made. It returns nil if it is gone.
func claim(path string) (*Dir, error) {
	f, err := os.OpenFile(filepath.Join(path, marker), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	got, err := tryLock(f)
	if errors.Is(err, errors.ErrUnsupported) { // then nobody can sweep here
		got, err = true, nil
	}
	if err == nil && got {
		if got = leadsTo(f.Name(), f); got {
			_, err = f.WriteString(text)
		}
	}
	if err != nil || !got {
		return nil, errors.Join(err, f.Close())
	}
	return &Dir{path: path, lock: f}, nil
}

// leadsTo reports whether a path leads to an open file.
func leadsTo(path string, f *os.File) bool {
	there, err := os.Lstat(path)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(info, there)
}

// File returns the path of a file in the directory.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// Lock is the open file that keeps others from removing the directory. A process that is started with it keeps them
// from that too, for as long as it runs.
func (d *Dir) Lock() *os.File { return d.lock }

// Remove removes the directory with all that is in it, even if somebody still writes to it.
// Removing it twice is harmless.
func (d *Dir) Remove() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removed {
		return nil
	}
	d.removed = true
	return remove(d.path, d.lock)
}

// remove takes away a directory whose lock the caller holds, and closes the lock. It gets another name first, under
// which nobody adds to it; the lock goes last, so that what is left if this process is killed can still be recognised.
func remove(path string, lock *os.File) error {
	if lockKeepsName {
		_ = lock.Close()
	} else {
		defer lock.Close()
	}
	doomed := path + "0"
	if err := os.Rename(path, doomed); err != nil {
		return err
	}
	entries, err := os.ReadDir(doomed)
	errs := []error{err}
	for _, e := range entries {
		if e.Name() != marker {
			errs = append(errs, os.RemoveAll(filepath.Join(doomed, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(doomed, marker))
	if os.Remove(doomed) == nil { // RemoveAll would read the parent, which need not be allowed
		return nil
	}
	return os.RemoveAll(doomed)
}

// Sweep removes the directories that killed processes have left in a directory. What cannot be removed stays: it is
// in nobody's way.
func Sweep(parent string) {
	f, err := os.Open(parent)
	if err != nil {
		return
	}
	names, _ := f.Readdirnames(-1)
	_ = f.Close()
	for _, name := range names {
		number, ok := strings.CutPrefix(name, prefix)
		if ok && number != "" && strings.Trim(number, "0123456789") == "" {
			sweep(filepath.Join(parent, name))
		}
	}
}

func sweep(path string) {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || !ours(info) {
		return
	}
	f, err := openMarker(filepath.Join(path, marker))
	if errors.Is(err, fs.ErrNotExist) {
		// If it is empty: its process was killed before it made the marker, or makes another directory.
		_ = os.Remove(path)
		return
	}
	if err != nil {
		return
	}
	if !isMarker(f) {
		_ = f.Close()
		return
	}
	if got, err := tryLock(f); err != nil || !got || !leadsTo(filepath.Join(path, marker), f) {
		_ = f.Close()
		return
	}
	_ = remove(path, f)
}

// isMarker reports whether a file is what New writes, or what it has not written yet.
func isMarker(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > int64(len(text)) {
		return false
	}
	content, err := io.ReadAll(f)
	return err == nil && strings.HasPrefix(text, string(content))
}

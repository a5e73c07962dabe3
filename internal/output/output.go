// Package output writes a new file that appears at its path complete. Until then it has no name where the system has
// such files (Linux's O_TMPFILE), else a random one in the same directory. A reader of the path gets the old file or
// the new one, whenever the process or the machine stops.
//
//	f, err := output.New(path)
//	defer f.Discard()
//	// write to f
//	err = f.Publish(0o600)
//
// The directory is opened once, and everything is done in it, whatever its path leads to later. Nothing else is made,
// so there is nothing to follow a link to. A file without a name goes with its process. Only to replace another file it
// has a name for the moment between two system calls: a process that is killed there leaves it, and the next one that
// replaces a file in the directory removes it. A killed process leaves a file that had a name from the beginning.
package output

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// prefix begins the name of a file that is not at its path yet.
	prefix = ".xpwc-"
	// completePrefix begins the name of a complete file that replaces another. Its writer holds a lock on it.
	completePrefix = prefix + "complete-"
)

// A File is a new file, open to be written and read. Its Name is the path that it is for, so errors name that. It need
// not be published: then it is a file to work with, that leaves nothing.
type File struct {
	*os.File
	path  string
	dir   *directory
	named string      // its name in the directory, or ""
	usual fs.FileMode // what the user's umask leaves of 0644
}

// New makes an empty file for a path, for its owner only, in the path's directory. The caller discards it, also after
// it was published. The error matches fs.ErrNotExist without such a directory, and names that.
func New(path string) (*File, error) { return newFile(path, true) }

// newFile is New, or makes a file with a name.
func newFile(path string, nameless bool) (*File, error) {
	dir, err := openDirectory(filepath.Dir(path))
	if err != nil {
		return nil, unmade(path, err)
	}
	f := &File{path: path, dir: dir}
	if nameless && f.create("") == nil {
		return f, nil
	}
	if err := f.create(randomName(prefix)); err != nil {
		return nil, errors.Join(unmade(path, err), dir.close())
	}
	return f, nil
}

// create makes the file with a name, or without one where the system knows all that is needed of such files.
func (f *File) create(name string) (err error) {
	if name == "" {
		f.File, err = f.dir.createNameless(f.path)
	} else {
		f.File, err = f.dir.create(name, f.path)
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		f.usual = info.Mode().Perm()
		err = f.Chmod(0o600)
	}
	if err != nil {
		_ = f.Close()
		if name != "" {
			_ = f.dir.remove(name)
		}
		return err
	}
	f.named = name
	return nil
}

func randomName(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// unmade is the error of a file that cannot be made. It names the directory, which the user gave.
func unmade(path string, err error) error {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return &fs.PathError{Op: "make a file in", Path: filepath.Dir(path), Err: err}
}

// Usual returns the mode that the user's umask gives files that others may read.
func (f *File) Usual() fs.FileMode { return f.usual }

// Directory describes the directory that the file is made in.
func (f *File) Directory() (fs.FileInfo, error) { return f.dir.Stat() }

// Existing opens the file at the path in the directory that the file is made in, for reading. The error matches
// fs.ErrNotExist if there is none. A link is not followed. The caller closes it.
func (f *File) Existing() (*os.File, error) {
	opened, err := f.dir.read(filepath.Base(f.path), f.path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: f.path, Err: err}
	}
	return opened, nil
}

// Path returns the name that leads to the file until it is published: "" if it has none.
func (f *File) Path() string {
	if f.named == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(f.path), f.named)
}

// Reopen replaces the open file by the one that the name now leads to. A program that got the name may have put
// another file there.
func (f *File) Reopen() error {
	reopened, err := f.dir.open(f.named, f.Name())
	if err != nil {
		return &fs.PathError{Op: "open", Path: f.path, Err: err}
	}
	_ = f.Close()
	f.File = reopened
	return nil
}

// Publish sets the file's mode, flushes the file, and puts it at its path. It replaces an existing file as a whole:
// processes that have that open or mapped keep it. On Windows it cannot be replaced while a process has it open. When
// Publish returns nil the path is on the disk too, as far as the system reports it. If it fails, the path still has
// the old file, unless the flush of the directory failed.
func (f *File) Publish(mode fs.FileMode) error {
	if err := errors.Join(f.Chmod(mode), f.Sync()); err != nil {
		return err
	}
	if f.named != "" || f.dir.link(f.File, filepath.Base(f.path)) != nil {
		if err := f.replace(mode); err != nil {
			return err
		}
	}
	return f.flushDirectory()
}

func (f *File) flushDirectory() error {
	if err := f.dir.flush(); err != nil {
		return &fs.PathError{Op: "flush the directory of", Path: f.path, Err: err}
	}
	return nil
}

// PublishLink makes the path another name of a file that is open, in place of the new file. It replaces an existing
// file as a whole. The error matches [errors.ErrUnsupported] where the system gives an open file no name: nothing has
// changed then.
func (f *File) PublishLink(source *os.File) error {
	f.dir.removeAbandoned()
	name := randomName(completePrefix)
	if err := f.dir.link(source, name); err != nil {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	if err := f.dir.rename(source, name, filepath.Base(f.path)); err != nil {
		return errors.Join(&fs.PathError{Op: "rename", Path: f.path, Err: err}, f.dir.remove(name))
	}
	return f.flushDirectory()
}

// replace renames the file over the one at its path.
func (f *File) replace(mode fs.FileMode) error {
	if f.named == "" {
		f.dir.removeAbandoned()
		if err := f.giveName(mode); err != nil {
			return err
		}
	}
	if err := f.dir.rename(f.File, f.named, filepath.Base(f.path)); err != nil {
		return &fs.PathError{Op: "rename", Path: f.path, Err: err}
	}
	f.named = ""
	unlock(f.File)
	return nil
}

// giveName gives the file a name, or makes a copy that has one where the system refuses that.
func (f *File) giveName(mode fs.FileMode) error {
	lock(f.File)
	name := randomName(completePrefix)
	if f.dir.link(f.File, name) == nil {
		f.named = name
		return nil
	}
	name = randomName(prefix)
	nameless := f.File
	if err := f.create(name); err != nil {
		f.File = nameless
		return unmade(f.path, err)
	}
	defer nameless.Close()
	if _, err := nameless.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(f.File, nameless); err != nil {
		return err
	}
	return errors.Join(f.Chmod(mode), f.Sync())
}

// Discard closes the file, and removes it unless it was published. A name that cannot be removed stays: it is in
// nobody's way. Discarding twice is harmless.
func (f *File) Discard() {
	_ = f.Close()
	if f.named != "" {
		_ = f.dir.remove(f.named)
		f.named = ""
	}
	_ = f.dir.close()
}

// Write has a file for its owner written, and publishes it. Where it fails, what was at the path is still there.
func Write(path string, write func(*os.File) error) error {
	f, err := New(path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := write(f.File); err != nil {
		return err
	}
	return f.Publish(0o600)
}

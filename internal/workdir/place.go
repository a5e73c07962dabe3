package workdir

import (
	"errors"
	"os"
	"path/filepath"
)

// Create makes a file in the directory, for its owner only, to be written and read. The name must be a new one.
func (d *Dir) Create(name string) (*os.File, error) {
	return os.OpenFile(d.File(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// Place flushes and closes a file of the directory and gives it the path, as Rename does. Where it fails before that,
// what was at the path is still there.
func Place(f *os.File, path string) error {
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return Rename(f.Name(), path)
}

// Write has a file written, in a directory beside path, and places it there. Where it fails, what was at path is still
// there, and nothing is beside it.
func Write(path string, write func(*os.File) error) error {
	dir, err := New(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Remove()
	f, err := dir.Create(filepath.Base(path))
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		return errors.Join(err, f.Close())
	}
	return Place(f, path)
}

// Rename gives a file of the directory, whose content is on stable storage, a path beside the directory. What was
// there is replaced whole: whoever has it open or mapped keeps it, but on Windows, where it cannot be replaced as
// long as somebody has. When it returns nil the name is on stable storage too, as far as the system can say: a
// directory that this process may not read, or whose file system has no such call, is flushed when the system does it
// by itself.
func Rename(from, to string) error { return rename(from, to, filepath.Dir(to)) }

package output

import (
	"io/fs"
	"os"
	"path/filepath"
)

// A directory is known by its path on Windows.
type directory struct{ path string }

func openDirectory(path string) (*directory, error) { return &directory{path}, nil }

func (d *directory) Stat() (fs.FileInfo, error) { return os.Stat(d.path) }

func (d *directory) create(name, _ string) (*os.File, error) {
	return os.OpenFile(filepath.Join(d.path, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

func (d *directory) open(name, _ string) (*os.File, error) {
	return os.OpenFile(filepath.Join(d.path, name), os.O_RDWR, 0)
}

func (d *directory) read(name, _ string) (*os.File, error) {
	return os.Open(filepath.Join(d.path, name))
}

// rename closes the file, which keeps its name as long as it is open.
func (d *directory) rename(file *os.File, oldName, newName string) error {
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(filepath.Join(d.path, oldName), filepath.Join(d.path, newName))
}

func (d *directory) remove(name string) error { return os.Remove(filepath.Join(d.path, name)) }
func (d *directory) flush() error             { return nil }
func (d *directory) close() error             { return nil }

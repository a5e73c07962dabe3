package output

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
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

// rename closes the file, which keeps its name as long as it is open. What it writes through is on the disk when it
// returns.
func (d *directory) rename(file *os.File, from, to string) error {
	if err := file.Close(); err != nil {
		return err
	}
	f, err := windows.UTF16PtrFromString(filepath.Join(d.path, from))
	if err != nil {
		return err
	}
	t, err := windows.UTF16PtrFromString(filepath.Join(d.path, to))
	if err != nil {
		return err
	}
	return windows.MoveFileEx(f, t, windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH)
}

func (d *directory) remove(name string) error { return os.Remove(filepath.Join(d.path, name)) }
func (d *directory) flush() error             { return nil }
func (d *directory) close() error             { return nil }

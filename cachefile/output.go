package cachefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"xpwc/internal/trust"
)

// CheckOutput returns the error with which Write would refuse to write at the path, if it would.
func (f *File) CheckOutput(path string) error {
	_, err := f.outputAt(path)
	return err
}

// outputAt returns where a file for the path is written, which is where it leads if it is a symbolic link, after
// checking that it may be. f is nil if no cache is read.
func (f *File) outputAt(path string) (string, error) {
	path, err := trust.Follow(path)
	if err != nil {
		return "", err
	}
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	if f != nil && f.file != nil {
		read, err := f.file.Stat()
		if err != nil {
			return "", err
		}
		if os.SameFile(read, there) {
			return "", fmt.Errorf("%s: %w", path, ErrSameFile)
		}
	}
	if there.Mode().IsRegular() && there.Size() == 0 {
		return path, nil
	}
	old, err := Open(path)
	if err == nil {
		return path, old.Close()
	}
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrOlder) {
		return path, nil
	}
	return "", fmt.Errorf("not written over: %w", err)
}

// writer writes a new file at offsets.
type writer struct{ f *os.File }

func (t writer) write(b []byte, offset uint64) error {
	_, err := t.f.WriteAt(b, int64(offset))
	return err
}

func (t writer) truncate(size uint64) error { return t.f.Truncate(int64(size)) }

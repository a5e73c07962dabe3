package xpwc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A disk is everything the store asks of the operating system for one open cache file. It is the seam at which tests
// inject faults and record what a power failure would leave behind.
type disk interface {
	ReadAt(b []byte, offset int64) (int, error)
	WriteAt(b []byte, offset int64) (int, error)
	Size() (int64, error)
	// Allocate reserves space, extending the file: a later write into [offset, offset+size) cannot find the disk full.
	Allocate(offset, size int64) error
	Truncate(size int64) error
	// Map maps size bytes from offset, a multiple of mapGranularity.
	Map(offset int64, size int, writable bool) ([]byte, error)
	// Seal makes a mapping read-only.
	Seal(b []byte) error
	Unmap(b []byte) error
	// Flush returns when all that was written, through WriteAt or mappings, is on stable storage.
	Flush() error
	// TryLock takes the writer's lock unless another process has it.
	TryLock() (bool, error)
	Unlock() error
	// Replaced reports whether the path now leads to another file, or to none.
	Replaced() (bool, error)
	Close() error
}

// openDisk opens an existing cache file; a read-only one if writable is false.
func openDisk(path string, writable, insecure bool) (disk, error) {
	flag := os.O_RDONLY
	if writable {
		flag = os.O_RDWR
	}
	if info, err := os.Lstat(path); err == nil {
		if err := acceptable(path, info, insecure); err != nil {
			return nil, err
		}
	}
	if !insecure {
		flag |= openFlags
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = acceptable(path, info, insecure)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &osDisk{f}, nil
}

// createDisk creates a cache file that only its owner can read or write; it fails if there is one.
func createDisk(path string) (disk, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
	if err != nil {
		return nil, err
	}
	return &osDisk{f}, nil
}

func acceptable(path string, info fs.FileInfo, insecure bool) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return fmt.Errorf("%s is a directory: %w", path, ErrNotCache)
	case mode&fs.ModeSymlink != 0 && insecure:
		return nil
	case !mode.IsRegular():
		return fmt.Errorf("%s is not a regular file: %w", path, ErrUnsafeFile)
	case insecure:
		return nil
	}
	if why := foreignPermissions(info); why != "" {
		return fmt.Errorf("%s: %s: %w", path, why, ErrUnsafeFile)
	}
	return nil
}

// osDisk is the disk of ordinary operation.
type osDisk struct{ *os.File }

func (d *osDisk) Size() (int64, error) {
	info, err := d.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (d *osDisk) Allocate(offset, size int64) error {
	if err := preallocate(d.File, offset, size); err != nil {
		return fmt.Errorf("reserve %d bytes for %s: %w", size, d.Name(), err)
	}
	return nil
}

func (d *osDisk) Map(offset int64, size int, writable bool) ([]byte, error) {
	return mapFile(d.File, offset, size, writable)
}

func (d *osDisk) Seal(b []byte) error  { return makeReadOnly(b) }
func (d *osDisk) Unmap(b []byte) error { return unmap(b) }

func (d *osDisk) Flush() error {
	if err := flushFile(d.File); err != nil {
		return fmt.Errorf("flush %s: %w", d.Name(), err)
	}
	return nil
}

func (d *osDisk) TryLock() (bool, error) { return lockExclusive(d.File) }
func (d *osDisk) Unlock() error          { return unlock(d.File) }

func (d *osDisk) Replaced() (bool, error) {
	mine, err := d.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(d.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return !os.SameFile(mine, there), nil
}

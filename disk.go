package xpwc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"xpwc/internal/digest"
	"xpwc/internal/store"
	"xpwc/internal/trust"
)

// osFiles and osDisk are those of ordinary operation. If insecure is set, files are opened and made whoever can change
// them.
type osFiles struct{ insecure bool }

type osDisk struct {
	*os.File
	path     string
	writable bool
	views    views // written to through memory
}

func (o osFiles) Open(path string, writable bool) (store.Disk, error) {
	f, err := openChecked(path, writable, o.insecure)
	if errors.Is(err, fs.ErrNotExist) && restore(path) {
		f, err = openChecked(path, writable, o.insecure)
	}
	if err != nil {
		return nil, err
	}
	return &osDisk{File: f, path: path, writable: writable}, nil
}

func openChecked(path string, writable, insecure bool) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil {
		if err := acceptable(path, nil, info, insecure); err != nil {
			return nil, err
		}
	}
	f, err := openFile(path, writable, insecure)
	if err != nil {
		return nil, err
	}
	return checked(f, path, writable, insecure)
}

// checked returns an open file if it is acceptable, and closes it otherwise.
func checked(f *os.File, path string, writable, insecure bool) (*os.File, error) {
	info, err := f.Stat()
	if err == nil {
		err = acceptable(path, f, info, insecure)
	}
	if err == nil && writable && info.Mode().Perm()&0o222 == 0 { // root could
		err = &fs.PathError{Op: "write to", Path: path, Err: fs.ErrPermission}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Create makes no file that Open would refuse, as on a file system whose files all have one mode.
func (o osFiles) Create(path string) (store.Disk, error) {
	f, err := createFile(path)
	if err == nil {
		f, err = checked(f, path, true, o.insecure)
	}
	if errors.Is(err, ErrUnsafeFile) {
		_ = os.Remove(path)
	}
	if err != nil {
		return nil, err
	}
	return &osDisk{File: f, path: path, writable: true}, nil
}

func (osFiles) Rename(from, to string) error { return rename(from, to) }

func (osFiles) Remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (osFiles) SyncDir(path string) error { return flushDir(filepath.Dir(path)) }

// acceptable looks at a file before it is opened, and again when it is open as f.
func acceptable(path string, f *os.File, info fs.FileInfo, insecure bool) error {
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
	if why := trust.Foreign(f, info); why != "" {
		return fmt.Errorf("%s: %s: %w", path, why, ErrUnsafeFile)
	}
	return nil
}

func (d *osDisk) Size() (int64, error) {
	info, err := d.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (d *osDisk) Mode() (fs.FileMode, error) {
	info, err := d.Stat()
	if err != nil {
		return 0, err
	}
	return info.Mode().Perm(), nil
}

func (d *osDisk) SetMode(mode fs.FileMode) error { return d.Chmod(mode) }

func (d *osDisk) Allocate(offset, size int64) error {
	err := withinFileSizeLimit(offset + size)
	if err == nil {
		err = preallocate(d.File, offset, size)
	}
	if err != nil {
		return fmt.Errorf("reserve %d bytes for %s: %w", size, d.path, err)
	}
	return nil
}

func (d *osDisk) Granularity() uint64 { return uint64(mapGranularity()) }

func (d *osDisk) Truncate(size int64) error { return truncate(d.File, size) }

func (d *osDisk) Map(offset int64, size int, writable bool) ([]byte, error) {
	b, err := mapFile(d.File, offset, size, writable)
	if err == nil && writable {
		d.views.add(b)
	}
	return b, err
}

func (d *osDisk) Populate(b []byte) error { return populate(b) }

func (d *osDisk) Supply(b []byte) error { return supply(b) }

func (d *osDisk) PopulateCached(offset int64, b []byte) error {
	return populateCached(d.File, offset, b)
}

func (d *osDisk) Sum(b []byte) (digest.Digest, error) { return sumMapped(b) }

func (d *osDisk) Seal(b []byte) error {
	d.views.seal(b)
	return makeReadOnly(b)
}

func (d *osDisk) GiveBack(b []byte) { giveBack(b) }

func (d *osDisk) Unmap(b []byte) error { return d.views.unmap(b) }

func (d *osDisk) Flush() error {
	err := d.views.flush()
	if err == nil {
		err = flushFile(d.File)
	}
	if err != nil {
		return fmt.Errorf("flush %s: %w", d.path, err)
	}
	return nil
}

func (d *osDisk) TryLock() (bool, error) { return lockExclusive(d.File) }
func (d *osDisk) Unlock() error          { return unlock(d.File) }

func (d *osDisk) Replaced() (bool, error) { return replaced(d.File, d.path) }

func (d *osDisk) CopiesUp() bool { return copiesUp(d.File) }

func (d *osDisk) Moved(path string) { d.path = path }

func (d *osDisk) Reader() (store.Reader, error) {
	f, err := duplicate(d.File)
	if err != nil {
		return nil, fmt.Errorf("open %s once more: %w", d.path, err)
	}
	return f, nil
}

func (d *osDisk) Close() error {
	err := d.File.Close()
	if d.writable {
		removeReplaced(d.path)
	}
	return err
}

func (d *osDisk) WriteAt(b []byte, offset int64) (int, error) {
	if err := withinFileSizeLimit(offset + int64(len(b))); err != nil {
		return 0, fmt.Errorf("write %s: %w", d.path, err)
	}
	return d.File.WriteAt(b, offset)
}

// writtenSince reports whether a file's content was changed after a time.
func writtenSince(path string, after time.Time) bool {
	info, err := os.Stat(path)
	return err == nil && info.ModTime().After(after)
}

// Package osdisk is the system's files and mappings, as the store wants them: each system's in the file with its name.
package osdisk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
	"unsafe"

	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/internal/mapped"
	"xpwc/internal/store"
	"xpwc/internal/trust"
)

// Files are the files of the system, see [store.Files]. If Insecure is set, files are opened and created even where
// other users can change them.
type Files struct{ Insecure bool }

// A Disk is an open cache file, see [store.File]. The files of the systems have the rest of its methods.
type Disk struct {
	*os.File
	path     string
	writable bool
}

func (o Files) Open(path string, writable bool) (store.File, error) {
	d, err := openChecked(path, writable, o.Insecure)
	if errors.Is(err, fs.ErrNotExist) && restore(path) {
		d, err = openChecked(path, writable, o.Insecure)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

func openChecked(path string, writable, insecure bool) (*Disk, error) {
	if info, err := os.Lstat(path); err == nil {
		if err := acceptable(path, nil, info, insecure); err != nil {
			return nil, err
		}
	}
	f, err := openFile(path, writable, insecure)
	if err != nil {
		return nil, err
	}
	return adopt(f, path, writable, insecure)
}

// adopt returns an open file as a disk, which takes ownership of it. It closes a file that [Files.Open] would refuse.
func adopt(f *os.File, path string, writable, insecure bool) (*Disk, error) {
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
	return &Disk{File: f, path: path, writable: writable}, nil
}

// Create makes no file that Open would refuse, as on a file system whose files all have one mode.
func (o Files) Create(path string) (store.File, error) {
	f, err := createFile(path)
	if err != nil {
		return nil, err
	}
	d, err := adopt(f, path, true, o.Insecure)
	if errors.Is(err, trust.ErrUnsafe) {
		_ = remove(path)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (Files) Rename(oldPath, newPath string) error { return rename(oldPath, newPath) }

func (Files) Remove(path string) error {
	if err := remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (Files) SyncDir(path string) error { return flushDir(path) }

// acceptable returns an error if a file is none to open: before it is, with f nil, and again when it is open as f. If
// insecure is set, it may be anybody's.
func acceptable(path string, f *os.File, info fs.FileInfo, insecure bool) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return fmt.Errorf("%s is a directory: %w", path, format.ErrNotCache)
	case mode&fs.ModeSymlink != 0 && insecure:
		return nil
	case !mode.IsRegular():
		return trust.NotRegular{Path: path}
	case insecure:
		return nil
	}
	if problem := trust.Foreign(f, info); problem != "" {
		return fmt.Errorf("%s: %s: %w", path, problem, trust.ErrUnsafe)
	}
	return nil
}

func (d *Disk) Size() (int64, error) {
	info, err := d.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (d *Disk) Mode() (fs.FileMode, error) {
	info, err := d.Stat()
	if err != nil {
		return 0, err
	}
	return info.Mode().Perm(), nil
}

func (d *Disk) SetMode(mode fs.FileMode) error { return d.Chmod(mode) }

func (d *Disk) Allocate(offset, size int64) error {
	err := withinFileSizeLimit(offset + size)
	if err == nil {
		err = preallocate(d.File, offset, size)
	}
	if err != nil {
		return fmt.Errorf("reserve %d bytes for %s: %w", size, d.path, err)
	}
	return nil
}

func (d *Disk) Granularity() uint64 { return Granularity() }

func (d *Disk) Map(offset int64, size int, writable bool) (store.Mapping, error) {
	data, err := mapped.Map(d.File, offset, size, writable)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of %s: %w", size, d.path, err)
	}
	preferLargePages(data)
	return mapping(data), nil
}

func (d *Disk) Sum(b []byte) (digest.Digest, error) { return Sum(b) }

// A mapping is a part of a file in memory, see [store.Mapping]. The files of the systems have the rest.
type mapping []byte

func (m mapping) Data() []byte { return m }

func (m mapping) Populate(start, end int) error { return populate(m[start:end]) }

func (d *Disk) Flush() error {
	if err := flushFile(d.File); err != nil {
		return fmt.Errorf("flush %s: %w", d.path, err)
	}
	return nil
}

func (d *Disk) Close() error {
	err := d.File.Close()
	if d.writable {
		removeReplaced(d.path)
	}
	return err
}

func (d *Disk) WriteAt(b []byte, offset int64) (int, error) {
	if err := withinFileSizeLimit(offset + int64(len(b))); err != nil {
		return 0, fmt.Errorf("write %s: %w", d.path, err)
	}
	return d.File.WriteAt(b, offset)
}

// WrittenSince reports whether a file's content was changed after a time. A date in the future does not count: it comes
// from a wrong clock, as a device without a battery has after a power failure.
func WrittenSince(path string, t time.Time) bool {
	info, err := os.Stat(path)
	return err == nil && info.ModTime().After(t) && info.ModTime().Before(time.Now().Add(time.Minute))
}

// Sum returns the sum of a payload where it is mapped. Bytes that the disk cannot give are an error, and no
// signal: where the system does not report it by itself, the signal is Go's to handle, unless a C host has put a
// handler of its own in its place.
func Sum(b []byte) (sum digest.Digest, err error) {
	if err := populate(wholePages(b)); err != nil {
		return digest.Digest{}, fmt.Errorf("%d mapped bytes cannot be read: %w", len(b), err)
	}
	err = mapped.Faultless(func() { sum = digest.Of(b) })
	return sum, err
}

// wholePages returns b with the rest of its first page before it, which is mapped with it.
func wholePages(b []byte) []byte {
	lead := int(addressOf(b) % uintptr(Granularity()))
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), -lead)), len(b)+lead)
}

// addressOf returns where b starts in memory, which for mapped memory is also what XNNPACK knows it by.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// writeZeros is how space is reserved where the system has no call for it. Only bytes beyond the end of the file are
// written: what lies before it has its space.
func writeZeros(f *os.File, offset, size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := offset + size
	zeros := make([]byte, 1<<20)
	for pos := max(offset, info.Size()); pos < end; {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), end-pos)], pos)
		if err != nil {
			return err
		}
		pos += int64(n)
	}
	return nil
}

package xpwc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"xpwc/internal/digest"
)

// Files and disks are everything the store asks of the operating system: the seam at which tests inject faults and record
// what a power failure would leave behind.

// files is the directory that a cache file lies in.
type files interface {
	// Open opens an existing cache file, after checking that nobody else could have tampered with it unless insecure is set.
	Open(path string, writable, insecure bool) (disk, error)
	// Create creates a file that only its owner can read or write; it fails if there is one.
	Create(path string) (disk, error)
	// Rename puts a file in another's place, which others may have open or mapped; Remove removes one, if it is there.
	Rename(from, to string) error
	Remove(path string) error
	// CopyMode gives a file the permissions of another.
	CopyMode(from, to string) error
	// SyncDir returns when what was renamed in the directory of path is on stable storage.
	SyncDir(path string) error
}

// A disk is one open cache file.
type disk interface {
	ReadAt(b []byte, offset int64) (int, error)
	WriteAt(b []byte, offset int64) (int, error)
	Size() (int64, error)
	// Allocate reserves space, extending the file: a later write into [offset, offset+size) cannot find the disk full.
	Allocate(offset, size int64) error
	// Truncate cuts the file off. It fails with errMapped, and leaves it as it is, where the system refuses that to a file
	// that somebody has mapped.
	Truncate(size int64) error
	// Granularity is what the offset of a mapping must be a multiple of, and where the part of one that is sealed must begin: a page, or
	// more, of whatever size this system has.
	Granularity() uint64
	// Map maps size bytes from offset.
	Map(offset int64, size int, writable bool) ([]byte, error)
	// Populate has the pages of a mapping read in. Where the system says so, bytes that cannot be read are an error.
	Populate(b []byte) error
	// Sum returns the sum of bytes in memory, mapped or not. Those that the disk cannot give are an error, and no signal.
	Sum(b []byte) (digest.Digest, error)
	// Seal makes a mapping read-only.
	Seal(b []byte) error
	// Detach puts private memory with the same bytes in the place of a part of a mapping, from its beginning: neither shows any more what
	// is written to the other, or cut off. Others may read it meanwhile, but not write. What cannot be read is zeros then. It
	// fails with errors.ErrUnsupported where the system cannot do it at once; there the system keeps pages that it failed to write.
	Detach(b []byte) error
	Unmap(b []byte) error
	// Flush returns when all that was written, through WriteAt or mappings, is on stable storage.
	Flush() error
	// TryLock takes the writer's lock unless another process has it.
	TryLock() (bool, error)
	Unlock() error
	// Replaced reports whether the path the file was opened under now leads to another file, or to none. Moved tells the
	// disk that its file was renamed.
	Replaced() (bool, error)
	Moved(path string)
	// CopiesUp reports whether the file system copies a file when it is opened for writing, as overlayfs does that of a lower layer.
	CopiesUp() bool
	// Reader opens the file once more, to be read whatever becomes of this disk.
	Reader() (Reader, error)
	Close() error
}

// osFiles and osDisk are those of ordinary operation.
type osFiles struct{}

type osDisk struct {
	*os.File
	path     string
	writable bool
	views    views // written to through memory
}

// condemnedHere are the files that no cache of this process commits to any more.
var condemnedHere = newCondemned()

// errMapped: the file cannot be cut off as long as any process has it mapped. On Windows alone.
var errMapped = errors.New("the file is mapped")

func (osFiles) Open(path string, writable, insecure bool) (disk, error) {
	f, err := openChecked(path, writable, insecure)
	if errors.Is(err, fs.ErrNotExist) && restore(path) {
		f, err = openChecked(path, writable, insecure)
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
	info, err := f.Stat()
	if err == nil {
		err = acceptable(path, f, info, insecure)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (osFiles) Create(path string) (disk, error) {
	f, err := createFile(path)
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

func (osFiles) CopyMode(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	return os.Chmod(to, info.Mode().Perm())
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
	if why := foreignPermissions(f, info); why != "" {
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

func (d *osDisk) Sum(b []byte) (digest.Digest, error) { return sumMapped(b) }

func (d *osDisk) Seal(b []byte) error {
	d.views.seal(b)
	return makeReadOnly(b)
}

func (d *osDisk) Detach(b []byte) error { return detach(b) }

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

func (d *osDisk) Reader() (Reader, error) {
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

package store

import (
	"io/fs"

	"xpwc/internal/digest"
)

// Files, open ones and mappings of them are everything the store asks of the operating system: the seam at which tests
// inject faults and record what a power failure would leave.

// Files is the directory that a cache file lies in.
type Files interface {
	// Open opens an existing cache file, after checking that nobody else could have tampered with it.
	Open(path string, writable bool) (File, error)
	// Create creates a file that only its owner can read or write; it fails if there is one.
	Create(path string) (File, error)
	// Rename puts a file in another's place, which others may have open or mapped; Remove removes one, if it is there.
	Rename(oldPath, newPath string) error
	Remove(path string) error
	// SyncDir returns when what was renamed in the directory of path is on stable storage.
	SyncDir(path string) error
}

// Files may be a Holder.
type Holder interface {
	// Hold has names in the directory of path looked up in the directory that this leads to now, until it is released:
	// whoever can rename it may have its path lead elsewhere meanwhile. Several may hold one.
	Hold(path string) (release func(), err error)
}

// A File is one open cache file.
type File interface {
	ReadAt(b []byte, offset int64) (int, error)
	WriteAt(b []byte, offset int64) (int, error)
	Size() (int64, error)
	// Mode returns the permissions of the open file, whatever its path leads to by now, and SetMode gives it others.
	Mode() (fs.FileMode, error)
	SetMode(mode fs.FileMode) error
	// Allocate reserves space, extending the file: a later write into [offset, offset+size) cannot find the disk full.
	Allocate(offset, size int64) error
	// Supply gives a part that is allocated, and that nothing was written to, its pages of zeros ahead of page faults.
	// It may do nothing.
	Supply(offset, size int64) error
	// Truncate cuts the file off. It fails with ErrMapped, and leaves it as it is, where the system refuses that to a
	// file that somebody has mapped.
	Truncate(size int64) error
	// Granularity is what the offset of a mapping must be a multiple of, and where the part of one that is sealed must
	// begin: a page, or more, of whatever size this system has.
	Granularity() uint64
	// Map maps size bytes from offset.
	Map(offset int64, size int, writable bool) (Mapping, error)
	// Sum returns the sum of bytes in memory, mapped or not. Those that the disk cannot give are an error, and no
	// signal.
	Sum(b []byte) (digest.Digest, error)
	// Flush returns when the file's size, and all that was written with WriteAt or synced, is on stable storage. What
	// was written through a mapping needs [Mapping.Sync] first.
	Flush() error
	// TryLock takes the writer's lock unless another process has it.
	TryLock() (bool, error)
	Unlock() error
	// Replaced reports whether the path the file was opened under now leads to another file, or to none.
	Replaced() (bool, error)
	// CopiesUp reports whether the file system copies a file when it is opened for writing, as overlayfs does that of a
	// lower layer.
	CopiesUp() bool
	Close() error
}

// A Mapping is a stretch of a file in memory. Its parts go by where they begin and end in it.
type Mapping interface {
	// Data returns the bytes, which are there until Unmap.
	Data() []byte
	// Populate reads the pages of a part. Unreadable bytes are an error where the system reports them.
	Populate(start, end int) error
	// Seal makes what lies from there on read-only.
	Seal(start int) error
	// GiveBack drops the page-table entries of a part, which begins at a page. The page cache keeps the pages, dirty
	// ones too, and the next access maps them again. GiveBack may do nothing.
	GiveBack(start, end int)
	// Sync writes a part to the disk: msync(MS_SYNC), or FlushViewOfFile, which [File.Flush] completes. The part begins
	// at a page. An error of the file's earlier writes is returned once, by Sync or Flush.
	Sync(start, end int) error
	Unmap() error
}

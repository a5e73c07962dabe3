package xpwc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// mapFile maps size bytes of f from offset, a multiple of mapGranularity. What is written to the memory reaches the file.
func mapFile(f *os.File, offset int64, size int, writable bool) ([]byte, error) {
	protect, access := uint32(windows.PAGE_READONLY), uint32(windows.FILE_MAP_READ)
	if writable {
		protect, access = windows.PAGE_READWRITE, windows.FILE_MAP_READ|windows.FILE_MAP_WRITE
	}
	end := uint64(offset) + uint64(size)
	section, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, protect, uint32(end>>32), uint32(end), nil)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of %s: %w", size, f.Name(), err)
	}
	// The view keeps the section alive.
	defer func() { _ = windows.CloseHandle(section) }()
	address, err := windows.MapViewOfFile(section, access, uint32(uint64(offset)>>32), uint32(offset), uintptr(size))
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of %s: %w", size, f.Name(), err)
	}
	return memoryAt(address, size), nil
}

// mapAnonymous returns size bytes of zeroed private memory outside the Go heap.
func mapAnonymous(size int) ([]byte, error) {
	section, err := windows.CreateFileMapping(windows.InvalidHandle, nil, windows.PAGE_READWRITE,
		uint32(uint64(size)>>32), uint32(size), nil)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of memory: %w", size, err)
	}
	defer func() { _ = windows.CloseHandle(section) }()
	address, err := windows.MapViewOfFile(section, windows.FILE_MAP_READ|windows.FILE_MAP_WRITE, 0, 0, uintptr(size))
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of memory: %w", size, err)
	}
	return memoryAt(address, size), nil
}

// memoryAt makes a slice of a view. The address is read through a pointer because it is not the Go heap's.
func memoryAt(address uintptr, size int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&address))), size)
}

// unmap gives back what mapFile or mapAnonymous returned, whole.
func unmap(b []byte) error { return windows.UnmapViewOfFile(addressOf(b)) }

// makeReadOnly lets a stray write to the mapping fault instead of reaching the file.
func makeReadOnly(b []byte) error {
	var old uint32
	return windows.VirtualProtect(addressOf(b), uintptr(len(b)), windows.PAGE_READONLY, &old)
}

// mapGranularity is what a mapping's file offset must be a multiple of: the same on every Windows.
func mapGranularity() int { return 64 << 10 }

// lockAt is a byte far beyond any file's end: on Windows a lock is mandatory and must not keep readers from the content.
var lockAt = windows.Overlapped{Offset: 0, OffsetHigh: 1 << 30}

// lockExclusive takes the writer's lock of an open file without waiting; false: another process has it.
func lockExclusive(f *os.File) (bool, error) {
	at := lockAt
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	default:
		return false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
}

func unlock(f *os.File) error {
	at := lockAt
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &at)
}

const openFlags = 0

// foreignPermissions says what about a cache file would let another user change it, or nothing: files inherit their
// access lists from the directory there, and Go's mode bits do not show them.
func foreignPermissions(fs.FileInfo) string { return "" }

// preallocate gives the file disk space for [offset, offset+size), extending it where needed: on NTFS a file that is not
// sparse has space for all of its size.
func preallocate(f *os.File, offset, size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if offset+size <= info.Size() {
		return nil
	}
	return f.Truncate(offset + size)
}

// flushFile returns when the file's content is on the disk. Views are flushed by the caller's pages being written back
// before the file buffers are.
func flushFile(f *os.File) error { return f.Sync() }

// withinFileSizeLimit: there is no such limit on Windows.
func withinFileSizeLimit(int64) error { return nil }

// flushDir: NTFS journals names by itself.
func flushDir(string) error { return nil }

// populate is left to the system.
func populate([]byte) error { return nil }

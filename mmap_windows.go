package xpwc

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// mapFile maps size bytes of f from offset, a multiple of mapGranularity. What is written to the memory reaches the
// file.
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
	if err := windows.VirtualProtect(addressOf(b), uintptr(len(b)), windows.PAGE_READONLY, &old); err != nil {
		return fmt.Errorf("make %d bytes read-only: %w", len(b), err)
	}
	return nil
}

// mapGranularity is what a mapping's file offset must be a multiple of: the same on every Windows.
func mapGranularity() int { return 64 << 10 }

var prefetchVirtualMemory = windows.NewLazySystemDLL("kernel32.dll").NewProc("PrefetchVirtualMemory")

// giveBack is for Linux.
func giveBack([]byte) {}

// populateCached is for Linux.
func populateCached(*os.File, int64, []byte) error { return errors.ErrUnsupported }

// supply is for Linux.
func supply([]byte) error { return errors.ErrUnsupported }

// populate has a mapping's pages read in, in few large reads. Bytes that cannot be read are an exception all the same.
func populate(b []byte) error {
	if len(b) == 0 || prefetchVirtualMemory.Find() != nil { // before Windows 8
		return nil
	}
	stretch := struct{ address, size uintptr }{addressOf(b), uintptr(len(b))}
	// It is no more than a hint.
	_, _, _ = prefetchVirtualMemory.Call(uintptr(windows.CurrentProcess()), 1, uintptr(unsafe.Pointer(&stretch)), 0)
	return nil
}

// copiesUp is for Linux.
func copiesUp(*os.File) bool { return false }

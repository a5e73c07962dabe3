package xpwc

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

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

// unmap gives back what mapAnonymous returned, whole.
func unmap(b []byte) error { return windows.UnmapViewOfFile(addressOf(b)) }

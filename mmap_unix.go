//go:build unix

package xpwc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Private regions are mapped here. Regions of the cache file are mapped, synced with msync and unmapped in
// internal/osdisk/mmap_unix.go, behind store.Mapping.

// mapAnonymous returns size bytes of zeroed private memory outside the Go heap.
func mapAnonymous(size int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of memory: %w", size, err)
	}
	return b, nil
}

// unmap frees a region that mapAnonymous returned. b is the whole region.
func unmap(b []byte) error { return unix.Munmap(b) }

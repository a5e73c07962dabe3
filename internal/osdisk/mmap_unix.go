//go:build unix

package osdisk

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Granularity returns the unit of a mapping's file offset, in bytes.
func Granularity() uint64 { return uint64(os.Getpagesize()) }

// Seal makes a stray write to the mapping fault. Otherwise it would reach the file.
func (m mapping) Seal(start int) error {
	if err := unix.Mprotect(m[start:], unix.PROT_READ); err != nil {
		return fmt.Errorf("make %d bytes read-only: %w", len(m)-start, err)
	}
	return nil
}

// Sync is a ranged fdatasync on Linux, of the descriptor that was mapped: it reports the same errors, each once.
func (m mapping) Sync(start, end int) error {
	if start == end {
		return nil
	}
	return unix.Msync(m[start:end], unix.MS_SYNC)
}

func (m mapping) Unmap() error { return unix.Munmap(m) }

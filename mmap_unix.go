//go:build unix

package xpwc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps size bytes of f from offset, a multiple of mapGranularity. What is written to the memory reaches the
// file.
func mapFile(f *os.File, offset int64, size int, writable bool) ([]byte, error) {
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	b, err := unix.Mmap(int(f.Fd()), offset, size, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of %s: %w", size, f.Name(), err)
	}
	if !writable {
		preferLargePages(b)
	}
	return b, nil
}

// mapAnonymous returns size bytes of zeroed private memory outside the Go heap.
func mapAnonymous(size int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of memory: %w", size, err)
	}
	return b, nil
}

// unmap gives back what mapFile or mapAnonymous returned, whole.
func unmap(b []byte) error { return unix.Munmap(b) }

// makeReadOnly lets a stray write to the mapping fault instead of reaching the file.
func makeReadOnly(b []byte) error {
	if err := unix.Mprotect(b, unix.PROT_READ); err != nil {
		return fmt.Errorf("make %d bytes read-only: %w", len(b), err)
	}
	return nil
}

// mapGranularity is what a mapping's file offset must be a multiple of.
func mapGranularity() int { return os.Getpagesize() }

// lockExclusive takes the writer's advisory lock of an open file without waiting; false: another process has it.
func lockExclusive(f *os.File) (bool, error) {
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	default:
		return false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
}

func unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// withinFileSizeLimit returns EFBIG for a file that would grow beyond the process' limit: the system would also send
// SIGXFSZ, which ends the process.
func withinFileSizeLimit(size int64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if uint64(size) > uint64(limit.Cur) {
		return fmt.Errorf("file size limit of %d bytes: %w", limit.Cur, unix.EFBIG)
	}
	return nil
}

//go:build unix && !linux && !darwin

package osdisk

import (
	"os"

	"golang.org/x/sys/unix"
)

// searching opens a directory to look names up in it.
const searching = unix.O_RDONLY

// preallocate gives the file disk space for [offset, offset+size), so that no later write into a mapping of it can find
// the disk full. These systems' own call is not reachable without cgo or does not reserve on every file system.
func preallocate(f *os.File, offset, size int64) error { return writeZeros(f, offset, size) }

func flushFile(f *os.File) error { return f.Sync() }

// populate has a mapping's pages read in. Bytes that cannot be read are a signal all the same on this system.
func populate(b []byte) error { return unix.Madvise(b, unix.MADV_WILLNEED) }

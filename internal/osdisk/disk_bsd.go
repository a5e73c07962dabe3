//go:build unix && !linux && !darwin

package osdisk

import "os"

// preallocate gives the file disk space for [offset, offset+size), so that no later write into a mapping of it can find
// the disk full. These systems' own call is not reachable without cgo or does not reserve on every file system.
func preallocate(f *os.File, offset, size int64) error { return writeZeros(f, offset, size) }

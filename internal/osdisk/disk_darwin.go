package osdisk

import (
	"os"

	"golang.org/x/sys/unix"
)

// preallocate gives the file disk space for [offset, offset+size), extending it where needed, so that no later write
// into a mapping of it can find the disk full. F_PREALLOCATE counts from the end of the file, so that what lies before
// it is known to have space already.
func preallocate(f *os.File, offset, size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	missing := offset + size - info.Size()
	if missing <= 0 {
		return nil
	}
	store := unix.Fstore_t{Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: missing}
	if err := unix.FcntlFstore(f.Fd(), unix.F_PREALLOCATE, &store); err != nil {
		return writeZeros(f, info.Size(), missing)
	}
	return f.Truncate(offset + size)
}

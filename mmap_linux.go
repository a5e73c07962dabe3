package xpwc

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// preallocate gives the file disk space for [offset, offset+size), extending it where needed, so that no later write into
// a mapping of it can find the disk full. A file system that cannot reserve space (NFS before 4.2, some FUSE) gets zeros.
func preallocate(f *os.File, offset, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, offset, size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return writeZeros(f, offset, size)
		default:
			return err
		}
	}
}

// flushFile returns when the file's content, and what is needed to find it, is on the disk.
func flushFile(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// detachDirty takes the page-table entries of a written mapping away at once; the pages stay in the page cache, dirty, and
// come back with the next access. Otherwise writing them back takes the entries' dirty bits one by one, each time
// interrupting every processor that runs this process: a first inference beside the commit took four times as long.
func detachDirty(b []byte) { _ = unix.Madvise(b, unix.MADV_DONTNEED) } // no more than a hint

// preferLargePages has the page cache of a mapping made of large pieces, of which one page fault maps all. It depends on how
// a file is written how fast it is mapped: without, the first inference after a warm load took 6,800 faults, with it 1,500.
func preferLargePages(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) } // no more than a hint

// populate reads a mapping's pages in, so that bytes that cannot be read are an error here and not a signal later.
func populate(b []byte) error {
	switch err := unix.Madvise(b, unix.MADV_POPULATE_READ); {
	case errors.Is(err, unix.EFAULT), errors.Is(err, unix.EHWPOISON):
		return err
	case err != nil: // before Linux 5.14, or short of memory
		_ = unix.Madvise(b, unix.MADV_WILLNEED) // no more than a hint
	}
	return nil
}

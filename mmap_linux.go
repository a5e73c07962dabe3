package xpwc

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"xpwc/internal/format"
)

// preallocate gives the file disk space for [offset, offset+size), extending it where needed, so that no later write
// into a mapping of it can find the disk full. A file system that cannot reserve space (NFS before 4.2, some FUSE) gets
// zeros.
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

func copiesUp(f *os.File) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &fs) == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// flushFile returns when the file's content, and what is needed to find it, is on the disk.
func flushFile(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// detach copies into new memory, which it then moves over the mapping: whoever reads there at that time waits for it.
func detach(b []byte) error {
	at, size := unsafe.Pointer(unsafe.SliceData(b)), format.AlignUp(uint64(len(b)), uint64(os.Getpagesize()))
	const readWrite, private = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
	fresh, err := unix.MmapPtr(-1, 0, nil, uintptr(size), readWrite, private)
	if err != nil {
		return fmt.Errorf("map %d bytes of memory: %w", size, err)
	}
	to := unsafe.Slice((*byte)(fresh), len(b))
	for page := os.Getpagesize(); len(b) > 0; {
		n := min(page, len(b))
		_ = faultless(func() { copy(to, b[:n]) })
		to, b = to[n:], b[n:]
	}
	_, err = unix.MremapPtr(fresh, uintptr(size), at, uintptr(size), unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED)
	if err != nil {
		return errors.Join(fmt.Errorf("move %d bytes of memory: %w", size, err), unix.MunmapPtr(fresh, uintptr(size)))
	}
	return nil
}

// detachDirty takes the page-table entries of a written mapping away at once; the pages stay in the page cache, dirty,
// and come back with the next access. Otherwise writing them back takes the entries' dirty bits one by one, each time
// interrupting every processor that runs this process: a first inference beside the commit took four times as long.
func detachDirty(b []byte) { _ = unix.Madvise(b, unix.MADV_DONTNEED) } // no more than a hint

// preferLargePages has the page cache of a mapping made of large pieces, of which one page fault maps all. It depends
// on how a file is written how fast it is mapped: without, the first inference after a warm load took 6,800 faults,
// with it 1,500.
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

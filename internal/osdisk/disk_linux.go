package osdisk

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
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

// zeros are what Disk.Supply writes.
var zeros [256 << 10]byte

// Supply writes zeros. The page cache makes a page for all of a write, of its size at most, and the write-back of the
// payloads follows when they are packed.
func (d *Disk) Supply(offset, size int64) error {
	for size > 0 {
		n, err := d.WriteAt(zeros[:min(size, int64(len(zeros)))], offset)
		if err != nil {
			return err
		}
		offset, size = offset+int64(n), size-int64(n)
	}
	return nil
}

func (d *Disk) CopiesUp() bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(int(d.Fd()), &fs) == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// flushFile returns when the file's content, and what is needed to find it, is on the disk.
func flushFile(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// GiveBack takes the page-table entries of a part away; the pages stay in the page cache, and come back with the next
// access. What was written to them stays, too: those pages are dirty then, and not their entries.
func (m mapping) GiveBack(start, end int) { _ = unix.Madvise(m[start:end], unix.MADV_DONTNEED) } // no more than a hint

// preferLargePages has pages of a mapping that are not in memory yet made and read in large pieces, of which one page
// fault maps all, in the processes that map them later too.
func preferLargePages(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) } // no more than a hint

// Supply gives b its pages, ready to be written, except the first and the last page if b has only parts of them.
// Before Linux 5.14 it does nothing.
func Supply(b []byte) {
	page := uintptr(os.Getpagesize())
	skipped := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) % page
	if pages := (uintptr(len(b)) - min(skipped, uintptr(len(b)))) / page; pages > 0 {
		_ = unix.Madvise(b[skipped:][:pages*page], unix.MADV_POPULATE_WRITE)
	}
}

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

// cannotSync are the errors of systems, file systems and sandboxes that do not have the call.
var cannotSync = []syscall.Errno{unix.ENOSYS, unix.EOPNOTSUPP, unix.EINVAL, unix.ESPIPE, unix.EPERM}

// Failed implements [store.FailureTeller]. With SYNC_FILE_RANGE_WAIT_BEFORE the kernel waits for pages of the range
// that are being written, and then returns an error of the whole file that this descriptor has not returned yet. The
// range is the header's page, for which there is mostly nothing to wait.
func (d *Disk) Failed() error {
	c, err := d.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := c.Control(func(fd uintptr) {
		for {
			err = unix.SyncFileRange(int(fd), 0, 1, unix.SYNC_FILE_RANGE_WAIT_BEFORE)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	var errno syscall.Errno
	switch {
	case controlErr != nil: // it is closed, which os has no sentinel for here: nothing of it will be committed
		return nil
	case errors.As(err, &errno) && slices.Contains(cannotSync, errno):
		return nil
	}
	return err
}

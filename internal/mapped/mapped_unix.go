//go:build unix

package mapped

import (
	"os"

	"golang.org/x/sys/unix"
)

// Map maps size bytes of a file from an offset, a multiple of the system's unit of mapping. Writes to the memory reach
// the file.
func Map(f *os.File, offset int64, size int, writable bool) ([]byte, error) {
	protection := unix.PROT_READ
	if writable {
		protection |= unix.PROT_WRITE
	}
	return unix.Mmap(int(f.Fd()), offset, size, protection, unix.MAP_SHARED)
}

func unmapFile(b []byte) error { return unix.Munmap(b) }

// anonymous returns size bytes of zeroed private memory.
func anonymous(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// protect makes memory that anonymous returned read-only.
func protect(b []byte) error { return unix.Mprotect(b, unix.PROT_READ) }

// release frees memory that anonymous returned.
func release(b []byte) error { return unix.Munmap(b) }

// dropPages is given whole pages of a mapping.
func dropPages(b []byte) { _ = unix.Madvise(b, unix.MADV_DONTNEED) }

// StateOf returns the state of the regular file that is open as fd, which stays the caller's. The error is the
// system's or ErrNotRegular.
func StateOf(fd uintptr) (State, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(fd), &st); err != nil {
		return State{}, os.NewSyscallError("fstat", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return State{}, ErrNotRegular
	}
	return State{
		Device: uint64(st.Dev), Inode: uint64(st.Ino), Size: st.Size,
		Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano(),
		Links: uint64(st.Nlink),
	}, nil
}

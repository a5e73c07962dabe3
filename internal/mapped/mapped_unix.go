//go:build unix

package mapped

import (
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(b []byte) error { return unix.Munmap(b) }

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

//go:build unix

package mapped

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(b []byte) error { return unix.Munmap(b) }

// dropPages is given whole pages of a mapping.
func dropPages(b []byte) { _ = unix.Madvise(b, unix.MADV_DONTNEED) }

// Stamp tells the content of the file that is open as fd from any other without reading it: by device, inode, size, and the
// times of modification and of change, the latter of which programs cannot set. The caller keeps fd. What is not a regular
// file has none: ErrNotRegular.
func Stamp(fd uintptr) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(fd), &st); err != nil {
		return "", os.NewSyscallError("fstat", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", ErrNotRegular
	}
	return fmt.Sprintf("%d:%d:%d:%d:%d", st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()), nil
}

package mappings

import (
	"io/fs"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tellsCached reports whether the system says of a file what is in the page cache: to its owner, and to those who may
// write to it. To others it says that all is (can_do_mincore in mm/mincore.c).
func tellsCached(path string, info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() ||
		unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil
}

// cached returns how many bytes of a file are in the page cache. It does not read the file.
func cached(f *os.File, size int64) (n int64, err error) {
	const piece = 1 << 30
	pageSize := int64(os.Getpagesize())
	resident := make([]byte, min(size, piece)/pageSize+1) // a byte for each page
	for offset := int64(0); offset < size; offset += piece {
		length := min(size-offset, piece)
		b, err := unix.Mmap(int(f.Fd()), offset, int(length), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return 0, err
		}
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, addressOf(b), uintptr(length),
			uintptr(unsafe.Pointer(unsafe.SliceData(resident))))
		if err := unix.Munmap(b); err != nil {
			return 0, err
		}
		if errno != 0 {
			return 0, errno
		}
		for _, r := range resident[:(length+pageSize-1)/pageSize] {
			n += int64(r&1) * pageSize
		}
	}
	return min(n, size), nil
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

//go:build unix

package tflite

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapFile maps a whole file read-only. The mapping outlives the descriptor.
func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(b []byte) error { return unix.Munmap(b) }

// dropPages gives back the pages that lie entirely in b, a part of a mapping. They are clean pages of a file: whoever reads
// them again, for a tensor that shares the bytes, reads them from the file again.
func dropPages(b []byte) {
	page := os.Getpagesize()
	if len(b) == 0 {
		return
	}
	lead := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (page - 1)
	if whole := (len(b) - lead) &^ (page - 1); whole > 0 {
		_ = unix.Madvise(b[lead:lead+whole], unix.MADV_DONTNEED)
	}
}

// fileStamp changes whenever the file's content does, short of a change that hides its time.
func fileStamp(f *os.File) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d:%d:%d", st.Dev, st.Ino, st.Size, unix.TimespecToNsec(st.Mtim)), nil
}

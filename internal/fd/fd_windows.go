package fd

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// OpenHandle opens or creates a file as CreateFile does. Others may replace or remove it meanwhile, as on Unix;
// Windows refuses that unless every handle was opened with FILE_SHARE_DELETE, which [os.OpenFile] does not set. The
// error is a *fs.PathError.
func OpenHandle(path string, access uint32, security *windows.SecurityAttributes, disposition, flags uint32) (
	*os.File, error) {
	const shared = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	name, err := windows.UTF16PtrFromString(path)
	if err == nil {
		var h windows.Handle
		if h, err = windows.CreateFile(name, access, shared, security, disposition, flags, 0); err == nil {
			return os.NewFile(uintptr(h), path), nil
		}
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: err}
}

func openToRead(path string) (*os.File, error) {
	return OpenHandle(path, windows.GENERIC_READ, nil, windows.OPEN_EXISTING, windows.FILE_ATTRIBUTE_NORMAL)
}

// descriptorsLeft: Windows has no limit that a poller could meet.
func descriptorsLeft() error { return nil }

// Duplicate returns another handle of the same opening of a file.
func Duplicate(f *os.File) (*os.File, error) {
	self := windows.CurrentProcess()
	var h windows.Handle
	err := windows.DuplicateHandle(self, windows.Handle(f.Fd()), self, &h, 0, false, windows.DUPLICATE_SAME_ACCESS)
	if err != nil {
		return nil, &fs.PathError{Op: "duplicate", Path: f.Name(), Err: err}
	}
	return os.NewFile(uintptr(h), f.Name()), nil
}

// Reopen fails on Windows: the error matches fs.ErrPermission.
func Reopen(f *os.File) (*os.File, error) {
	return nil, &fs.PathError{Op: "reopen", Path: f.Name(), Err: fs.ErrPermission}
}

package fd

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

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

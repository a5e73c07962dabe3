package workdir

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// lockKeepsName: on Windows, a directory keeps its name as long as a file in it is open. That is the lock: removing
// begins with another name for the directory, and fails as long as another process has the marker open.
const lockKeepsName = true

func tryLock(*os.File) (bool, error) { return true, nil }

func openMarker(path string) (*os.File, error) { return os.Open(path) }

func ours(fs.FileInfo) bool { return true }

// rename is Rename. What it writes through is on the disk when it returns.
func rename(from, to, _ string) error {
	f, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return err
	}
	t, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return err
	}
	if err := windows.MoveFileEx(f, t, windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

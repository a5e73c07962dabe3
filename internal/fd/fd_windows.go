package fd

import (
	"io/fs"
	"os"
)

// Open opens a file: on Windows, as [os.OpenFile] does.
func Open(path string, flags int, permissions fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, flags, permissions)
}

// descriptorsLeft: Windows has no limit that a poller could meet.
func descriptorsLeft() error { return nil }

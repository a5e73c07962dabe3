package fd

import (
	"errors"
	"io/fs"
	"os"
)

// ErrNotRegular is matched by the error of [OpenRegular] for a directory, a pipe or a device.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular opens a regular file for reading, and describes it. It looks at what is at the path before, since opening
// a device may do something, and again when it is open: others may put a pipe there at any time, whose writer is not
// waited for. The caller closes the file.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, ErrNotRegular
	}
	f, err := openToRead(path)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

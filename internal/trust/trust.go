// Package trust finds which files and links only this user and root can change. Who can change a cache file
// chooses the answers; who can change a link to it chooses which file is opened, and perhaps replaced.
package trust

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrUnsafe: another user could change the file, or the path leads to something that is not a regular file.
var ErrUnsafe = errors.New("not opened for safety; correct its owner and mode, or set Options.AllowUnsafeFile")

// NotRegular is the error of a path that leads to a pipe, a device or a socket. It matches ErrUnsafe. Owner and mode do
// not matter, so it gives other advice than that.
type NotRegular struct{ Path string }

func (e NotRegular) Error() string { return e.Path + " is not a regular file; choose another path" }

// Is reports whether the target is ErrUnsafe.
func (NotRegular) Is(target error) bool { return target == ErrUnsafe }

// Follow returns where a symbolic link leads, which need not be there, and any other path as it is. A link is followed
// if nobody but this user and root can change it: it and its directory belong to them, and others may not write to the
// directory. The same holds for each link that it leads to; the error for others matches ErrUnsafe. Otherwise whoever
// could change a link would choose which of the user's files is opened, and perhaps replaced. On Windows no link is
// followed. Links in the path's directory are left to the system.
func Follow(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 { // opening a missing file reports it
		return path, nil
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	return followLinks(filepath.Join(dir, filepath.Base(path)))
}

package osdisk

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// NTFS of Windows 10 can replace a file that others have open and mapped, as Unix does. Elsewhere (older systems, FAT,
// some servers, Wine) the old file steps aside first. Its name then says what is to become of it: at PATH.replacing it
// is still the one in force, should the process end before its successor is in place; at PATH.old-… it waits until
// nobody has it mapped any more and it can be removed.
const (
	suffixReplacing = ".replacing"
	suffixReplaced  = ".old-"
)

func rename(oldPath, newPath string) error {
	if renamePOSIX(oldPath, newPath) == nil {
		return nil
	}
	err := os.Rename(oldPath, newPath)
	for _, inTheWay := range []error{windows.ERROR_ACCESS_DENIED, windows.ERROR_SHARING_VIOLATION,
		windows.ERROR_USER_MAPPED_FILE} {
		if errors.Is(err, inTheWay) {
			return renameAside(oldPath, newPath)
		}
	}
	return err
}

// renamePOSIX has the new file take the place of one that others have open: they keep what they have. Both are in one
// directory.
func renamePOSIX(oldPath, newPath string) error {
	dir, err := os.OpenRoot(filepath.Dir(oldPath)) // whose Rename does so, as os.Rename does not
	if err != nil {
		return err
	}
	return errors.Join(dir.Rename(filepath.Base(oldPath), filepath.Base(newPath)), dir.Close())
}

// renameAside renames the old file away and the new one into its place, where nobody may have put another meanwhile. A
// process that ends between the two leaves the old one for restore.
func renameAside(oldPath, newPath string) error {
	aside := newPath + suffixReplacing
	if _, err := os.Lstat(aside); err == nil { // a process ended before it could remove it
		if err := discard(aside, newPath); err != nil {
			return err
		}
	}
	if err := move(newPath, aside); err != nil {
		return err
	}
	if err := move(oldPath, newPath); err != nil {
		restore(newPath)
		return err
	}
	_ = discard(aside, newPath) // it is no longer in force: whoever opens newPath sees its successor
	return nil
}

// move renames a file and fails if there is one of the new name.
func move(oldPath, newPath string) error {
	f, err := windows.UTF16PtrFromString(oldPath)
	if err != nil {
		return err
	}
	t, err := windows.UTF16PtrFromString(newPath)
	if err != nil {
		return err
	}
	if err := windows.MoveFileEx(f, t, windows.MOVEFILE_WRITE_THROUGH); err != nil {
		return &os.LinkError{Op: "rename", Old: oldPath, New: newPath, Err: err}
	}
	return nil
}

// restore puts a file that stepped aside back in its place if there is none. It reports whether there was such a file.
func restore(path string) bool { return move(path+suffixReplacing, path) == nil }

// discard removes a file that has been replaced, or, where it is still mapped, gives it a name for removeReplaced.
func discard(aside, path string) error {
	old := path + suffixReplaced + rand.Text()[:8]
	if err := move(aside, old); err != nil {
		return err
	}
	_ = os.Remove(old)
	return nil
}

// removeReplaced removes files that were replaced, as far as nobody has them mapped any more.
func removeReplaced(path string) {
	dir := filepath.Dir(path)
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		if strings.HasPrefix(f.Name(), filepath.Base(path)+suffixReplaced) {
			_ = os.Remove(filepath.Join(dir, f.Name()))
		}
	}
}

//go:build unix

package trust

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Foreign returns what lets another user change a file, or "".
func Foreign(_ *os.File, info fs.FileInfo) string {
	if problem := foreignOwner(info); problem != "" {
		return problem
	}
	return Writable(info)
}

// Writable reports that a mode lets others write to a file, or returns "".
func Writable(info fs.FileInfo) string {
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Sprintf("its mode %04o lets others write to it", mode)
	}
	return ""
}

// Renamable returns what lets another user rename files in a directory, or "".
func Renamable(dir fs.FileInfo) string {
	if problem := foreignOwner(dir); problem != "" || dir.Mode()&fs.ModeSticky != 0 {
		return problem
	}
	return Writable(dir)
}

// foreignOwner returns a file's owner, unless it is this user or root.
func foreignOwner(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return fmt.Sprintf("it belongs to user %d", st.Uid)
	}
	return ""
}

// maxLinks is how many links are followed before they are taken for a circle, as on Linux (path_resolution(7)).
const maxLinks = 40

// followLinks returns where a path leads whose directory has no links in it.
func followLinks(path string) (string, error) {
	dir := filepath.Dir(path)
	rest := []string{filepath.Base(path)}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			dir = filepath.Dir(dir)
			continue
		}
		next := filepath.Join(dir, name)
		info, err := os.Lstat(next)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 { // opening a missing file reports it
			dir = next
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		if err := trustedLink(next, info); err != nil {
			return "", err
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			dir = string(filepath.Separator)
		}
		rest = append(strings.Split(target, string(filepath.Separator)), rest...)
	}
	return dir, nil
}

// trustedLink returns an error that matches ErrUnsafe for a link that others can change.
func trustedLink(link string, info fs.FileInfo) error {
	const rule = "a symbolic link that others can change is not followed"
	if problem := foreignOwner(info); problem != "" {
		return fmt.Errorf("%s: %s, and %s: %w", link, problem, rule, ErrUnsafe)
	}
	dir := filepath.Dir(link)
	dirInfo, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if problem := Foreign(nil, dirInfo); problem != "" {
		return fmt.Errorf("%s: %s, and %s (%s): %w", dir, problem, rule, link, ErrUnsafe)
	}
	return nil
}

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

// maxLinks is how many links are followed before they are taken for a circle, as on Linux (path_resolution(7)).
const maxLinks = 40

// followLinks returns where a path leads whose directory has no links in it.
func followLinks(path string) (string, error) {
	at := filepath.Dir(path)
	rest := []string{filepath.Base(path)}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 { // what is not there is for who opens it to say
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		if err := trustedLink(next, info); err != nil {
			return "", err
		}
		to, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(to) {
			at = string(filepath.Separator)
		}
		rest = append(strings.Split(to, string(filepath.Separator)), rest...)
	}
	return at, nil
}

// trustedLink returns an error that matches ErrUnsafe for a link that others can change.
func trustedLink(link string, info fs.FileInfo) error {
	const rule = "a symbolic link that others can change is not followed"
	if why := foreignOwner(info); why != "" {
		return fmt.Errorf("%s: %s, and %s: %w", link, why, rule, ErrUnsafe)
	}
	dir := filepath.Dir(link)
	there, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if why := Foreign(nil, there); why != "" {
		return fmt.Errorf("%s: %s, and %s (%s): %w", dir, why, rule, link, ErrUnsafe)
	}
	return nil
}

package emulator

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// rootPrefix begins the names of roots in the directory for temporary files.
const rootPrefix = "xpwc-arm64-"

// errHeld: another process has the lock of a directory.
var errHeld = errors.New("another process has the lock")

// A root is a directory in which an emulated program finds absolute paths first: the system libraries, and a /proc and
// /sys with the machine's processors. qemu before 8.2 shows the host's /proc/cpuinfo instead, in which cpuinfo's code
// for arm64 finds nothing, and LiteRT's library then crashes.
type root struct {
	path string
	held *os.File // the directory, whose lock keeps removeAbandoned of other processes away; nil without a lock
}

// newRoot makes an empty root, and removes those of killed processes.
func newRoot() (*root, error) {
	removeAbandoned(os.TempDir())
	for {
		path, err := os.MkdirTemp("", rootPrefix)
		if err != nil {
			return nil, err
		}
		held, err := hold(path)
		switch {
		case err == nil:
			return &root{path, held}, nil
		case !errors.Is(err, errHeld) && !errors.Is(err, fs.ErrNotExist):
			return nil, errors.Join(err, os.Remove(path))
		}
		// Another process took it for an abandoned one before it was locked.
	}
}

// remove removes the root, also while it is being removed. A nil root is none.
func (r *root) remove() {
	if r == nil {
		return
	}
	_ = os.RemoveAll(r.path)
	if r.held != nil {
		_ = r.held.Close()
	}
}

// removeAbandoned removes this user's roots in a directory whose processes were killed. It removes what it can.
func removeAbandoned(dir string) {
	paths, _ := filepath.Glob(filepath.Join(dir, rootPrefix+"*"))
	for _, path := range paths {
		if !ownDirectory(path) {
			continue
		}
		held, err := hold(path)
		if err == nil && held != nil {
			_ = os.RemoveAll(path)
			_ = held.Close()
		}
	}
}

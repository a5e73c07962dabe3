//go:build unix

package trust

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Foreign says what about a file would let another user change it, or nothing.
func Foreign(_ *os.File, info fs.FileInfo) string {
	if why := foreignOwner(info); why != "" {
		return why
	}
	return Writable(info)
}

// Writable says of a file that its mode lets others write to it, or nothing.
func Writable(info fs.FileInfo) string {
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Sprintf("its mode %04o lets others write to it", mode)
	}
	return ""
}

// Renamable says what about a directory would let another user rename files in it, or nothing.
func Renamable(dir fs.FileInfo) string {
	if why := foreignOwner(dir); why != "" || dir.Mode()&fs.ModeSticky != 0 {
		return why
	}
	return Writable(dir)
}

// foreignOwner says whose a file is, unless it is this user's or root's.
func foreignOwner(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return fmt.Sprintf("it belongs to user %d", st.Uid)
	}
	return ""
}

//go:build darwin || dragonfly || freebsd || openbsd

package mapped

import "golang.org/x/sys/unix"

// makesTimes reports whether the file system that fd is on sets the time of change itself, by this machine's clock,
// whenever it changes a file. Those that do are named; HFS+ does too, but keeps whole seconds. Images (cd9660, udf),
// FAT, network file systems and FUSE do not.
func makesTimes(fd uintptr, _ State) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(fd), &fs) != nil {
		return false
	}
	switch typeName(&fs) {
	case "apfs", "ufs", "ffs", "zfs", "hammer2", "tmpfs":
		return true
	}
	return false
}

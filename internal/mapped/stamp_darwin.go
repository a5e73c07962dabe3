package mapped

import "golang.org/x/sys/unix"

// makesTimes reports whether the file system that fd is on sets the time of change itself, by this machine's clock,
// whenever it changes a file. APFS does; HFS+ does too, but keeps whole seconds. Images, FAT, network file systems and
// FUSE do not.
func makesTimes(fd uintptr, _ State) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(int(fd), &fs) == nil && unix.ByteSliceToString(fs.Fstypename[:]) == "apfs"
}

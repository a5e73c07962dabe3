package mapped

import "golang.org/x/sys/unix"

// makesTimes reports whether the file system that fd is on sets the time of change itself, by this machine's clock,
// whenever it changes a file. Those that do are named. Images (cd9660, udf), FAT, network file systems and FUSE do
// not.
func makesTimes(fd uintptr, _ State) bool {
	var fs unix.Statvfs_t
	if unix.Fstatvfs(int(fd), &fs) != nil {
		return false
	}
	switch unix.ByteSliceToString(fs.Fstypename[:]) {
	case "ffs", "zfs", "tmpfs":
		return true
	}
	return false
}

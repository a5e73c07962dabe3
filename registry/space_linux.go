package registry

import (
	"math"
	"math/bits"

	"golang.org/x/sys/unix"
)

// freeBytes returns how many bytes this user may write into a directory, if the file system reports it.
func freeBytes(dir string) (free int64, ok bool) {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil || fs.Blocks == 0 { // a file system without a size reports nothing
		return 0, false
	}
	high, low := bits.Mul64(fs.Bavail, uint64(fs.Bsize))
	return int64(low), high == 0 && low <= math.MaxInt64
}

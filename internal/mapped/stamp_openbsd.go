package mapped

import "golang.org/x/sys/unix"

func typeName(fs *unix.Statfs_t) string { return unix.ByteSliceToString(fs.F_fstypename[:]) }

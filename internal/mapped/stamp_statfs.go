//go:build darwin || dragonfly || freebsd

package mapped

import "golang.org/x/sys/unix"

func typeName(fs *unix.Statfs_t) string { return unix.ByteSliceToString(fs.Fstypename[:]) }

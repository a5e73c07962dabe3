package mapped

import "golang.org/x/sys/unix"

// zfsMagic is OpenZFS', which is not part of Linux (include/os/linux/zfs/sys/zfs_vfsops_os.h).
const zfsMagic = 0x2fc12fc1

// makesTimes reports whether the file system that fd is on sets the time of change itself, by this machine's clock,
// whenever it changes a file. Those that do are named; of any other nobody knows:
//   - squashfs, EROFS, cramfs, romfs and ISO 9660 are made by a program, which chooses all times. They have one for a
//     file, and give it as the time of change too.
//   - FAT and exFAT keep no time of change.
//   - FUSE, 9P and virtiofs return the times of another program.
//   - tmpfs does not see what programs change through mappings, once they have read it there.
//   - NFS, SMB and other network file systems have the times of a server, whose clock and whose own file system are
//     not known here.
func makesTimes(fd uintptr, s State) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(fd), &fs) != nil {
		return false
	}
	switch uint32(fs.Type) {
	case unix.EXT4_SUPER_MAGIC, // and ext2's and ext3's
		unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.BCACHEFS_SUPER_MAGIC, zfsMagic:
		return true
	case unix.OVERLAYFS_SUPER_MAGIC:
		// The file is one of an unknown layer below. If that is an image, or FAT, the two times are one. They differ
		// for files that were unpacked from a container's image, whose times of modification were set afterwards.
		return s.Changed != s.Modified
	}
	return false
}

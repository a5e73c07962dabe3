package mapped

import "golang.org/x/sys/unix"

// writeBack has the system write all that was changed of the file that is open as fd, and waits for it. Until a page
// is written, a program that changed it through a mapping can change it again, and no time of the file shows that.
// From then on each change shows. It takes some microseconds if there is nothing to write.
func writeBack(fd uintptr) error {
	const andWait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	return unix.SyncFileRange(int(fd), 0, 0, andWait)
}

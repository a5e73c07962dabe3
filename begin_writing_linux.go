package xpwc

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// cannotBeginWriting are the errors of systems, file systems and sandboxes that do not have the call.
var cannotBeginWriting = []syscall.Errno{unix.ENOSYS, unix.EOPNOTSUPP, unix.EINVAL, unix.ESPIPE, unix.EPERM}

// BeginWriting implements [store.EarlyWriter]. With SYNC_FILE_RANGE_WRITE alone the kernel neither waits for pages nor
// looks at the errors of those that were written: in sync_file_range of fs/sync.c only the two flags that wait take
// note of them (file_fdatawait_range) and so keep them from fsync. What is returned is the error of beginning, which
// fsync may not learn of.
func (d *osDisk) BeginWriting(offset, size int64) error {
	if err := d.syncRange(offset, size, unix.SYNC_FILE_RANGE_WRITE); err != nil {
		return fmt.Errorf("begin to write packed weights: %w", err)
	}
	return nil
}

// Failed implements [store.FailureTeller]. With SYNC_FILE_RANGE_WAIT_BEFORE the kernel waits for pages of the range
// that are being written, and then returns an error of the whole file that this descriptor has not returned yet. The
// range is the header's page, for which there is mostly nothing to wait.
func (d *osDisk) Failed() error {
	err := d.syncRange(0, 1, unix.SYNC_FILE_RANGE_WAIT_BEFORE)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

func (d *osDisk) syncRange(offset, size int64, flags int) error {
	c, err := d.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := c.Control(func(fd uintptr) {
		for {
			err = unix.SyncFileRange(int(fd), offset, size, flags)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	var errno syscall.Errno
	switch {
	case controlErr != nil: // it is closed, which os has no sentinel for here: nothing of it will be committed
		return nil
	case errors.As(err, &errno) && slices.Contains(cannotBeginWriting, errno):
		return errors.Join(errors.ErrUnsupported, err)
	}
	return err
}

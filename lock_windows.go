package xpwc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// lockAt is a byte far beyond any file's end: on Windows a lock is mandatory and must not keep readers from the
// content.
var lockAt = windows.Overlapped{Offset: 0, OffsetHigh: 1 << 30}

// lockExclusive takes the writer's lock of an open file without waiting; false: another process has it.
func lockExclusive(f *os.File) (bool, error) {
	at := lockAt
	const exclusiveNow = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), exclusiveNow, 0, 1, 0, &at)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	default:
		return false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
}

func unlock(f *os.File) error {
	at := lockAt
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &at)
}

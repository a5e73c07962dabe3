package mapped

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// RestsAt reports whether the file that is open as fd would have a stamp at a later time, if nothing changes.
func RestsAt(fd uintptr, clock time.Time) bool {
	s, err := StateOf(fd)
	return err == nil && s.rests(writersOf(fd, clock), clock)
}

var Unchangeable = unchangeable

// SystemOf returns what file system a file is on.
func SystemOf(t *testing.T, path string) string {
	var s unix.Statx_t
	require.NoError(t, unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &s))
	m, _ := mountOf(s.Mnt_id)
	return m.system
}

package xpwc

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"xpwc/internal/store"
)

// emptyPages are what Prepare writes. Nothing writes to them, so that they take no memory.
var emptyPages [store.PreparedAtOnce]byte

// Prepares implements [store.Preparer].
func (d *osDisk) Prepares() bool {
	return largeWritten() && fileSystemOf(d.File) == unix.EXT4_SUPER_MAGIC
}

// Prepare implements [store.Preparer]. It writes zeros where there are zeros: the page cache takes one large page for
// each call. That costs less than the pages that it has when page faults ask for them, and less to compute from.
func (d *osDisk) Prepare(offset, size int64) error {
	_, err := d.WriteAt(emptyPages[:size], offset)
	return err
}

// largeWritten reports whether ext4 has large pages for what is written: since Linux 6.16.
var largeWritten = sync.OnceValue(func() bool {
	var name unix.Utsname
	var major, minor int
	if unix.Uname(&name) != nil {
		return false
	}
	_, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	return err == nil && (major > 6 || major == 6 && minor >= 16)
})

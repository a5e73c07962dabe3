package mapped

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"xpwc/internal/digest"
)

const ownerIsGroup = 2 // F_OWNER_PGRP (fcntl.h)

// writersOf finds out whether somebody can write to the file that is open as fd: by a lease, or by the rules of
// held_linux.go for a user without one. The descriptor must be this process' own: a lease belongs to it.
func writersOf(fd uintptr, clock time.Time) writers {
	if others := leased(fd); others != writersUnknown {
		return others
	}
	if unchangeable(fd) {
		return noWriter
	}
	s, err := StateOf(fd)
	if err == nil && s.sinceChange(clock) > directWrite && !s.old(clock) && writesEnded(fd) {
		return noWriteUnderWay
	}
	return writersUnknown
}

// leased asks for a lease of the file that is open as fd, for reading alone, and gives it up at once: the system grants
// none while somebody can write to the file, also through a mapping. Without CAP_LEASE it grants none on another user's
// file, and some file systems grant none at all. A program that opens the file for writing meanwhile waits until the
// lease is given up.
func leased(fd uintptr) writers {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	if thread == os.Getpid() {
		result := make(chan writers)
		go func() { result <- leased(fd) }() // on another thread, since this one is taken
		return <-result
	}
	if unowned(fd, thread) != 0 {
		return writersUnknown
	}
	// Raw calls: Go's scheduler does not come between the two.
	_, _, refused := unix.RawSyscall(unix.SYS_FCNTL, fd, unix.F_SETLEASE, unix.F_RDLCK)
	if refused == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_FCNTL, fd, unix.F_SETLEASE, unix.F_UNLCK)
		return noWriter
	}
	if refused == unix.EAGAIN && !ofServer(fd) {
		return aWriter
	}
	return writersUnknown
}

// unowned gives the file's signals to nobody, until its lease ends. When a program waits for the end of a lease, the
// system sends a signal to the owner, which would end a host that does not expect one. The owner is a process group
// without processes: the number of a thread that is not the first of its process is no group's.
func unowned(fd uintptr, thread int) syscall.Errno {
	owner := struct{ kind, id int32 }{ownerIsGroup, int32(thread)}
	_, _, failed := unix.RawSyscall(unix.SYS_FCNTL, fd, unix.F_SETOWN_EX, uintptr(unsafe.Pointer(&owner)))
	return failed
}

// ofServer reports whether the file is on a server, whose answer to the request for a lease does not depend on writers.
func ofServer(fd uintptr) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(fd), &fs) != nil {
		return true
	}
	switch uint32(fs.Type) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		return true
	}
	return false
}

// writersOfOpen is writersOf for an opening that others may have a lease of, or be the owner of.
func writersOfOpen(fd uintptr, clock time.Time) writers {
	if _, err := StateOf(fd); err != nil {
		return writersUnknown
	}
	reopened, err := reopen(fd)
	if err != nil {
		return writersUnknown
	}
	defer unix.Close(reopened)
	return writersOf(uintptr(reopened), clock)
}

// contentOf returns the digest of all that is in the file. It reads through the descriptor, since the file may be cut
// off meanwhile.
func contentOf(fd uintptr) (digest.Digest, error) {
	var h digest.Hash
	part := make([]byte, 32<<10)
	for offset := int64(0); ; {
		n, err := unix.Pread(int(fd), part, offset)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return digest.Digest{}, os.NewSyscallError("pread", err)
		case n == 0:
			return h.Sum(), nil
		}
		_, _ = h.Write(part[:n])
		offset += int64(n)
	}
}

// flush brings the content of the file to the disk, and its times: old times with new content would match an old stamp
// after a power failure. Neither sync_file_range nor fdatasync brings times.
func flush(fd uintptr) error { return unix.Fsync(int(fd)) }

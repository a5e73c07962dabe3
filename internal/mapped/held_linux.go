package mapped

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Rules for a user without a lease: everybody but the file's owner. Each rule guarantees what the lease guarantees: no
// change of the content is under way, and every later change also changes a time. /proc adds no rule: another user's
// descriptors are visible only to users who get a lease anyway.

// A mount is where a file is.
type mount struct {
	system  string   // of the file system: "ext4"
	options []string // of the file system, and not only of this mount of it
}

// unchangeable reports whether nobody can change the file that is open as fd. One of these rules must hold:
//   - The file has fs-verity. The kernel enables it only without a writer, refuses writers afterwards, and checks every
//     page that it reads.
//   - The file is immutable (chattr +i), on ext4 of Linux 5.2 or later. That kernel waits for writes and flushes
//     mappings before it sets the flag, and fails every later write, also through open descriptors and mappings. Other
//     file systems let open descriptors write.
//   - The file system is read-only. The kernel remounts it read-only only without a writer. After a disk error, or by
//     force, it does so with writers: then fsync fails, or ends writes through mappings. A read-only mount of a
//     writable file system (systemd's ProtectSystem=, a container's volume) guarantees nothing.
func unchangeable(fd uintptr) bool {
	var s unix.Statx_t
	const mountID = unix.STATX_MNT_ID
	if unix.Statx(int(fd), "", unix.AT_EMPTY_PATH, mountID, &s) != nil || s.Mask&mountID == 0 {
		return false
	}
	m, ok := mountOf(s.Mnt_id)
	switch {
	case s.Attributes&unix.STATX_ATTR_VERITY != 0:
		return true
	case !ok:
		return false
	case s.Attributes&unix.STATX_ATTR_IMMUTABLE != 0 && m.system == "ext4":
		return kernelSince(5, 2)
	}
	local := slices.Contains([]string{"ext4", "xfs", "btrfs", "f2fs"}, m.system)
	return local && slices.Contains(m.options, "ro") && flush(fd) == nil
}

// mountOf finds a mount of this process by its number (proc_pid_mountinfo(5)).
func mountOf(id uint64) (m mount, ok bool) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return m, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		number, _, _ := strings.Cut(lines.Text(), " ")
		if number != strconv.FormatUint(id, 10) {
			continue
		}
		_, system, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(system); len(fields) == 3 {
			return mount{fields[0], strings.Split(fields[2], ",")}, true
		}
	}
	return m, false
}

// kernelSince reports whether the kernel has this version or a later one.
func kernelSince(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	parts := strings.SplitN(unix.ByteSliceToString(u.Release[:]), ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	return errA == nil && errB == nil && (a > major || a == major && b >= minor)
}

// barrierWait limits the wait for a write. Its goroutine ends with the write.
const barrierWait = 100 * time.Millisecond

// writesEnded reports whether every write that began before this call has ended, on ext4. A write holds the inode's
// lock, and SEEK_HOLE takes it; so a later write has a later time. fsync makes mapped pages read-only, so the next
// store through a mapping has a later time too. A direct write that is not awaited (O_DIRECT with io_submit or
// io_uring) releases the lock before the device has finished: directWrite covers it. Other file systems, and
// data=journal, are not covered.
func writesEnded(fd uintptr) bool {
	var s unix.Statx_t
	if unix.Statx(int(fd), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &s) != nil {
		return false
	}
	m, ok := mountOf(s.Mnt_id)
	if !ok || m.system != "ext4" || slices.Contains(m.options, "data=journal") {
		return false
	}
	reopened, err := reopen(fd) // the seek must not move the host's offset
	if err != nil {
		return false
	}
	ended := make(chan error, 1)
	go func() {
		defer unix.Close(reopened)
		_, err := unix.Seek(reopened, 0, unix.SEEK_HOLE)
		if err == nil {
			err = flush(uintptr(reopened))
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return err == nil
	case <-time.After(barrierWait): // a blocked write must not block a start
		return false
	}
}

// reopen opens the file that is open as fd once more.
func reopen(fd uintptr) (int, error) {
	return unix.Open("/proc/self/fd/"+strconv.Itoa(int(fd)), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
}

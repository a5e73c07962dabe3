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

// What says that no change of a file is under way where there is no lease to be had: for every user but the file's
// owner. Each rule gives what the lease gives, that whatever changes the content afterwards changes a time too. /proc
// gives nothing: it shows another user's descriptors only to those who get a lease as well.

// A mount is where a file is.
type mount struct {
	system  string   // of the file system: "ext4"
	options []string // of the file system, and not only of this mount of it
}

// unchangeable reports whether nobody can change the file that is open as fd:
//   - Its file system is read-only as a whole. A mount may be read-only (systemd's ProtectSystem=, a container's volume)
//     while the file system is written through another: that says nothing. The system makes it read-only while nobody
//     has a file open for writing. After an error of the disk, or by force, it does so with writers; then fsync fails,
//     or has ended what they do through mappings.
//   - It has fs-verity: the system checks all that is read against a digest, lets nobody write, and had no writer when
//     that began.
//   - It is immutable (chattr +i), on ext4 of Linux 5.2 and later, which ends all writes and flushes all mappings before
//     it says so, and fails those that come afterwards, also by who had the file open. Others let those write.
func unchangeable(fd uintptr) bool {
	var s unix.Statx_t
	const mountID = unix.STATX_MNT_ID
	if unix.Statx(int(fd), "", unix.AT_EMPTY_PATH, mountID, &s) != nil || s.Mask&mountID == 0 {
		return false
	}
	m, known := mountOf(s.Mnt_id)
	switch {
	case s.Attributes&unix.STATX_ATTR_VERITY != 0:
		return true
	case !known:
		return false
	case s.Attributes&unix.STATX_ATTR_IMMUTABLE != 0 && m.system == "ext4":
		return kernelSince(5, 2)
	}
	local := slices.Contains([]string{"ext4", "xfs", "btrfs", "f2fs"}, m.system)
	return local && slices.Contains(m.options, "ro") && flush(fd) == nil
}

// mountOf finds a mount of this process by its number (proc_pid_mountinfo(5)).
func mountOf(id uint64) (m mount, known bool) {
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
		if of := strings.Fields(system); len(of) == 3 {
			return mount{of[0], strings.Split(of[2], ",")}, true
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

// mostWait is how long a write is waited for.
const mostWait = 100 * time.Millisecond

// noWriteEnds reports whether every write that began before this call has ended: what comes later has later times. It
// is true of ext4 alone, which holds the file's lock while it writes, and takes it for SEEK_HOLE. What was written
// through a mapping is flushed, so that the next change through it has a time. A write that bypasses the page cache and
// is not waited for (O_DIRECT with io_submit or io_uring) holds no lock while the device works: see directWrite.
func noWriteEnds(fd uintptr) bool {
	var s unix.Statx_t
	if unix.Statx(int(fd), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &s) != nil {
		return false
	}
	m, known := mountOf(s.Mnt_id)
	if !known || m.system != "ext4" || slices.Contains(m.options, "data=journal") { // which flushes otherwise
		return false
	}
	own, err := reopen(fd) // whose offset is nobody's
	if err != nil {
		return false
	}
	ended := make(chan error, 1)
	go func() {
		defer unix.Close(own)
		_, err := unix.Seek(own, 0, unix.SEEK_HOLE)
		if err == nil {
			err = flush(uintptr(own))
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return err == nil
	case <-time.After(mostWait): // a write that is held up must not hold up a start
		return false
	}
}

// reopen opens the file that is open as fd once more.
func reopen(fd uintptr) (int, error) {
	return unix.Open("/proc/self/fd/"+strconv.Itoa(int(fd)), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
}

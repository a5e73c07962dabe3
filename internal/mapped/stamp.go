package mapped

import (
	"fmt"
	"time"

	"xpwc/internal/digest"
)

// State is a file system's metadata of an open file, as far as it depends on the content.
type State struct {
	Device, Inode uint64
	Size          int64
	// Modified and Changed are nanoseconds since 1970. Programs can set Modified as they like. Changed is when the
	// file system last saw content or attributes change; where a system has no such time it is zero.
	Modified, Changed int64
	Links             uint64
	// Content is the digest of all that is in the file. It is zero for a file that was at rest: the times show each
	// later change of it.
	Content digest.Digest
}

// A file system counts time in ticks of some milliseconds, so a file can be written to twice at one time. Systems
// count at least 100 ticks a second; the rest is for a virtual machine that did not run.
const tick = 50 * time.Millisecond

// second is the tick of file systems that keep whole seconds.
const second = int64(time.Second)

// plausible is 1990-01-01. No file system of today changed a file before; images have times at an epoch, and so has a
// machine whose clock was not set yet.
const plausible = 631_152_000 * second

// Stamp returns text that differs whenever the content of the file that is open as fd does, without reading the file:
// its device, inode, size, and times of modification and of change, the latter of which programs cannot set. The
// caller keeps fd. What is not a regular file has none: ErrNotRegular.
//
// It is empty where the times prove nothing: on a file system that does not make its change times itself (see
// makesTimes), where the time is that of an image's making, or where the file was changed so lately that it could be
// again at the same time; and, on Linux, for a file that is not at rest. It waits until what was changed within a day
// is on the disk, there as well.
func Stamp(fd uintptr) (string, error) {
	clock := time.Now() // before the file is looked at: what comes later is younger
	others := writersOfOpen(fd, clock)
	s, err := StateOf(fd)
	if err != nil || !s.rests(others, clock) {
		return "", err
	}
	return s.stamp(fd, clock), nil
}

// stamp returns the stamp of a file that is at rest.
func (s State) stamp(fd uintptr, clock time.Time) string {
	if !s.dated(clock) || !makesTimes(fd, s) || !s.old(clock) && flush(fd) != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d:%d:%d:%d", s.Device, s.Inode, s.Size, s.Modified, s.Changed)
}

// dated reports whether the time of change is one that a file system made, and that no later change can have too. A
// whole second is what those have who make images of ext4, XFS or f2fs, which keep nanoseconds otherwise.
func (s State) dated(clock time.Time) bool {
	return s.Changed >= plausible && s.Changed%second != 0 && clock.UnixNano()-s.Changed >= int64(tick)
}

// ChangedSince reports whether the content of the file that is open as fd may have changed since it was in the state
// before. A change of attributes (an owner, a mode, a name) counts, since it looks like content whose time of
// modification was put back. A link that the file got or lost does not count: a file loses one when another is put in
// its place. If the file was changed right before that state, at a time that a second change could have too,
// ChangedSince returns when such a change would show: after some tens of milliseconds, or two seconds where the file
// system keeps whole seconds. Once it has returned false for a state, a change will show; but one by another machine,
// on a network file system, shows when this one asks the server again. Of a file that was not at rest the content is
// read again and compared. Where the system does not report whether a file is at rest, a write that had begun before
// the state does not show, and what a program writes through a mapping of its own shows with its first write to a page.
func ChangedSince(fd uintptr, prev State) (bool, error) {
	if wait := prev.unsettled(time.Now()); wait > 0 {
		time.Sleep(wait)
	}
	cur, err := StateOf(fd)
	if err != nil {
		return false, err
	}
	linked := cur.Changed != prev.Changed && cur.Links != prev.Links
	if cur.Size != prev.Size || cur.Modified != prev.Modified || cur.Changed != prev.Changed && !linked {
		return true, nil
	}
	if prev.Content == (digest.Digest{}) {
		return false, nil
	}
	cur.Content, err = contentOf(fd)
	return cur.Content != prev.Content, err
}

// unsettled returns how long it is until a change will have another time than the file has. A time in the future is
// one that another clock made: this one will not come to it in a moment.
func (s State) unsettled(clock time.Time) time.Duration {
	last, granularity := max(s.Modified, s.Changed), tick
	if last%second == 0 {
		granularity = 2 * time.Second // of FAT; others keep one
	}
	wait := time.Duration(last-clock.UnixNano()) + granularity
	if wait > 2*granularity {
		return 0
	}
	return wait
}

package mapped

import "time"

// A file is at rest when no change of it is under way. Times alone do not show that: a file system sets them when a
// write begins, and the content changes until it ends. So a stamp is of a file at rest only, and of any other file the
// content is compared.

// writers is the system's answer about programs that have a file open for writing.
type writers int

const (
	writersUnknown writers = iota // the system does not report them
	noWriter
	aWriter
	noWriteUnderWay // no write is under way, except perhaps a direct one; there may be writers
)

// aDay is how long after its last change a file counts as at rest and as written to the disk, where the system does not
// report either: one write moves at most 2 GiB, pages are written after 30 seconds, and times, on a file system that is
// mounted with lazytime, after 12 hours.
const aDay = 24 * time.Hour

// directWrite is the age at which a direct write has ended. Linux gives up on a device within 30 seconds for each of
// six tries (SCSI, NVMe), 2 minutes (iSCSI) or 10 minutes (NVMe over a network).
const directWrite = 15 * time.Minute

// look returns the state of the file that is open as fd; others is its writers, determined earlier. It reads the
// content of a file that is not at rest.
func look(fd uintptr, others writers, clock time.Time) (State, error) {
	s, err := StateOf(fd)
	if err == nil && !s.rests(others, clock) {
		s.Content, err = contentOf(fd)
	}
	return s, err
}

// rests reports whether the file was at rest at a time before the state was taken, and any later change shows.
func (s State) rests(others writers, clock time.Time) bool {
	switch {
	case s.unsettled(clock) > 0: // a write that began just now would have the same time
		return false
	case others == writersUnknown:
		return s.old(clock)
	case others == noWriteUnderWay:
		return s.sinceChange(clock) > directWrite
	default:
		return others == noWriter
	}
}

// old reports whether the last change was more than a day ago.
func (s State) old(clock time.Time) bool {
	return s.sinceChange(clock) > aDay
}

func (s State) sinceChange(clock time.Time) time.Duration {
	return time.Duration(clock.UnixNano() - max(s.Modified, s.Changed))
}

// Look returns the state of the regular file that is open as fd, which stays the caller's, for [ChangedSince]. On
// Linux a file that is not at rest is read for that, so fd must be open for reading. The error is the system's or
// ErrNotRegular.
func Look(fd uintptr) (State, error) {
	clock := time.Now()
	return look(fd, writersOfOpen(fd, clock), clock)
}

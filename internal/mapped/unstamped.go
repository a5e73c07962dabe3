package mapped

import "time"

// Why a file has no stamp: see package xpwc.
const (
	Written    = "written"
	Owner      = "owner"
	FileSystem = "file-system"
)

// Unstamped returns why the file has no stamp, "" if it has one.
func (f *File) Unstamped() string {
	if f.Stamp() != "" {
		return ""
	}
	return f.unstamped
}

// unstamped returns why a file in this state has no stamp.
func (s State) unstamped(others writers, clock time.Time) string {
	switch {
	case s.rests(others, clock) && clock.UnixNano()-s.Changed >= int64(tick):
		return FileSystem
	case others != noWriter && others != aWriter && s.unsettled(clock) <= 0:
		return Owner
	}
	return Written
}

//go:build unix && !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package mapped

// makesTimes reports whether the file system sets the time of change itself. Nothing is known of those of this system.
func makesTimes(uintptr, State) bool { return false }

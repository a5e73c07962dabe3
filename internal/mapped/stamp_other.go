//go:build unix && !linux && !darwin

package mapped

// makesTimes reports whether the file system sets the time of change itself. Of those of this system that is not known:
// contents are compared.
func makesTimes(uintptr, State) bool { return false }

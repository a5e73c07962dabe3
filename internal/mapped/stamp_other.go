//go:build unix && !linux && !darwin

package mapped

// makesTimes reports whether the file system sets the time of change itself. It is not known for the file systems of
// this system: contents are compared.
func makesTimes(uintptr, State) bool { return false }

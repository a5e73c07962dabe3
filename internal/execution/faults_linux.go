package execution

import "golang.org/x/sys/unix"

// PageFaults returns this process' faults so far.
func PageFaults() Faults {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return Faults{}
	}
	return Faults{int64(u.Minflt), int64(u.Majflt)}
}

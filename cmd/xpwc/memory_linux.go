package main

import (
	"os"

	"golang.org/x/sys/unix"
)

func readMemory() (memory, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return memory{}, err
	}
	rollup, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return memory{}, err
	}
	return parseMemory(status, rollup)
}

// pageFaults returns this process' faults so far.
func pageFaults() faults {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return faults{}
	}
	return faults{int64(u.Minflt), int64(u.Majflt)}
}

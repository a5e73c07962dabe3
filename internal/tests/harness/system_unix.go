//go:build unix

package harness

import (
	"syscall"
	"testing"
	"time"
)

// AccessViolation is Go's message for a process that wrote to read-only memory.
const AccessViolation = "SIGSEGV"

// wasKilled reports whether a child that has ended was killed.
func wasKilled(c *Child) bool {
	status := c.ProcessState.Sys().(syscall.WaitStatus)
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}

// SampleStep returns n for tests that try every nth damaged file: 1, unless -short is given.
func SampleStep() int {
	if testing.Short() {
		return 7
	}
	return 1
}

// ProcessorTime returns how long this process has used processors, all threads together.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

//go:build unix

package harness

import (
	"syscall"
	"testing"
	"time"
)

// AccessViolation is what Go says of a process that wrote to memory it may not write to.
const AccessViolation = "SIGSEGV"

// wasKilled reports whether a child that has ended was killed.
func wasKilled(c *Child) bool {
	status := c.ProcessState.Sys().(syscall.WaitStatus)
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}

// SampleStep says that of so many damaged files one is tried: all of them, unless -short is given.
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

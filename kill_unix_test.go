//go:build unix

package xpwc

import "syscall"

// accessViolation is what Go says of a process that wrote to memory it may not write to.
const accessViolation = "SIGSEGV"

// wasKilled reports whether a child that has ended was killed.
func wasKilled(c *Child) bool {
	status := c.ProcessState.Sys().(syscall.WaitStatus)
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}

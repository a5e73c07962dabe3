package harness

import (
	"strings"
	"syscall"
	"time"
)

// AccessViolation is Go's message for a process that wrote to read-only memory: EXCEPTION_ACCESS_VIOLATION.
const AccessViolation = "0xc0000005"

// wasKilled reports whether a child that has ended was killed. It has the exit code of a failed test then, without the
// output of one.
func wasKilled(c *Child) bool {
	output := c.String()
	return c.ProcessState.ExitCode() == 1 && !strings.Contains(output, "FAIL") && !strings.Contains(output, "panic")
}

// SampleStep returns n for tests that try every nth damaged file: opening one takes fifty times as long under Wine.
func SampleStep() int { return 61 }

// ProcessorTime returns how long this process has used processors, all threads together.
func ProcessorTime() time.Duration {
	var created, ended, kernel, user syscall.Filetime
	self, _ := syscall.GetCurrentProcess() // never fails, nor the next
	_ = syscall.GetProcessTimes(self, &created, &ended, &kernel, &user)
	hundreds := func(t syscall.Filetime) int64 { return int64(t.HighDateTime)<<32 | int64(t.LowDateTime) }
	return time.Duration(hundreds(kernel)+hundreds(user)) * 100
}

package xpwc

import "strings"

// accessViolation is what Go says of a process that wrote to memory it may not write to: EXCEPTION_ACCESS_VIOLATION.
const accessViolation = "Exception 0xc0000005"

// wasKilled reports whether a child that has ended was killed. Its exit code is then that of a test that failed, which would
// have said so.
func wasKilled(c *Child) bool {
	said := c.String()
	return c.ProcessState.ExitCode() == 1 && !strings.Contains(said, "FAIL") && !strings.Contains(said, "panic")
}

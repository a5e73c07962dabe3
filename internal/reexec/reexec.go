// Package reexec starts the running program again: tests run their own binary as another process.
package reexec

import (
	"os"
	"os/exec"
	"strings"
)

// Emulator names the variable of the command that a foreign architecture's programs run under, with its arguments
// separated by spaces. The system cannot start such a program by itself; unset, it can.
const Emulator = "XPWC_TEST_EMULATOR"

// Command returns the running program with other arguments, to be started. Its environment is this process' own.
func Command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	cmd := Program(self, args...)
	if err != nil {
		cmd.Err = err // Start returns it
	}
	return cmd
}

// Program returns a program that was built for the same architecture as the running one, with arguments, to be started.
func Program(path string, args ...string) *exec.Cmd {
	line := append(strings.Fields(os.Getenv(Emulator)), path)
	line = append(line, args...)
	return exec.Command(line[0], line[1:]...)
}

package testkit

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Emulator names the variable of the command that a foreign architecture's programs run under, with its arguments
// separated by spaces. The system cannot start such a program by itself; unset, it can.
const Emulator = "XPWC_TEST_EMULATOR"

// Command returns the running program with other arguments, to be started: tests run their own binary as another
// process. Its environment is this process' own.
func Command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	line := append(strings.Fields(os.Getenv(Emulator)), self)
	line = append(line, args...)
	cmd := exec.Command(line[0], line[1:]...)
	if err != nil {
		cmd.Err = err // Start returns it
	}
	return cmd
}

// Await starts a command and returns when it has printed a line. The command is to go on until its standard input ends,
// which is at the end of the test if the caller does not close it before.
func Await(t testing.TB, cmd *exec.Cmd, line string) (input io.Closer) {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	printed, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, line+"\n", printed)
	return stdin
}

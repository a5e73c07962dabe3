package reexec

import (
	"bufio"
	"io"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

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

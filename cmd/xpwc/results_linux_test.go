package main

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResultsThatCannotBePrintedAreAnError(t *testing.T) {
	dir, _ := packed(t, face)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for _, c := range []struct {
		code int
		args []string
	}{
		{1, []string{"verify", "model.xpwc"}},
		{1, []string{"who", "model.xpwc", "--json"}},
		{1, []string{"report", "model.xpwc", "-o", "report.html"}},
		{1, []string{"compact", "model.xpwc"}},
		{1, []string{"inspect", "--help"}},
		{2, []string{"diff", "model.xpwc", "model.xpwc"}},
		{2, []string{"diff", "model.xpwc", "model.xpwc", "--json"}},
	} {
		cmd := exec.Command(tool, c.args...)
		var stderr bytes.Buffer
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, full, &stderr
		require.Error(t, cmd.Run(), "%v", c.args)
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%v", c.args)
		require.Equal(t, "xpwc: /dev/stdout: no space left on device\n", stderr.String(), "%v", c.args)
	}
}

func TestMessagesDoNothingToATerminal(t *testing.T) {
	dir := t.TempDir()
	require.Equal(t, "xpwc: no?[31m?file: no such file or directory\n",
		says(t, dir, 1, "inspect", "no\x1b[31m\u202efile"))
}

//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"testing"

	"github.com/stretchr/testify/require"
)

// Hashing or verifying a large file cannot.
func TestASecondInterruptEndsWhatCannotStopAtOnce(t *testing.T) {
	obeyInterrupts(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envStuck+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer stdin.Close()
	lines := bufio.NewScanner(stdout)
	require.True(t, lines.Scan())
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.True(t, lines.Scan(), "the first interrupt is received")
	require.Equal(t, "interrupted", lines.Text())
	// What comes at once is the same interrupt.
	go func() {
		for cmd.Process.Signal(os.Interrupt) == nil {
		}
	}()
	require.Error(t, cmd.Wait())
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
}

// obeyInterrupts lets the commands that a test starts be interrupted, also where this process was started with nohup or
// in the background of a shell: they would inherit that it ignores the signals.
func obeyInterrupts(t *testing.T) {
	t.Helper()
	received := make(chan os.Signal, 1)
	signal.Notify(received, interrupts...)
	t.Cleanup(func() { signal.Stop(received) })
}

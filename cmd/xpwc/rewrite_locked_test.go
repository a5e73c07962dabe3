//go:build unix

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestLookingNeedsNoLockAndRewritingDoes(t *testing.T) {
	dir, file := packed(t, face)
	writer, err := os.Open(file)
	require.NoError(t, err)
	defer writer.Close()
	require.NoError(t, unix.Flock(int(writer.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	printed(t, dir, 0, "inspect", "model.xpwc", "--check")
	printed(t, dir, 0, "verify", "model.xpwc")
	printed(t, dir, 0, "convert", "model.xpwc", "--to", "native", "-o", "copy")
	original, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, printed(t, dir, 1, "compact", "model.xpwc", "--wait", "0s"), "is being written to")
	require.Contains(t, printed(t, dir, 1, "prune", "model.xpwc", "--wait", "0s", "--max-size", "100KiB"),
		"is being written to")
	final, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, original, final)
}

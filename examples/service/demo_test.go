package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The demo is ended while it waits for an answer. It runs behind a proxy that knows nothing of this machine.
func TestADemoThatIsEndedLeavesNoService(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
		return path
	}
	service := script("a service", `echo $$ >"$0.pid"; echo serving on http://127.0.0.1:1; exec tail -f /dev/null`)
	script("curl", `echo "$no_proxy" >"$0.no_proxy"; kill -TERM $PPID`)
	demo := exec.Command("./demo.sh", service, dir, dir)
	demo.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "no_proxy=")
	require.Error(t, demo.Run())
	text, err := os.ReadFile(service + ".pid")
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	process, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.ErrorIs(t, process.Kill(), os.ErrProcessDone)
	exempt, err := os.ReadFile(filepath.Join(dir, "curl.no_proxy"))
	require.NoError(t, err)
	require.Equal(t, "*\n", string(exempt))
}

//go:build cgo && (amd64 || arm64)

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// Another file is copied over the cache while it is read, at once or during a start. Outputs are right, or the command
// fails with a message.
func TestACacheThatIsOverwrittenWhileItIsUsedGivesNoWrongOutputs(t *testing.T) {
	model := testModel(t, "hand_landmark_full.tflite")
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	want, _ := runJSON(t, dir, model, "--cache", "right")
	content, err := os.ReadFile(model)
	require.NoError(t, err)
	for i := len(content) / 2; i < len(content)*5/8; i += 64 {
		content[i] ^= 1
	}
	require.NoError(t, os.WriteFile(path("other.tflite"), content, 0o600))
	second, _ := runJSON(t, dir, "other.tflite", "--cache", "other")
	require.NotEqual(t, want.Outputs[0].SHA256, second.Outputs[0].SHA256)
	right, err := os.ReadFile(path("right"))
	require.NoError(t, err)
	wrong, err := os.ReadFile(path("other"))
	require.NoError(t, err)
	random := testkit.Random(t)
	ended := map[int]int{}
	for range 8 {
		require.NoError(t, os.WriteFile(path("live"), right, 0o600))
		cmd := exec.Command(tool, "run", "--json", model, "--cache", path("live"))
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		require.NoError(t, cmd.Start())
		for until := time.Now().Add(time.Duration(random.IntN(60)) * time.Millisecond); time.Now().Before(until); {
			if hasMapped(cmd.Process.Pid, path("live")) && random.IntN(20) == 0 {
				break
			}
		}
		require.NoError(t, os.WriteFile(path("live"), wrong, 0o600))
		_ = cmd.Wait()
		code := cmd.ProcessState.ExitCode()
		ended[code]++
		require.NotContains(t, stderr.String(), "goroutine")
		if code == 0 {
			for _, o := range want.Outputs {
				require.Contains(t, stdout.String(), o.SHA256)
			}
			continue
		}
		require.Equal(t, exitFailed, code)
		require.Contains(t, stderr.String(), "mv")
		require.NotContains(t, stdout.String(), "sha256")
	}
	t.Log(ended)
}

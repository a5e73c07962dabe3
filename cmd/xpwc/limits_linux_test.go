package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Go's runtime ends a process that has no descriptor left for its poller.
func TestTooFewDescriptorsAreAnErrorAndNoCrash(t *testing.T) {
	for limit := 5; limit <= 16; limit++ {
		cache := filepath.Join(t.TempDir(), "cache")
		out, err := exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" run "$1" --cache "$2"`, limit), tool,
			faceModel(t), cache).CombinedOutput()
		require.NotContains(t, string(out), "goroutine", "%d descriptors", limit)
		if err != nil {
			require.Equal(t, exitFailed, err.(*exec.ExitError).ExitCode(), "%d descriptors: %s", limit, out)
		}
	}
}

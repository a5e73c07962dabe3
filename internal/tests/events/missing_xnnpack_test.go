package events

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutXNNPACKTheCompilerExplainsTheSetup(t *testing.T) {
	if out, err := exec.Command("go", "env", "CGO_ENABLED").Output(); err != nil || string(out) != "1\n" {
		t.Skip("without cgo nothing wants XNNPACK")
	}
	for _, name := range []string{".", "./xnnpack", "./models/tflite"} {
		build := exec.Command("go", "build", name)
		build.Env = append(os.Environ(), "CGO_CFLAGS=-O2", "CGO_LDFLAGS=", "GOFLAGS=")
		out, err := build.CombinedOutput()
		if err == nil {
			t.Skip("the compiler finds an XNNPACK by itself")
		}
		require.Equal(t, 1, strings.Count(string(out), "XNNPACK is not found"), "%s", out)
		require.Contains(t, string(out), "CGO_CFLAGS=-I")
		require.Contains(t, string(out), "make -s env")
	}
}

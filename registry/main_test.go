//go:build cgo

package registry_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/reexec"
	"xpwc/xnnpack"
)

// Tests that need a process of their own, or another CPU, run this test binary again, with these variables.
const (
	envCPU   = "XPWC_TEST_CPU"   // the CPU level XNNPACK is limited to
	envCache = "XPWC_TEST_CACHE" // the cache file to use
	envModel = "XPWC_TEST_MODEL" // the model to run
	envNode  = "XPWC_TEST_NODE"  // set in such a process
)

func TestMain(m *testing.M) {
	if level := os.Getenv(envCPU); level != "" {
		if err := xnnpack.LimitCPU(level); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}

// node is a command that runs one test of this binary as another machine would, with a CPU of that level.
func node(level, test string, env ...string) *exec.Cmd {
	cmd := reexec.Command("-test.run=^"+test+"$", "-test.count=1", "-test.v")
	cmd.Env = append(append(os.Environ(), envNode+"=1", envCPU+"="+level), env...)
	return cmd
}

func runNode(t *testing.T, level, test string, env ...string) {
	t.Helper()
	out, err := node(level, test, env...).CombinedOutput()
	require.NoError(t, err, "%s on %s:\n%s", test, level, out)
	require.Contains(t, string(out), "--- PASS: "+test)
}

//go:build cgo

package xpwc_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/reexec"
	"xpwc/xnnpack"
)

// Tests that need a process of their own run this test binary again, with these variables.
const (
	envCPU = "XPWC_TEST_CPU" // the CPU level XNNPACK is limited to
	envDir = "XPWC_TEST_DIR" // where parent and child find each other's files
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

// inProcess runs one test of this binary in a process of its own and fails with its output if it fails.
func inProcess(t *testing.T, test string, env ...string) {
	t.Helper()
	cmd := reexec.Command("-test.run=^"+test+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s with %v:\n%s", test, env, out)
	require.Contains(t, string(out), "--- PASS: "+test, "%s with %v ran nothing", test, env)
}

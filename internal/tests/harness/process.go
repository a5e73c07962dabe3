//go:build cgo

package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/optable"
	"xpwc/internal/tests/testkit"
	"xpwc/xnnpack"
)

// Tests that need a process of their own run this test binary again, with this variable.
const EnvDir = "XPWC_TEST_DIR" // where parent and child find each other's files

func Main(m *testing.M) {
	if err := optable.EnterCPU(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, xnnpack.UnsupportedHardware) {
			os.Exit(optable.Lacking)
		}
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// InProcess runs one test of this binary in a process of its own and fails with its output if it fails. It skips this
// test if the process was to be on a CPU that this machine cannot be. It returns the output.
func InProcess(t *testing.T, test string, env ...string) string {
	t.Helper()
	testkit.SkipWithRace(t)
	cmd := testkit.Command("-test.run=^"+test+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == optable.Lacking {
		t.Skipf("not run: %s", out)
	}
	require.NoError(t, err, "%s with %v:\n%s", test, env, out)
	require.Contains(t, string(out), "--- PASS: "+test, "%s with %v ran nothing", test, env)
	return string(out)
}

// EachCPU runs a test for every CPU there is to be on: the kernels of each pack differently. Those that this machine
// cannot be are skipped, with the reason.
func EachCPU(t *testing.T, test func(t *testing.T, cpu optable.CPU)) {
	t.Helper()
	testkit.SkipWithRace(t)
	cpus := optable.CPUs()
	if len(cpus) == 0 {
		t.Skip("there is no other CPU to be on: make test-arm64 emulates some")
	}
	for _, cpu := range cpus {
		t.Run(cpu.Name, func(t *testing.T) { test(t, cpu) })
	}
}

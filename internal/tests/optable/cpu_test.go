package optable_test

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

// childVariable is set in the processes that are each on a CPU of its own: XNNPACK picks its kernels once a process.
const childVariable = "XNNPACK_TEST_CHILD"

func TestMain(m *testing.M) {
	if err := optable.EnterCPU(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, xnnpack.UnsupportedHardware) {
			os.Exit(optable.Lacking)
		}
		os.Exit(2)
	}
	os.Exit(m.Run())
}

func TestEveryOperatorComputesWhatItShouldOnOtherCPUs(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		t.Skip("this is the process of one CPU")
	}
	cpus := optable.CPUs()
	if len(cpus) == 0 {
		t.Skip("there is no other CPU to be on: make test-arm64 emulates some")
	}
	for _, cpu := range cpus {
		t.Run(cpu.Name, func(t *testing.T) {
			t.Parallel()
			command := testkit.Command("-test.run=^(TestEveryOperatorComputesWhatItShould|TestAnnounced.*)$", "-test.v")
			command.Env = append(os.Environ(), childVariable+"=1", cpu.Environment)
			output, err := command.CombinedOutput()
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == optable.Lacking {
				t.Skipf("not run: %s", output)
			}
			require.NoError(t, err, "%s", output)
			require.Contains(t, string(output), "--- PASS: TestEveryOperatorComputesWhatItShould (")
		})
	}
}

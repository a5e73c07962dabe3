package optable_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/reexec"
	"xpwc/xnnpack"
)

// levelVariable makes this test binary run as on a lesser CPU: XNNPACK picks its kernels once a process.
const levelVariable = "XNNPACK_TEST_CPU"

func TestMain(m *testing.M) {
	if level := os.Getenv(levelVariable); level != "" {
		if err := xnnpack.LimitCPU(level); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func TestEveryOperatorComputesWhatItShouldOnLesserCPUs(t *testing.T) {
	if os.Getenv(levelVariable) != "" {
		t.Skip("this is the process of one level")
	}
	levels := xnnpack.CPULevels()
	for _, level := range levels[:len(levels)-1] {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			command := reexec.Command("-test.run=^(TestEveryOperatorComputesWhatItShould|TestAnnounced.*)$")
			command.Env = append(os.Environ(), levelVariable+"="+level)
			output, err := command.CombinedOutput()
			require.NoError(t, err, "%s", output)
		})
	}
}

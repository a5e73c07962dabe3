package xnnpack_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/reexec"
	"xpwc/xnnpack"
)

// XNNPACK picks its kernels once a process, so this test runs in one of its own.
func TestLimitCPUKnowsItsLevels(t *testing.T) {
	const variable = "XNNPACK_TEST_FRESH_PROCESS"
	if os.Getenv(variable) == "" {
		command := reexec.Command("-test.run=^TestLimitCPUKnowsItsLevels$")
		command.Env = append(os.Environ(), variable+"=1")
		output, err := command.CombinedOutput()
		require.NoError(t, err, "%s", output)
		return
	}
	err := xnnpack.LimitCPU("pentium")
	require.ErrorIs(t, err, xnnpack.InvalidParameter)
	require.ErrorContains(t, err, "native")
	levels := xnnpack.CPULevels()
	require.Equal(t, "native", levels[len(levels)-1])
	for _, level := range levels {
		require.NoError(t, xnnpack.LimitCPU(level))
	}
	if runtime.GOARCH != "amd64" {
		require.ErrorIs(t, xnnpack.LimitCPU("sse2"), xnnpack.UnsupportedHardware)
	}
	require.NoError(t, xnnpack.Initialize())
}

package xnnpack_test

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
	"xpwc/xnnpack"
)

// XNNPACK picks its kernels once a process, so this test runs in one of its own.
func TestLimitCPUKnowsItsLevels(t *testing.T) {
	const variable = "XNNPACK_TEST_FRESH_PROCESS"
	if os.Getenv(variable) == "" {
		command := testkit.Command("-test.run=^TestLimitCPUKnowsItsLevels$")
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
		if err := xnnpack.LimitCPU(level); !errors.Is(err, xnnpack.UnsupportedHardware) {
			require.NoError(t, err)
		}
	}
	if runtime.GOARCH == "amd64" {
		err := xnnpack.LimitCPU("avx2") // on what is now, since the first of the levels, an SSE2 processor
		require.ErrorIs(t, err, xnnpack.UnsupportedHardware)
		require.ErrorContains(t, err, "avx2")
		require.NoError(t, xnnpack.LimitCPU("sse2"))
	} else {
		require.ErrorIs(t, xnnpack.LimitCPU("sse2"), xnnpack.UnsupportedHardware)
	}
	require.NoError(t, xnnpack.Initialize())
}

// What is packed is the same, and so is what a cache file has, whichever kernel widened it.
func TestWidenF16IsExactOnEveryCPU(t *testing.T) {
	const variable = "XNNPACK_TEST_CPU"
	level := os.Getenv(variable)
	if level == "" {
		for _, level := range xnnpack.CPULevels() {
			t.Run(level, func(t *testing.T) {
				command := testkit.Command("-test.run=^TestWidenF16IsExactOnEveryCPU$")
				command.Env = append(os.Environ(), variable+"="+level)
				output, err := command.CombinedOutput()
				require.NoError(t, err, "%s", output)
			})
		}
		return
	}
	if err := xnnpack.LimitCPU(level); errors.Is(err, xnnpack.UnsupportedHardware) {
		return // native is tested
	} else {
		require.NoError(t, err)
	}
	TestWidenF16IsExact(t)
}

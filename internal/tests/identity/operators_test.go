//go:build cgo

package identity

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/optable"
	"xpwc/xnnpack"
)

// TestOutputsAreTheSameWithoutACacheColdAndWarm is the promise of the whole project, for every operator and datatype.
func TestOutputsAreTheSameWithoutACacheColdAndWarm(t *testing.T) {
	ran := 0
	for _, op := range optable.Cases() {
		t.Run(op.Name, func(t *testing.T) {
			plain, err := op.Run(nil, nil, nil)
			if errors.Is(err, xnnpack.UnsupportedHardware) {
				t.Skip("this CPU has no kernel for it")
			}
			require.NoError(t, err)
			ran++
			path := harness.Path(t)

			c, err := xpwc.Open(path, nil)
			require.NoError(t, err)
			require.Equal(t, plain, harness.RunCase(t, c, op), "cold")
			cold := c.Stats()
			require.NoError(t, c.Close())
			require.Empty(t, cold.Private, "everything is named")
			if op.Packs != optable.Varies {
				require.EqualValues(t, op.Packs, cold.Packed.Entries+cold.Reused.Entries)
			}

			c, err = xpwc.Open(path, &xpwc.Options{Strict: true})
			require.NoError(t, err)
			require.Equal(t, plain, harness.RunCase(t, c, op), "warm")
			warm := c.Stats()
			require.NoError(t, c.Close())
			require.Zero(t, warm.Packed.Entries)
			require.Empty(t, warm.Private)
			require.Zero(t, warm.WrittenBytes)
			if op.Announced {
				require.EqualValues(t, op.Packs, warm.Hits.Entries)
				require.Zero(t, warm.Misses)
			}
		})
	}
	require.Greater(t, ran, 50, "the table is there")
}

// The kernels of lesser CPUs pack differently.
func TestOutputsAreTheSameOnEveryCPU(t *testing.T) {
	harness.EachCPU(t, func(t *testing.T, cpu optable.CPU) {
		t.Parallel()
		out := harness.InProcess(t, "TestOutputsAreTheSameWithoutACacheColdAndWarm", cpu.Environment)
		t.Logf("%s: %d operators cold and warm, %d it has no kernel for", cpu.Name,
			strings.Count(out, "    --- PASS"), strings.Count(out, "    --- SKIP"))
	})
}

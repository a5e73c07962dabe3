//go:build cgo

package xpwc_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/optable"
	"xpwc/xnnpack"
)

// runCase runs an operator with a session of the cache and returns its output.
func runCase(t *testing.T, c *xpwc.Cache, op optable.Case) []byte {
	t.Helper()
	weights := map[string][]byte{}
	session, err := c.NewSession(xpwc.MapOf(weights))
	require.NoError(t, err)
	defer func() { require.NoError(t, session.Close()) }()
	load := func(w optable.Weight) ([]byte, error) {
		weights[w.Name] = w.Content
		var options []xpwc.LoadOption
		if w.Eager {
			options = append(options, xpwc.Eager())
		}
		if w.Retain {
			options = append(options, xpwc.Retain())
		}
		options = append(options, xpwc.PackedAs(w.Packing))
		return session.Load(w.Name, options...)
	}
	output, err := op.Run(session, load, session.Finalize)
	require.NoError(t, err)
	return output
}

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
			path := filepath.Join(t.TempDir(), "cache")

			c, err := xpwc.Open(path, nil)
			require.NoError(t, err)
			require.Equal(t, plain, runCase(t, c, op), "cold")
			cold := c.Stats()
			require.NoError(t, c.Close())
			require.Empty(t, cold.Private, "everything is named")
			if op.Packs != optable.Varies {
				require.EqualValues(t, op.Packs, cold.Packed.Entries+cold.Reused.Entries)
			}

			c, err = xpwc.Open(path, &xpwc.Options{Strict: true})
			require.NoError(t, err)
			require.Equal(t, plain, runCase(t, c, op), "warm")
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
	onEachCPU(t, func(t *testing.T, cpu optable.CPU) {
		t.Parallel()
		out := inProcess(t, "TestOutputsAreTheSameWithoutACacheColdAndWarm", cpu.Environment)
		t.Logf("%s: %d operators cold and warm, %d it has no kernel for", cpu.Name,
			strings.Count(out, "    --- PASS"), strings.Count(out, "    --- SKIP"))
	})
}

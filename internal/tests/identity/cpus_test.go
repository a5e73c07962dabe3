//go:build cgo

package identity

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/optable"
	"xpwc/internal/tests/testkit"
	"xpwc/xnnpack"
)

const statsFile = "stats" // what a process of TestOneFileServesEveryCPU writes to the cache's directory

// served is what a process had of the cache.
type served struct {
	Ran                                    int   // operators
	Hits, Packed, Reused, Private, Written int64 // as in Stats
}

// A file moves between machines, or a hypervisor masks features: each CPU finds the weights that were packed for its
// own kernels, and no others.
func TestOneFileServesEveryCPU(t *testing.T) {
	if dir := os.Getenv(harness.EnvDir); dir != "" {
		tellOfTheWholeTable(t, dir)
		return
	}
	testkit.SkipWithRace(t)
	cpus := optable.CPUs()
	lessFirst, moreFirst := cpus, slices.Clone(cpus)
	slices.Reverse(moreFirst)
	for name, order := range map[string][]optable.CPU{"lesser CPUs first": lessFirst, "greater CPUs first": moreFirst} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(cpus) == 0 {
				t.Skip("there is no other CPU to be on: make test-arm64 emulates some")
			}
			shareOneFile(t, order)
		})
	}
}

func shareOneFile(t *testing.T, order []optable.CPU) {
	dir := t.TempDir()
	run := func(t *testing.T, cpu optable.CPU) (s served) {
		harness.InProcess(t, "TestOneFileServesEveryCPU", cpu.Environment, harness.EnvDir+"="+dir)
		b, err := os.ReadFile(filepath.Join(dir, statsFile))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &s))
		require.Greater(t, s.Ran, 50, "the table is there")
		require.Zero(t, s.Private)
		return s
	}
	layouts := func(t *testing.T) int {
		_, index := harness.ReadIndex(t, filepath.Join(dir, "cache"))
		return len(index.Layouts())
	}
	count, packed, ran := 0, map[string]int64{}, 0
	for _, cpu := range order {
		t.Run("cold "+cpu.Name, func(t *testing.T) {
			s := run(t, cpu)
			ran++
			switch layoutCount := layouts(t); layoutCount {
			case count:
				require.Zero(t, s.Packed, "a CPU of the same layout was here before")
			default:
				require.Equal(t, count+1, layoutCount)
				require.Zero(t, s.Hits+s.Reused, "what other kernels packed is of no use")
				require.Positive(t, s.Packed)
				count = layoutCount
			}
			packed[cpu.Name] = s.Packed + s.Hits + s.Reused
			t.Logf("%s: %d operators, %d entries packed, %d found", cpu.Name, s.Ran, s.Packed, s.Hits+s.Reused)
		})
	}
	if ran > 1 {
		require.Greater(t, count, 1, "the file has several layouts")
	}
	whole, err := os.ReadFile(filepath.Join(dir, "cache"))
	require.NoError(t, err)
	for _, cpu := range order {
		t.Run("warm "+cpu.Name, func(t *testing.T) {
			s := run(t, cpu)
			require.Zero(t, s.Packed)
			require.Zero(t, s.Written)
			require.Equal(t, packed[cpu.Name], s.Hits+s.Reused, "its own are all there")
			current, err := os.ReadFile(filepath.Join(dir, "cache"))
			require.NoError(t, err)
			require.True(t, slices.Equal(whole, current), "the file is as it was")
		})
	}
}

// reportTable runs every operator with the cache of a directory, and compares each output with the output without a
// cache and with the reference.
func tellOfTheWholeTable(t *testing.T, dir string) {
	c := harness.OpenCache(t, filepath.Join(dir, "cache"), nil)
	var s served
	for _, op := range optable.Cases() {
		plain, err := op.Run(nil, nil, nil)
		if errors.Is(err, xnnpack.UnsupportedHardware) {
			continue
		}
		require.NoError(t, err)
		require.Equal(t, plain, harness.RunCase(t, c, op), op.Name)
		s.Ran++
	}
	require.NoError(t, c.Close())
	stats := c.Stats()
	require.NoError(t, stats.Damaged)
	require.NoError(t, stats.LastError)
	s.Hits, s.Packed, s.Reused = stats.Hits.Entries, stats.Packed.Entries, stats.Reused.Entries
	s.Written = stats.WrittenBytes
	for _, n := range stats.Private {
		s.Private += n.Entries
	}
	b, err := json.Marshal(s)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, statsFile), b, 0o600))
}

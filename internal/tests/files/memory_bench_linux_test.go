package files

import (
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/testkit"
)

const (
	envEntries = "XPWC_BENCH_ENTRIES" // of the process that BenchmarkMemory measures
	envFile    = "XPWC_BENCH_FILE"    // that they are in, or "" to pack them
)

// BenchmarkMemory measures the memory of a process, without the model, after it has named and looked up many entries of
// a file, or packed and saved them.
func BenchmarkMemory(b *testing.B) {
	if n, err := strconv.Atoi(os.Getenv(envEntries)); err == nil {
		measureMemory(b, n, os.Getenv(envFile))
		return
	}
	run := func(b *testing.B, n int, path string) {
		for b.Loop() {
			cmd := testkit.Command("-test.run=^$", "-test.bench=^BenchmarkMemory$", "-test.benchtime=1x")
			cmd.Env = append(os.Environ(), fmt.Sprint(envEntries, "=", n), envFile+"="+path)
			out, err := cmd.CombinedOutput()
			require.NoError(b, err, "%s", out)
			for _, figure := range regexp.MustCompile(`([0-9.e+]+) ([a-zA-Z-]+-MiB)`).FindAllSubmatch(out, -1) {
				value, err := strconv.ParseFloat(string(figure[1]), 64)
				require.NoError(b, err)
				b.ReportMetric(value, string(figure[2]))
			}
		}
	}
	forGrowth(b, growth[2:], func(b *testing.B, n int) {
		path := newTinyModel(n).file(b)
		info, err := os.Stat(path)
		require.NoError(b, err)
		b.Run("warm", func(b *testing.B) {
			run(b, n, path)
			b.ReportMetric(float64(info.Size())/float64(n)-tinyBytes, "file-B/entry")
		})
		b.Run("cold", func(b *testing.B) { run(b, n, "") })
	})
}

func measureMemory(b *testing.B, n int, path string) {
	m := newTinyModel(n)
	neighbours := memoryOf(b)
	cold := path == ""
	if cold {
		path = b.TempDir() + "/cache"
	}
	c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
	require.NoError(b, err)
	s := m.session(b, c)
	for i := range n {
		kernel := harness.Address(m.bytes(i))
		switch hits := harness.LookUp(s, 1, kernel, 0); {
		case !cold && hits == harness.NotFound:
			b.Fatal("not found")
		case cold:
			space := harness.Reserve(s, tinyBytes)
			copy(space, m.bytes(i))
			harness.Insert(s, 1, kernel, 0, harness.Address(space), tinyBytes)
		}
	}
	require.NoError(b, s.Finalize())
	if cold {
		require.NoError(b, c.Save())
	}
	peak := memoryOf(b)["VmHWM"]
	debug.FreeOSMemory() // as the C library does, whose heap it is
	current := memoryOf(b)
	b.ReportMetric(current["VmRSS"]-neighbours["RssAnon"], "has-MiB")
	b.ReportMetric(peak-neighbours["RssAnon"], "peak-MiB")
	require.NoError(b, s.Close())
	require.NoError(b, c.Close())
}

// memoryOf returns the figures of this process in MiB, by the names of Linux.
func memoryOf(b *testing.B) map[string]float64 {
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(b, err)
	figures := map[string]float64{}
	for _, line := range regexp.MustCompile(`(?m)^(\w+):\s+(\d+) kB`).FindAllSubmatch(status, -1) {
		figures[string(line[1])], err = strconv.ParseFloat(string(line[2]), 64)
		require.NoError(b, err)
		figures[string(line[1])] /= 1024
	}
	return figures
}

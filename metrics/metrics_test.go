//go:build cgo

package metrics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/metrics"
	"xpwc/xnnpack"
)

const width = 32

// use has a runtime of one fully connected layer use the weights of a name; the session and the runtime are left open.
func use(t *testing.T, c *xpwc.Cache, name string) (end func()) {
	t.Helper()
	weights := make([]byte, 4*width*width)
	for i := range weights {
		weights[i] = byte(i % 61)
	}
	s, err := c.NewSession(xpwc.MapOf(map[string][]byte{name: weights}))
	require.NoError(t, err)
	g, err := xnnpack.NewSubgraph(2)
	require.NoError(t, err)
	row := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, width}}
	require.NoError(t, g.Input(0, row))
	require.NoError(t, g.Output(1, row))
	data, err := s.Load(name)
	require.NoError(t, err)
	filter, err := g.Tensor(xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{width, width}, Data: data})
	require.NoError(t, err)
	require.NoError(t, g.FullyConnected(
		xnnpack.FullyConnected{Input: 0, Filter: filter, Bias: xnnpack.InvalidValue, Output: 1}))
	r, err := xnnpack.NewRuntime(g, &xnnpack.RuntimeOptions{WeightsCache: s})
	require.NoError(t, err)
	require.NoError(t, g.Delete())
	require.NoError(t, s.Finalize())
	return func() {
		require.NoError(t, r.Delete())
		require.NoError(t, s.Close())
	}
}

func open(t *testing.T, path string, o *xpwc.Options) *xpwc.Cache {
	t.Helper()
	c, err := xpwc.Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestPrometheusSeesWhatCachesDo(t *testing.T) {
	dir := t.TempDir()
	file := open(t, filepath.Join(dir, "cache"), nil)
	memory := open(t, "", nil)
	readOnly := open(t, filepath.Join(dir, "absent"), &xpwc.Options{ReadOnly: true})
	collector := metrics.NewCollector(file, memory, readOnly, file)
	problems, err := testutil.CollectAndLint(collector)
	require.NoError(t, err)
	require.Empty(t, problems)

	first, second, third := use(t, file, "w"), use(t, file, "w"), use(t, memory, "w")
	private := use(t, readOnly, "w")
	require.NoError(t, file.Save())
	packed := file.Stats().Packed.Bytes
	path, absent := file.Path(), readOnly.Path()
	want := fmt.Sprintf(`
# HELP xpwc_hits_total Look-ups answered from the cache.
# TYPE xpwc_hits_total counter
xpwc_hits_total{path=%[1]q} 1
xpwc_hits_total{path=%[2]q} 0
xpwc_hits_total{path="memory"} 0
# HELP xpwc_misses_total Look-ups not answered from the cache.
# TYPE xpwc_misses_total counter
xpwc_misses_total{path=%[1]q} 1
xpwc_misses_total{path=%[2]q} 1
xpwc_misses_total{path="memory"} 1
# HELP xpwc_packed_bytes_total Bytes packed and put into the cache.
# TYPE xpwc_packed_bytes_total counter
xpwc_packed_bytes_total{path=%[1]q} %[3]d
xpwc_packed_bytes_total{path=%[2]q} 0
xpwc_packed_bytes_total{path="memory"} %[3]d
# HELP xpwc_mapped_bytes Bytes of the file that open sessions use.
# TYPE xpwc_mapped_bytes gauge
xpwc_mapped_bytes{path=%[1]q} %[3]d
xpwc_mapped_bytes{path=%[2]q} 0
xpwc_mapped_bytes{path="memory"} %[3]d
# HELP xpwc_generation Number of the commit in force, 0 while there is none.
# TYPE xpwc_generation gauge
xpwc_generation{path=%[1]q} 1
xpwc_generation{path=%[2]q} 0
xpwc_generation{path="memory"} 0
`, path, absent, packed)
	names := []string{
		"xpwc_hits_total", "xpwc_misses_total", "xpwc_packed_bytes_total", "xpwc_mapped_bytes", "xpwc_generation",
	}
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(want), names...))
	reasons := `
# HELP xpwc_private_packed_total Entries packed into private memory, by reason.
# TYPE xpwc_private_packed_total counter
`
	for _, c := range []string{path, absent, "memory"} {
		for _, reason := range []string{"busy", "disk", "read-only", "unnamed", "version"} {
			n := 0
			if c == absent && reason == "read-only" {
				n = 1
			}
			reasons += fmt.Sprintf("xpwc_private_packed_total{path=%q,reason=%q} %d\n", c, reason, n)
		}
	}
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(reasons), "xpwc_private_packed_total"))

	first()
	second()
	third()
	private()
	require.NoError(t, testutil.CollectAndCompare(metrics.NewCollector(memory), strings.NewReader(`
# HELP xpwc_mapped_bytes Bytes of the file that open sessions use.
# TYPE xpwc_mapped_bytes gauge
xpwc_mapped_bytes{path="memory"} 0
`), "xpwc_mapped_bytes"))
}

func TestCachesInMemoryAreToldApart(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics.NewCollector(open(t, "", nil), open(t, "", nil)))
	n, err := testutil.GatherAndCount(registry, "xpwc_entries")
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func TestExpvarSeesWhatACacheDoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c, err := xpwc.Open(path, nil)
	require.NoError(t, err)
	use(t, c, "w")()
	require.NoError(t, c.Close())
	require.NoError(t, os.Truncate(path, c.Stats().FileBytes-1))

	damaged := open(t, path, nil)
	published := metrics.Var(damaged)
	figures := func() (f struct {
		Hits, Packed       xpwc.Count
		MappedBytes        int64
		PackingTime        float64
		Damaged, LastError string
	}) {
		all := map[string]json.RawMessage{}
		require.NoError(t, json.Unmarshal([]byte(published.String()), &all))
		require.Len(t, all, 1)
		require.NoError(t, json.Unmarshal(all[damaged.Path()], &f))
		return f
	}
	require.Contains(t, figures().Damaged, "damaged")
	require.Zero(t, figures().Packed)
	defer use(t, damaged, "w")()
	defer use(t, damaged, "w")()
	f, s := figures(), damaged.Stats()
	require.EqualValues(t, 1, f.Hits.Entries)
	require.Equal(t, s.Hits, f.Hits)
	require.Equal(t, s.Packed, f.Packed)
	require.Equal(t, s.MappedBytes, f.MappedBytes)
	require.Equal(t, s.PackingTime.Seconds(), f.PackingTime)
	require.Empty(t, f.LastError)
}

func TestAPathThatIsNoTextIsCollectedAllTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache-\xff")
	c := open(t, path, nil)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics.NewCollector(c)))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.NotEmpty(t, families)
	require.Contains(t, families[0].String(), "cache-\uFFFD")
}

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
	dto "github.com/prometheus/client_model/go"
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
	data, err := s.Load(name, xpwc.Believe())
	require.NoError(t, err)
	filter, err := g.Tensor(xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{width, width}, Data: data})
	require.NoError(t, err)
	require.NoError(t, g.Add(
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
# HELP xpwc_lookup_hits_total Look-ups answered from the cache.
# TYPE xpwc_lookup_hits_total counter
xpwc_lookup_hits_total{path=%[1]q} 1
xpwc_lookup_hits_total{path=%[2]q} 0
xpwc_lookup_hits_total{path="memory"} 0
# HELP xpwc_lookup_misses_total Look-ups not answered from the cache.
# TYPE xpwc_lookup_misses_total counter
xpwc_lookup_misses_total{path=%[1]q} 1
xpwc_lookup_misses_total{path=%[2]q} 1
xpwc_lookup_misses_total{path="memory"} 1
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
# HELP xpwc_file_generation Number of the commit in force, 0 while there is none.
# TYPE xpwc_file_generation gauge
xpwc_file_generation{path=%[1]q} 1
xpwc_file_generation{path=%[2]q} 0
xpwc_file_generation{path="memory"} 0
`, path, absent, packed)
	names := []string{
		"xpwc_lookup_hits_total", "xpwc_lookup_misses_total", "xpwc_packed_bytes_total", "xpwc_mapped_bytes",
		"xpwc_file_generation",
	}
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(want), names...))
	reasons := `
# HELP xpwc_private_packed_entries_total Entries packed into private memory, by reason.
# TYPE xpwc_private_packed_entries_total counter
`
	for _, c := range []string{path, absent, "memory"} {
		for _, reason := range []string{"busy", "disk", "read-only", "unnamed", "version"} {
			n := 0
			if c == absent && reason == "read-only" {
				n = 1
			}
			reasons += fmt.Sprintf("xpwc_private_packed_entries_total{path=%q,reason=%q} %d\n", c, reason, n)
		}
	}
	const byReason = "xpwc_private_packed_entries_total"
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(reasons), byReason))

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

// A load is mapped if the cache had all it was asked for.
func TestLoadsAreCountedByWhatBecameOfThem(t *testing.T) {
	c := open(t, "", nil)
	defer use(t, c, "w")()
	defer use(t, c, "w")()
	defer use(t, c, "another")()
	s, err := c.NewSession(nil)
	require.NoError(t, err)
	require.NoError(t, s.Close(), "one that is given up is no load")
	require.NoError(t, testutil.CollectAndCompare(counts{metrics.NewCollector(c)}, strings.NewReader(`
# HELP loads Their number.
# TYPE loads gauge
loads{outcome="failed"} 0
loads{outcome="mapped"} 1
loads{outcome="packed"} 2
`)))
}

// counts has of a collector the number of loads, which unlike their durations is always the same.
type counts struct{ prometheus.Collector }

var loads = prometheus.NewDesc("loads", "Their number.", []string{"outcome"}, nil)

func (counts) Describe(descs chan<- *prometheus.Desc) { descs <- loads }

func (c counts) Collect(out chan<- prometheus.Metric) {
	collected := make(chan prometheus.Metric, 200)
	c.Collector.Collect(collected)
	close(collected)
	for m := range collected {
		var sample dto.Metric
		_ = m.Write(&sample)
		for _, l := range sample.Label {
			if l.GetName() == "outcome" {
				n := float64(sample.Histogram.GetSampleCount())
				out <- prometheus.MustNewConstMetric(loads, prometheus.GaugeValue, n, l.GetValue())
			}
		}
	}
}

func TestHandlesOfOneFileAreOneSeriesThatFollowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	first, second := open(t, path, nil), open(t, path, nil)
	collector := metrics.NewCollector(first, second)
	hits := func(n int) {
		t.Helper()
		require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(fmt.Sprintf(`
# HELP xpwc_lookup_hits_total Look-ups answered from the cache.
# TYPE xpwc_lookup_hits_total counter
xpwc_lookup_hits_total{path=%q} %d
`, first.Path(), n)), "xpwc_lookup_hits_total"))
	}
	use(t, first, "w")()
	use(t, second, "w")()
	hits(1)
	require.NoError(t, first.Close())
	use(t, second, "w")()
	hits(2)
	require.NoError(t, second.Close())
	hits(2)
	third := open(t, path, nil)
	hits(0)
	use(t, third, "w")()
	hits(1)
}

func TestTheBuildInformationSaysWhatThisProcessPacksWith(t *testing.T) {
	layout, err := xpwc.CurrentLayout()
	require.NoError(t, err)
	want := fmt.Sprintf(`
# HELP xpwc_build_info What this process packs with: 1 with the version and commit of xpwc, XNNPACK's build `+
		`identifier and the layout.
# TYPE xpwc_build_info gauge
xpwc_build_info{commit="",layout=%q,version=%q,xnnpack=%q} 1
`, layout.Fingerprint, xpwc.Version, xnnpack.BuildIdentifier())
	empty := metrics.NewCollector()
	require.NoError(t, testutil.CollectAndCompare(empty, strings.NewReader(want), "xpwc_build_info"))
}

func TestCachesInMemoryAreToldApart(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics.NewCollector(open(t, "", nil), open(t, "", nil)))
	n, err := testutil.GatherAndCount(registry, "xpwc_file_entries")
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
	type load struct {
		Count  int64
		Sum    float64
		Within map[string]int64
	}
	type figures struct {
		LookupHits   int64           `json:"lookup_hits_total"`
		Packed       int64           `json:"packed_entries_total"`
		Mapped       int64           `json:"mapped_bytes"`
		Loads        map[string]load `json:"load_duration_seconds"`
		DamageSeen   int             `json:"file_damage_seen"`
		Damage       string          `json:"file_damage"`
		Failure      *string
		PrivateBytes map[string]int64 `json:"private_packed_bytes_total"`
	}
	snapshot := func() figures {
		var vars struct {
			Build  map[string]string  `json:"build_info"`
			Caches map[string]figures `json:"caches"`
		}
		require.NoError(t, json.Unmarshal([]byte(published.String()), &vars))
		require.Equal(t, xpwc.Version, vars.Build["version"])
		require.Len(t, vars.Build, 4)
		require.Len(t, vars.Caches, 1)
		return vars.Caches[damaged.Path()]
	}
	require.Contains(t, snapshot().Damage, "damaged")
	require.Equal(t, 1, snapshot().DamageSeen)
	require.Zero(t, snapshot().Packed)
	defer use(t, damaged, "w")()
	defer use(t, damaged, "w")()
	f, s := snapshot(), damaged.Stats()
	require.EqualValues(t, 1, f.LookupHits)
	require.Equal(t, s.Packed.Entries, f.Packed)
	require.Equal(t, s.MappedBytes, f.Mapped)
	require.Empty(t, *f.Failure)
	require.Contains(t, f.PrivateBytes, string(xpwc.ReasonBusy))
	for outcome, count := range map[string]int64{"packed": 1, "mapped": 1, "failed": 0} {
		require.Equal(t, count, f.Loads[outcome].Count, outcome)
		require.Len(t, f.Loads[outcome].Within, len(s.Loads[xpwc.LoadFailed].Within))
		require.NotEmpty(t, f.Loads[outcome].Within, outcome)
	}
	require.Positive(t, f.Loads["packed"].Sum)
}

func TestAPathThatIsNoTextIsCollectedAllTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache-\xff")
	c := open(t, path, nil)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics.NewCollector(c)))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.NotEmpty(t, families)
	require.Contains(t, fmt.Sprint(families), "cache-\uFFFD")
}

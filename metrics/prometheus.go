package metrics

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"xpwc"
)

// NewCollector returns a collector of the caches' figures for Prometheus, each with the label path; counters end in
// _total, what has a reason has the label reason, one of [xpwc.Reason], and loads have the label outcome, one of
// [xpwc.LoadOutcome]. Several handles of one cache are collected once, and whoever has a handle follows its file while
// other handles come and go: when all were closed and the file is opened again, its counters begin anew with 0, as
// after a restart of the process. xpwc_build_info has no path: it says what the process packs with. The caller
// registers the collector, and may do so with a registerer that wraps it in labels of its own.
func NewCollector(caches ...*xpwc.Cache) prometheus.Collector {
	return collector(named(caches))
}

type collector []namedCache

// Describe implements [prometheus.Collector].
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- buildInfo
	descriptions <- loadDuration
	for i := range metrics {
		descriptions <- metrics[i].description
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(samples chan<- prometheus.Metric) {
	collectBuild(samples)
	for _, cache := range c {
		collect(cache.Stats(), cache.name, samples)
	}
}

func collect(s xpwc.Stats, path string, samples chan<- prometheus.Metric) {
	for _, m := range metrics {
		if m.value != nil {
			samples <- prometheus.MustNewConstMetric(m.description, m.kind, m.value(&s), path)
			continue
		}
		for _, reason := range reasons(s.Private) {
			value := m.private(s.Private[reason])
			samples <- prometheus.MustNewConstMetric(m.description, m.kind, value, path, string(reason))
		}
	}
	collectLoads(s.Loads, path, samples)
}

// reasons returns all reasons that there are: a series must be there before it counts, for its first increase to be
// seen.
func reasons(private map[xpwc.Reason]xpwc.Count) []xpwc.Reason {
	known := []xpwc.Reason{
		xpwc.ReasonUnnamed, xpwc.ReasonReadOnly, xpwc.ReasonBusy, xpwc.ReasonVersion, xpwc.ReasonDisk,
	}
	for _, reason := range slices.Sorted(maps.Keys(private)) {
		if !slices.Contains(known, reason) {
			known = append(known, reason)
		}
	}
	return known
}

// A namedCache is a cache with what it is called.
type namedCache struct {
	*xpwc.Cache
	name string
}

func named(caches []*xpwc.Cache) []namedCache {
	var all []namedCache
	of := map[string]int{}
	for i, c := range caches {
		if slices.ContainsFunc(caches[:i], c.Shares) {
			continue
		}
		name := strings.ToValidUTF8(cmp.Or(c.Path(), "memory"), "\uFFFD") // labels must be text, paths need not
		if of[name]++; of[name] > 1 {                                     // sections of one file
			name = fmt.Sprint(name, " ", of[name])
		}
		all = append(all, namedCache{c, name})
	}
	return all
}

package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"xpwc"
	"xpwc/inference"
)

// NewCollector returns a collector of the caches' figures for Prometheus, each with the label path; counters end in
// _total, what has a reason has the label reason, one of [xpwc.Reason], and loads have the label outcome, one of
// [xpwc.LoadOutcome]. Several handles of one cache are collected once, and whoever has a handle follows its file while
// other handles come and go: when all were closed and the file is opened again, its counters begin anew with 0, as
// after a restart of the process. xpwc_build_info has no path: it says what the process packs with. The caller
// registers the collector, and may do so with a registerer that wraps it in labels of its own.
func NewCollector(caches ...*xpwc.Cache) prometheus.Collector {
	var all withBuild
	for name, cache := range named(caches) {
		all = append(all, collector{prometheus.Labels{"path": name}, func() []figure { return ofCache(cache.Stats()) }})
	}
	return all
}

// NewRunnerCollector returns a collector of a Runner's figures for Prometheus, its queue among them, with the label
// model. The caller registers it, and unregisters it when the Runner is closed.
func NewRunnerCollector(model string, r *inference.Runner) prometheus.Collector {
	return collector{prometheus.Labels{"model": model}, func() []figure { return ofRunner(r.Stats()) }}
}

// A collector has the figures of one cache or Runner.
type collector struct {
	of      prometheus.Labels
	figures func() []figure
}

// Describe implements [prometheus.Collector].
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, f := range c.figures() {
		descriptions <- f.metric(c.of).Desc()
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(samples chan<- prometheus.Metric) {
	for _, f := range c.figures() {
		samples <- f.metric(c.of)
	}
}

func (f *figure) metric(of prometheus.Labels) prometheus.Metric {
	var labels, values []string
	if f.label != "" {
		labels, values = []string{f.label}, []string{f.labelled}
	}
	description := prometheus.NewDesc(prometheus.BuildFQName(namespace, "", f.name), f.help, labels, of)
	if f.durations == nil {
		return prometheus.MustNewConstMetric(description, f.kind, f.value, values...)
	}
	within := map[float64]uint64{}
	for bound, count := range f.durations.Within {
		within[bound.Seconds()] = uint64(count)
	}
	count, sum := uint64(f.durations.Count), f.durations.Sum.Seconds()
	return prometheus.MustNewConstHistogram(description, count, sum, within, values...)
}

// withBuild are the caches' collectors, with what the process packs with.
type withBuild []collector

// Describe implements [prometheus.Collector].
func (c withBuild) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- buildInfo
	for _, cache := range c {
		cache.Describe(descriptions)
	}
}

// Collect implements [prometheus.Collector].
func (c withBuild) Collect(samples chan<- prometheus.Metric) {
	collectBuild(samples)
	for _, cache := range c {
		cache.Collect(samples)
	}
}

// named returns caches by what they are called.
func named(caches []*xpwc.Cache) map[string]*xpwc.Cache {
	all := map[string]*xpwc.Cache{}
	of := map[string]int{}
	for i, c := range caches {
		if slices.ContainsFunc(caches[:i], c.Shares) {
			continue
		}
		name := strings.ToValidUTF8(cmp.Or(c.Path(), "memory"), "\uFFFD") // labels must be text, paths need not
		if of[name]++; of[name] > 1 {                                     // sections of one file
			name = fmt.Sprint(name, " ", of[name])
		}
		all[name] = c
	}
	return all
}

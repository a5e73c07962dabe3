// Package metrics gives the [xpwc.Stats] of caches to monitoring: to Prometheus as a [NewCollector], and to package
// expvar as a [Var], by the same names.
//
//	prometheus.MustRegister(metrics.NewCollector(cache))
//	expvar.Publish("xpwc", metrics.Var(cache))
//
// The figures of an [xpwc/inference.Runner], its queue among them, come by [NewRunnerCollector] and [RunnerVar].
//
// Nothing is registered or runs by itself: figures are taken when they are collected. Collecting waits for the
// cache's lock, which is never held while a model is executed or a disk is written to. Caches may be closed while
// they are collected; their counters stay at the last figures.
//
// A cache is named by its path; one in memory is "memory". Further ones of the same name, in memory or sections of
// one file, are "memory 2" and so on.
package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"xpwc"
	"xpwc/inference"
	"xpwc/xnnpack"
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
		figures := func() []figure { return ofCache(cache.Stats()) }
		all = append(all, collector{prometheus.Labels{"path": name}, figures})
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

// A build says what this process packs with: packed weights are of use to another one if the layout is the same.
type build struct {
	Version string `json:"version"` // xpwc.Version
	Commit  string `json:"commit"`  // xpwc.Commit; empty if it is not known
	XNNPACK string `json:"xnnpack"` // xnnpack.BuildIdentifier
	Layout  string `json:"layout"`  // the fingerprint of xpwc.CurrentLayout; empty where XNNPACK cannot run
}

var buildInfo = prometheus.NewDesc(prometheus.BuildFQName(namespace, "", "build_info"),
	"What this process packs with: 1 with the version and commit of xpwc, XNNPACK's build identifier and the layout.",
	[]string{"version", "commit", "xnnpack", "layout"}, nil)

func thisBuild() build {
	b := build{Version: xpwc.Version, Commit: xpwc.Commit(), XNNPACK: xnnpack.BuildIdentifier()}
	if here, err := xpwc.CurrentLayout(); err == nil {
		b.Layout = here.Fingerprint.String()
	}
	return b
}

func collectBuild(samples chan<- prometheus.Metric) {
	b := thisBuild()
	samples <- prometheus.MustNewConstMetric(buildInfo, prometheus.GaugeValue, 1, b.Version, b.Commit, b.XNNPACK,
		b.Layout)
}

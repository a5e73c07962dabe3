// Package metrics gives the [xpwc.Stats] of caches to monitoring: to Prometheus as a [NewCollector], and to package
// expvar as a [Var], by the same names.
//
//	prometheus.MustRegister(metrics.NewCollector(cache))
//	expvar.Publish("xpwc", metrics.Var(cache))
//
// The figures of an [xpwc/models/inference.Runner], its queue among them, come by [NewRunnerCollector].
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
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"xpwc"
	"xpwc/models/inference"
)

// NewCollector returns a collector of the caches' figures for Prometheus, each with the label path; counters end in
// _total, what has a reason has the label reason, one of [xpwc.Reasons], and loads have the label outcome, one of
// [xpwc.LoadOutcome]. Several handles of one cache are collected once, and whoever has a handle follows its file while
// other handles come and go: when all were closed and the file is opened again, its counters begin anew with 0, as
// after a restart of the process. xpwc_build_info has no path: it has what the process packs with. The caller
// registers the collector, and may do so with a registerer that wraps it in labels of its own.
func NewCollector(caches ...*xpwc.Cache) prometheus.Collector {
	cachesByName := named(caches)
	return prometheus.CollectorFunc(func(samples chan<- prometheus.Metric) {
		send(samples, nil, ofBuild())
		for name, cache := range cachesByName {
			send(samples, prometheus.Labels{"path": name}, ofCache(cache.Stats()))
		}
	})
}

// NewRunnerCollector returns a collector of a Runner's figures for Prometheus, its queue among them, with the label
// model. The caller registers it, and unregisters it when the Runner is closed.
func NewRunnerCollector(model string, r *inference.Runner) prometheus.Collector {
	return prometheus.CollectorFunc(func(samples chan<- prometheus.Metric) {
		send(samples, prometheus.Labels{"model": model}, ofRunner(r.Stats()))
	})
}

// send gives figures to Prometheus, with labels of their subject.
func send(samples chan<- prometheus.Metric, labels prometheus.Labels, figures []figure) {
	for _, f := range figures {
		samples <- f.sample(labels)
	}
}

func (f *figure) sample(extra prometheus.Labels) prometheus.Metric {
	labels := prometheus.Labels{}
	maps.Copy(labels, extra)
	maps.Copy(labels, f.labels)
	description := prometheus.NewDesc(prometheus.BuildFQName(namespace, "", f.name), f.help, nil, labels)
	if f.durations == nil {
		return prometheus.MustNewConstMetric(description, f.kind, f.value)
	}
	buckets := map[float64]uint64{}
	for bound, count := range f.durations.Within {
		buckets[bound.Seconds()] = uint64(count)
	}
	count, sum := uint64(f.durations.Count), f.durations.Sum.Seconds()
	return prometheus.MustNewConstHistogram(description, count, sum, buckets)
}

// named returns caches by what they are called.
func named(caches []*xpwc.Cache) map[string]*xpwc.Cache {
	cachesByName := map[string]*xpwc.Cache{}
	counts := map[string]int{}
	for i, c := range caches {
		if slices.ContainsFunc(caches[:i], c.Shares) {
			continue
		}
		name := strings.ToValidUTF8(cmp.Or(c.Path(), "memory"), "\uFFFD") // labels must be text, paths need not
		if counts[name]++; counts[name] > 1 {                             // sections of one file
			name = fmt.Sprint(name, " ", counts[name])
		}
		cachesByName[name] = c
	}
	return cachesByName
}

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

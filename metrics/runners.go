package metrics

import (
	"expvar"

	"github.com/prometheus/client_golang/prometheus"

	"xpwc/inference"
)

// A runnerMetric is one figure of a Runner.
type runnerMetric struct {
	name, help string // the name without the namespace
	kind       prometheus.ValueType
	value      func(inference.Stats) float64
}

// runnerMetrics are all, in the order of the fields of inference.Stats.
var runnerMetrics = []runnerMetric{
	{"runner_instances", "Runs that can compute at the same time.", prometheus.GaugeValue,
		func(s inference.Stats) float64 { return float64(s.Instances) }},
	{"runner_running", "Runs that compute.", prometheus.GaugeValue,
		func(s inference.Stats) float64 { return float64(s.Running) }},
	{"runner_waiting", "Runs that wait for their turn.", prometheus.GaugeValue,
		func(s inference.Stats) float64 { return float64(s.Waiting) }},
	{"runner_runs_total", "Runs that computed their outputs.", prometheus.CounterValue,
		func(s inference.Stats) float64 { return float64(s.Runs) }},
	{"runner_failed_runs_total", "Runs that had their turn and returned an error.", prometheus.CounterValue,
		func(s inference.Stats) float64 { return float64(s.Failed) }},
	{"runner_abandoned_runs_total", "Runs that did not wait for their turn until it came.", prometheus.CounterValue,
		func(s inference.Stats) float64 { return float64(s.Abandoned) }},
	{"runner_waited_seconds_total", "Time that Runs waited for their turn.", prometheus.CounterValue,
		func(s inference.Stats) float64 { return s.Waited.Seconds() }},
	{"runner_reloads_total", "Reloads that put another version of the model in force.", prometheus.CounterValue,
		func(s inference.Stats) float64 { return float64(s.Reloads) }},
	{"runner_failed_reloads_total", "Reloads that failed; the version before stayed.", prometheus.CounterValue,
		func(s inference.Stats) float64 { return float64(s.FailedReloads) }},
}

// A runnerCollector has the figures of one Runner.
type runnerCollector struct {
	runner       *inference.Runner
	descriptions []*prometheus.Desc // of runnerMetrics
}

// NewRunnerCollector returns a collector of a Runner's figures for Prometheus, its queue among them, with the label
// model. The caller registers it, and unregisters it when the Runner is closed.
func NewRunnerCollector(model string, r *inference.Runner) prometheus.Collector {
	c := &runnerCollector{runner: r}
	for _, m := range runnerMetrics {
		c.descriptions = append(c.descriptions, prometheus.NewDesc(
			prometheus.BuildFQName(namespace, "", m.name), m.help, nil, prometheus.Labels{"model": model}))
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *runnerCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range c.descriptions {
		descriptions <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *runnerCollector) Collect(samples chan<- prometheus.Metric) {
	s := c.runner.Stats()
	for i, m := range runnerMetrics {
		samples <- prometheus.MustNewConstMetric(c.descriptions[i], m.kind, m.value(s))
	}
}

// RunnerVar returns a Runner's figures as a variable for [expvar.Publish]: an object, with the names that Prometheus
// has them by, without the xpwc_ at the beginning.
func RunnerVar(r *inference.Runner) expvar.Var {
	return expvar.Func(func() any {
		s, figures := r.Stats(), map[string]float64{}
		for _, m := range runnerMetrics {
			figures[m.name] = m.value(s)
		}
		return figures
	})
}

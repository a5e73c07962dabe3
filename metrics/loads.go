package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"xpwc"
)

const loadDurationName = "load_duration_seconds"

var loadDuration = describe(loadDurationName,
	"How long models took to load, from the beginning of a session until its runtime was created, by outcome.",
	"outcome")

// outcomes are all there are: as with reasons, a series must be there before it counts.
var outcomes = []xpwc.LoadOutcome{xpwc.LoadMapped, xpwc.LoadPacked, xpwc.LoadFailed}

func collectLoads(loads map[xpwc.LoadOutcome]xpwc.Durations, path string, samples chan<- prometheus.Metric) {
	for _, outcome := range outcomes {
		d := loads[outcome]
		within := map[float64]uint64{}
		for bound, count := range d.Within {
			within[bound.Seconds()] = uint64(count)
		}
		samples <- prometheus.MustNewConstHistogram(loadDuration, uint64(d.Count), d.Sum.Seconds(), within, path,
			string(outcome))
	}
}

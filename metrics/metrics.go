package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"xpwc"
	"xpwc/models/inference"
	"xpwc/xnnpack"
)

const namespace = "xpwc"

// A figure is one number of a cache or of a Runner, or one histogram.
type figure struct {
	name, help string // the name without the namespace
	kind       prometheus.ValueType
	value      float64
	durations  *xpwc.Durations // of a histogram, which has no value

	labels prometheus.Labels // for instance "disk" as "reason"; nil if there is one figure of the name
}

type number interface {
	int | int64 | uint64 | float64
}

func counter[T number](name, help string, value T) figure {
	return figure{name: name, help: help, kind: prometheus.CounterValue, value: float64(value)}
}

func gauge[T number](name, help string, value T) figure {
	return figure{name: name, help: help, kind: prometheus.GaugeValue, value: float64(value)}
}

// flag is 1 if there is an error.
func flag(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

// ofCache returns all figures of a cache. Each name has the quantity, and ends in the unit if there is one: here
// alone, for Prometheus and expvar.
func ofCache(s xpwc.Stats) []figure {
	figures := []figure{
		counter("lookup_hits_total", "Look-ups answered from the cache.", s.Hits.Entries),
		counter("lookup_hit_bytes_total", "Bytes of packed weights that look-ups were answered with.", s.Hits.Bytes),
		counter("lookup_misses_total", "Look-ups not answered from the cache.", s.Misses),
		counter("session_waits_total", "Waits for another session that was packing the same entry.", s.Waits),
		counter("session_wait_timeouts_total", "Waits for another session that ended without the entry.",
			s.WaitTimeouts),
		counter("packed_entries_total", "Entries packed and put into the cache.", s.Packed.Entries),
		counter("packed_bytes_total", "Bytes packed and put into the cache.", s.Packed.Bytes),
		counter("reused_entries_total", "Packings whose bytes are equal to an entry of the cache.", s.Reused.Entries),
		counter("reused_bytes_total", "Bytes of packings that are equal to an entry of the cache.", s.Reused.Bytes),
		counter("verified_payloads_total", "Payloads of the file that were checked and found right.",
			s.Verified.Entries),
		counter("verified_payload_bytes_total", "Bytes of payloads that were checked and found right.",
			s.Verified.Bytes),
		counter("changed_sources_total", "Files and other sources that changed in place while they were packed.",
			s.SourcesChanged),
		counter("lost_payloads_total", "Payloads that may have been lost while a session used them.", s.LostPayloads),
		counter("damaged_payloads_total", "Payloads of the file that were found wrong, and packed afresh.",
			s.DamagedPayloads),
		gauge("unverified_payloads",
			"Payloads that open sessions use and that are yet to be checked in the background.",
			s.Unverified.Entries),
		gauge("unverified_payload_bytes",
			"Bytes of payloads that open sessions use and that are yet to be checked in the background.",
			s.Unverified.Bytes),
		counter("file_compactions_total", "Compactions of the file by this process.", s.Compactions),
		counter("copied_packed_bytes_total", "Packed bytes that were copied to where they stay.", s.CopiedBytes),
		gauge("mapped_bytes", "Bytes of the file that open sessions use.", s.MappedBytes),
		gauge("private_bytes", "Bytes of private memory that open sessions use.", s.PrivateBytes),
		gauge("file_generation", "Number of the commit in force, 0 while there is none.", s.Generation),
		gauge("file_entries", "Entries in the file.", s.Entries),
		gauge("file_size_bytes", "Size of the file.", s.FileBytes),
		gauge("file_payload_bytes", "Bytes of packed weights in the file.", s.PayloadBytes),
		gauge("file_dead_bytes", "Bytes of the file that nothing refers to.", s.DeadBytes),
		counter("file_written_bytes_total", "Bytes that this process wrote to the file.", s.WrittenBytes),
		gauge("file_unusable", "1 if the file cannot be used, and the cache is in memory instead.", flag(s.Unusable)),
		gauge("file_damage_seen", "1 if the file was found damaged since the cache was opened.", flag(s.Damaged)),
		gauge("failure_seen", "1 if something failed since the cache was opened, whether it was worked around or not.",
			flag(s.LastError)),
	}
	// Each reason has a series before it counts: its first increase would not be seen otherwise.
	for _, reason := range xpwc.Reasons() {
		count := s.Reasons[reason]
		labels := prometheus.Labels{"reason": string(reason)}
		if reason.Kind() == xpwc.PrivateMemory {
			private := s.Private[reason]
			figures = append(figures, labelled(labels,
				counter("private_packed_entries_total", "Entries packed into private memory, by reason.",
					private.Entries),
				counter("private_packed_bytes_total", "Bytes packed into private memory, by reason.",
					private.Bytes))...)
		}
		figures = append(figures, labelled(labels,
			counter("slow_entries_total", "What made loads slower than mapping, by reason: weights, tensors, waits.",
				count.Entries),
			counter("slow_bytes_total", "Bytes packed or read that made loads slower than mapping, by reason.",
				count.Bytes))...)
	}
	for _, outcome := range []xpwc.LoadOutcome{xpwc.LoadMapped, xpwc.LoadPacked, xpwc.LoadFailed} {
		durations := s.Loads[outcome]
		figures = append(figures, figure{
			name: "load_duration_seconds",
			help: "How long models took to load, from the beginning of a session until its runtime was created, " +
				"by outcome.",
			durations: &durations, labels: prometheus.Labels{"outcome": string(outcome)},
		})
	}
	return figures
}

// labelled gives figures labels.
func labelled(labels prometheus.Labels, figures ...figure) []figure {
	for i := range figures {
		figures[i].labels = labels
	}
	return figures
}

// ofBuild has in its labels what this process packs with: packed weights are of use to another one if the layout is
// the same.
func ofBuild() []figure {
	f := gauge("build_info", "What this process packs with: 1 with the version and commit of xpwc, XNNPACK's build "+
		"identifier and the layout.", 1)
	f.labels = prometheus.Labels{
		"version": xpwc.Version,
		"commit":  xpwc.Commit(), // empty if it is not known
		"xnnpack": xnnpack.BuildIdentifier(),
		"layout":  "", // where XNNPACK cannot run
	}
	if layout, err := xpwc.CurrentLayout(); err == nil {
		f.labels["layout"] = layout.Fingerprint.String()
	}
	return []figure{f}
}

// ofRunner returns all figures of a Runner, in the order of the fields of inference.Stats.
func ofRunner(s inference.Stats) []figure {
	return []figure{
		gauge("runner_instances", "Runs that can compute at the same time.", s.Instances),
		gauge("runner_running", "Runs that compute.", s.Running),
		gauge("runner_waiting", "Runs that wait for their turn.", s.Waiting),
		counter("runner_runs_total", "Runs that computed their outputs.", s.Runs),
		counter("runner_failed_runs_total", "Runs that had their turn and returned an error.", s.Failed),
		counter("runner_abandoned_runs_total", "Runs that did not wait for their turn until it came.", s.Abandoned),
		counter("runner_waited_seconds_total", "Time that Runs waited for their turn.", s.Waited.Seconds()),
		counter("runner_reloads_total", "Reloads that put another version of the model in force.", s.Reloads),
		counter("runner_failed_reloads_total", "Reloads that failed; the version before stayed.", s.FailedReloads),
	}
}

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"xpwc"
)

const namespace = "xpwc"

// A metric is one figure of a cache: value gives it, or, for each reason, private.
type metric struct {
	name        string // without the namespace
	description *prometheus.Desc
	kind        prometheus.ValueType
	value       func(*xpwc.Stats) float64
	private     func(xpwc.Count) float64
}

func counter(name, help string, value func(*xpwc.Stats) float64) metric {
	return metric{name: name, description: describe(name, help), kind: prometheus.CounterValue, value: value}
}

func gauge(name, help string, value func(*xpwc.Stats) float64) metric {
	return metric{name: name, description: describe(name, help), kind: prometheus.GaugeValue, value: value}
}

func privateCounter(name, help string, value func(xpwc.Count) float64) metric {
	described := describe(name, help, "reason")
	return metric{name: name, description: described, kind: prometheus.CounterValue, private: value}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	labels = append([]string{"path"}, labels...)
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

func entries(c xpwc.Count) float64 { return float64(c.Entries) }
func bytes(c xpwc.Count) float64   { return float64(c.Bytes) }

func flag(set bool) float64 {
	if set {
		return 1
	}
	return 0
}

// metrics are all that are numbers, in the order of Stats' fields. Each name says what is counted, and ends in the
// unit if there is one: here alone, for Prometheus and expvar.
var metrics = []metric{
	counter("lookup_hits_total", "Look-ups answered from the cache.",
		func(s *xpwc.Stats) float64 { return entries(s.Hits) }),
	counter("lookup_hit_bytes_total", "Bytes of packed weights that look-ups were answered with.",
		func(s *xpwc.Stats) float64 { return bytes(s.Hits) }),
	counter("lookup_misses_total", "Look-ups not answered from the cache.",
		func(s *xpwc.Stats) float64 { return float64(s.Misses) }),
	counter("packed_entries_total", "Entries packed and put into the cache.",
		func(s *xpwc.Stats) float64 { return entries(s.Packed) }),
	counter("packed_bytes_total", "Bytes packed and put into the cache.",
		func(s *xpwc.Stats) float64 { return bytes(s.Packed) }),
	counter("reused_entries_total", "Packings whose bytes are equal to an entry of the cache.",
		func(s *xpwc.Stats) float64 { return entries(s.Reused) }),
	counter("reused_bytes_total", "Bytes of packings that are equal to an entry of the cache.",
		func(s *xpwc.Stats) float64 { return bytes(s.Reused) }),
	counter("verified_payloads_total", "Payloads of the file that were checked and found right.",
		func(s *xpwc.Stats) float64 { return entries(s.Verified) }),
	counter("verified_payload_bytes_total", "Bytes of payloads that were checked and found right.",
		func(s *xpwc.Stats) float64 { return bytes(s.Verified) }),
	counter("changed_sources_total", "Files and other sources that changed in place while they were packed.",
		func(s *xpwc.Stats) float64 { return float64(s.SourcesChanged) }),
	counter("lost_payloads_total", "Payloads that may have been lost while a session used them.",
		func(s *xpwc.Stats) float64 { return float64(s.LostPayloads) }),
	counter("damaged_payloads_total", "Payloads of the file that were found wrong, and packed afresh.",
		func(s *xpwc.Stats) float64 { return float64(s.DamagedPayloads) }),
	gauge("unverified_payloads", "Payloads that open sessions use and that are yet to be checked in the background.",
		func(s *xpwc.Stats) float64 { return entries(s.Unverified) }),
	gauge("unverified_payload_bytes",
		"Bytes of payloads that open sessions use and that are yet to be checked in the background.",
		func(s *xpwc.Stats) float64 { return bytes(s.Unverified) }),
	counter("file_compactions_total", "Compactions of the file by this process.",
		func(s *xpwc.Stats) float64 { return float64(s.Compactions) }),
	privateCounter("private_packed_entries_total", "Entries packed into private memory, by reason.", entries),
	privateCounter("private_packed_bytes_total", "Bytes packed into private memory, by reason.", bytes),
	counter("copied_packed_bytes_total", "Packed bytes that were copied to where they stay.",
		func(s *xpwc.Stats) float64 { return float64(s.CopiedBytes) }),
	counter("packing_seconds_total", "Time that XNNPACK's packing took.",
		func(s *xpwc.Stats) float64 { return s.PackingTime.Seconds() }),
	gauge("mapped_bytes", "Bytes of the file that open sessions use.",
		func(s *xpwc.Stats) float64 { return float64(s.MappedBytes) }),
	gauge("private_bytes", "Bytes of private memory that open sessions use.",
		func(s *xpwc.Stats) float64 { return float64(s.PrivateBytes) }),
	gauge("file_generation", "Number of the commit in force, 0 while there is none.",
		func(s *xpwc.Stats) float64 { return float64(s.Generation) }),
	gauge("file_entries", "Entries in the file.",
		func(s *xpwc.Stats) float64 { return float64(s.Entries) }),
	gauge("file_size_bytes", "Size of the file.",
		func(s *xpwc.Stats) float64 { return float64(s.FileBytes) }),
	gauge("file_payload_bytes", "Bytes of packed weights in the file.",
		func(s *xpwc.Stats) float64 { return float64(s.PayloadBytes) }),
	gauge("file_dead_bytes", "Bytes of the file that nothing refers to.",
		func(s *xpwc.Stats) float64 { return float64(s.DeadBytes) }),
	counter("file_written_bytes_total", "Bytes that this process wrote to the file.",
		func(s *xpwc.Stats) float64 { return float64(s.WrittenBytes) }),
	gauge("file_unusable", "1 if the file cannot be used, and the cache is in memory instead.",
		func(s *xpwc.Stats) float64 { return flag(s.Unusable != nil) }),
	gauge("file_damage_seen", "1 if the file was found damaged since the cache was opened.",
		func(s *xpwc.Stats) float64 { return flag(s.Damaged != nil) }),
	gauge("failure_seen", "1 if something failed since the cache was opened, whether it was worked around or not.",
		func(s *xpwc.Stats) float64 { return flag(s.LastError != nil) }),
}

package main

// #include "host.h"
import "C"

import "xpwc"

//export xpwcCacheStats
func xpwcCacheStats(handle C.xpwc_cache, stats *C.struct_xpwc_stats, valid C.bool,
	dst *C.struct_xpwc_stats,
) C.xpwc_status {
	return withCache(handle, func(c *cache) error {
		switch {
		case stats == nil:
			return invalid("xpwc_cache_stats: stats is NULL")
		case !bool(valid):
			return invalid("xpwc_cache_stats: stats.struct_size is %d", stats.struct_size)
		}
		s := c.Stats()
		*dst = C.struct_xpwc_stats{
			hits:              count(s.Hits),
			misses:            C.uint64_t(s.Misses),
			packed:            count(s.Packed),
			reused:            count(s.Reused),
			verified:          count(s.Verified),
			damaged_payloads:  C.uint64_t(s.DamagedPayloads),
			private_unnamed:   count(s.Private[xpwc.ReasonUnnamed]),
			private_read_only: count(s.Private[xpwc.ReasonReadOnly]),
			private_busy:      count(s.Private[xpwc.ReasonBusy]),
			private_disk:      count(s.Private[xpwc.ReasonDisk]),
			mapped_bytes:      C.uint64_t(s.MappedBytes),
			private_bytes:     C.uint64_t(s.PrivateBytes),
			generation:        C.uint64_t(s.Generation),
			entries:           C.uint64_t(s.Entries),
			file_bytes:        C.uint64_t(s.FileBytes),
			payload_bytes:     C.uint64_t(s.PayloadBytes),
			dead_bytes:        C.uint64_t(s.DeadBytes),
			written_bytes:     C.uint64_t(s.WrittenBytes),
			compactions:       C.uint64_t(s.Compactions),
			private_version:   count(s.Private[xpwc.ReasonVersion]),
			lost_payloads:     C.uint64_t(s.LostPayloads),
			sources_changed:   C.uint64_t(s.SourcesChanged),
			damaged:           C.uint64_t(flag(s.Damaged != nil)),
			unverified:        count(s.Unverified),
			waits:             C.uint64_t(s.Waits),
			wait_timeouts:     C.uint64_t(s.WaitTimeouts),
			unusable:          C.uint64_t(statusOf(s.Unusable)),
		}
		for i, reason := range xpwc.Reasons() {
			dst.reasons[i] = count(s.Reasons[reason])
		}
		return nil
	})
}

func count(c xpwc.Count) C.struct_xpwc_count {
	return C.struct_xpwc_count{entries: C.uint64_t(c.Entries), bytes: C.uint64_t(c.Bytes)}
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

package metrics

import (
	"expvar"

	"xpwc"
)

// Var returns the caches' figures as a variable for [expvar.Publish]: an object with build_info, and with caches, which
// has each cache's figures by its path. They have the names that Prometheus has them by, without the xpwc_ at the
// beginning. What has a label there is an object by its values. A histogram has count, sum, and within, which counts
// how many took no longer than each bound of [xpwc.Durations]. unusable, file_damage and failure are the texts of the
// errors that file_unusable, file_damage_seen and failure_seen stand for, empty for none.
func Var(caches ...*xpwc.Cache) expvar.Var {
	cachesByName := named(caches)
	return expvar.Func(func() any {
		figures := map[string]any{}
		for name, cache := range cachesByName {
			figures[name] = published(cache.Stats())
		}
		return map[string]any{"build_info": ofBuild()[0].labels, "caches": figures}
	})
}

func published(s xpwc.Stats) map[string]any {
	figures := byName(ofCache(s))
	for name, err := range map[string]error{"unusable": s.Unusable, "file_damage": s.Damaged, "failure": s.LastError} {
		figures[name] = ""
		if err != nil {
			figures[name] = err.Error()
		}
	}
	return figures
}

func byName(list []figure) map[string]any {
	figures := map[string]any{}
	for _, f := range list {
		var value any = f.value
		if d := f.durations; d != nil {
			buckets := map[string]int64{}
			for bound, count := range d.Within {
				buckets[bound.String()] = count
			}
			value = map[string]any{"count": d.Count, "sum": d.Sum.Seconds(), "within": buckets}
		}
		if f.labels == nil {
			figures[f.name] = value
		}
		for _, labelled := range f.labels { // which is one
			if figures[f.name] == nil {
				figures[f.name] = map[string]any{}
			}
			figures[f.name].(map[string]any)[labelled] = value
		}
	}
	return figures
}

package metrics

import (
	"expvar"

	"xpwc"
)

// Var returns the caches' figures as a variable for [expvar.Publish]: an object with build_info, and with caches, which
// has each cache's figures by its path. They have the names that Prometheus has them by, without the xpwc_ at the
// beginning. What has a label there is an object by its values. A histogram has count, sum, and within, which says how
// many took no longer than each bound of [xpwc.Durations]. unusable, file_damage and failure are the texts of the
// errors that file_unusable, file_damage_seen and failure_seen stand for, empty for none.
func Var(caches ...*xpwc.Cache) expvar.Var {
	all := named(caches)
	return expvar.Func(func() any {
		figures := map[string]any{}
		for _, cache := range all {
			figures[cache.name] = published(cache.Stats())
		}
		return map[string]any{"build_info": thisBuild(), "caches": figures}
	})
}

// histogram is a histogram in JSON.
type histogram struct {
	Count  int64            `json:"count"`
	Sum    float64          `json:"sum"`
	Within map[string]int64 `json:"within"`
}

func published(s xpwc.Stats) map[string]any {
	figures := map[string]any{
		"unusable": text(s.Unusable), "file_damage": text(s.Damaged), "failure": text(s.LastError),
	}
	for _, m := range metrics {
		if m.value != nil {
			figures[m.name] = m.value(&s)
			continue
		}
		byReason := map[xpwc.Reason]float64{}
		for _, reason := range reasons(s.Private) {
			byReason[reason] = m.private(s.Private[reason])
		}
		figures[m.name] = byReason
	}
	byOutcome := map[xpwc.LoadOutcome]histogram{}
	for _, outcome := range outcomes {
		d := s.Loads[outcome]
		h := histogram{d.Count, d.Sum.Seconds(), map[string]int64{}}
		for bound, count := range d.Within {
			h.Within[bound.String()] = count
		}
		byOutcome[outcome] = h
	}
	figures[loadDurationName] = byOutcome
	return figures
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

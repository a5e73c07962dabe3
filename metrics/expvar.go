package metrics

import (
	"expvar"

	"xpwc"
)

// Var returns the caches' Stats as a variable for [expvar.Publish]: an object of each cache's figures by its path,
// under the names of the fields of [xpwc.Stats]. Errors are texts, empty for none; PackingTime is in seconds.
func Var(caches ...*xpwc.Cache) expvar.Var {
	all := named(caches)
	return expvar.Func(func() any {
		figures := map[string]any{}
		for _, cache := range all {
			figures[cache.name] = published(cache.Stats())
		}
		return figures
	})
}

// stats is Stats with other types for what JSON has no types for.
type stats struct {
	xpwc.Stats
	PackingTime float64
	Damaged     string
	LastError   string
}

func published(s xpwc.Stats) stats {
	return stats{s, s.PackingTime.Seconds(), text(s.Damaged), text(s.LastError)}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

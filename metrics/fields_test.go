package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"xpwc"
)

// samples gives the figures of some stats by name and reason.
func samples(t *testing.T, s xpwc.Stats) map[string]float64 {
	t.Helper()
	collected := make(chan prometheus.Metric, 500)
	send(collected, prometheus.Labels{"path": "a"}, ofCache(s))
	close(collected)
	figures := map[string]float64{}
	for m := range collected {
		var sample dto.Metric
		require.NoError(t, m.Write(&sample))
		name := m.Desc().String()
		for _, l := range sample.Label {
			name += " " + l.GetValue()
		}
		_, twice := figures[name]
		require.False(t, twice, name)
		if h := sample.Histogram; h != nil {
			figures[name+" count"], figures[name+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
			for _, b := range h.Bucket {
				figures[fmt.Sprint(name, " within ", b.GetUpperBound())] = float64(b.GetCumulativeCount())
			}
			continue
		}
		figures[name] = sample.GetCounter().GetValue() + sample.GetGauge().GetValue()
	}
	return figures
}

func asJSON(t *testing.T, s xpwc.Stats) string {
	t.Helper()
	b, err := json.Marshal(published(s))
	require.NoError(t, err)
	return string(b)
}

// numbers returns Stats that differ from the zero value in one number each, by where.
func numbers(t *testing.T) map[string]xpwc.Stats {
	stats := map[string]xpwc.Stats{}
	set := func(field string, value func(*xpwc.Stats) reflect.Value, number any) {
		var s xpwc.Stats
		v := value(&s)
		v.Set(reflect.ValueOf(number).Convert(v.Type()))
		stats[field] = s
	}
	for f := range reflect.TypeFor[xpwc.Stats]().Fields() {
		field := func(s *xpwc.Stats) reflect.Value { return reflect.ValueOf(s).Elem().FieldByIndex(f.Index) }
		switch f.Type {
		case reflect.TypeFor[xpwc.Count]():
			set(f.Name+".Entries", func(s *xpwc.Stats) reflect.Value { return field(s).FieldByName("Entries") }, 3)
			set(f.Name+".Bytes", func(s *xpwc.Stats) reflect.Value { return field(s).FieldByName("Bytes") }, 3)
			require.Equal(t, 2, f.Type.NumField(), "Count has grown")
		case reflect.TypeFor[map[xpwc.Reason]xpwc.Count]():
			for _, reason := range xpwc.Reasons() {
				if f.Name == "Private" && reason.Kind() != xpwc.PrivateMemory {
					continue
				}
				set(f.Name+".Entries "+string(reason), field, map[xpwc.Reason]xpwc.Count{reason: {Entries: 3}})
				set(f.Name+".Bytes "+string(reason), field, map[xpwc.Reason]xpwc.Count{reason: {Bytes: 3}})
			}
		case reflect.TypeFor[map[xpwc.LoadOutcome]xpwc.Durations]():
			for _, outcome := range []xpwc.LoadOutcome{xpwc.LoadMapped, xpwc.LoadPacked, xpwc.LoadFailed} {
				outcomes := func(d xpwc.Durations) map[xpwc.LoadOutcome]xpwc.Durations {
					return map[xpwc.LoadOutcome]xpwc.Durations{outcome: d}
				}
				set(f.Name+".Count "+string(outcome), field, outcomes(xpwc.Durations{Count: 3}))
				set(f.Name+".Sum "+string(outcome), field, outcomes(xpwc.Durations{Sum: 3 * time.Second}))
				set(f.Name+".Within "+string(outcome), field,
					outcomes(xpwc.Durations{Within: map[time.Duration]int64{time.Second: 3}}))
			}
		case reflect.TypeFor[error]():
			set(f.Name, field, errors.New("something"))
		case reflect.TypeFor[time.Duration]():
			set(f.Name, field, 3*time.Second)
		default:
			require.True(t, f.Type.ConvertibleTo(reflect.TypeFor[float64]()),
				"Stats.%s is of a type that is new here", f.Name)
			set(f.Name, field, 3)
		}
	}
	return stats
}

func TestEveryFieldOfStatsIsAMetricOfItsOwn(t *testing.T) {
	zero := samples(t, xpwc.Stats{})
	nothing := asJSON(t, xpwc.Stats{})
	fieldOf := map[string]string{} // which field a metric is of
	for field, s := range numbers(t) {
		var changed []string
		for name, value := range samples(t, s) {
			if value != zero[name] {
				require.Contains(t, []float64{1, 3}, value, name)
				changed = append(changed, name)
			}
		}
		require.Len(t, changed, 1, "metrics of Stats.%s", field)
		require.Empty(t, fieldOf[changed[0]], "%s is of Stats.%s too", changed[0], field)
		fieldOf[changed[0]] = field
		require.NotEqual(t, nothing, asJSON(t, s), "expvar has Stats.%s", field)
	}
	for name := range zero {
		require.NotEmpty(t, fieldOf[name], "%s is of nothing", name)
	}
}

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	promodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// A rules file of Prometheus, as far as alerts have it.
type rules struct {
	Groups []struct {
		Name  string
		Rules []alert
	}
}

type alert struct {
	Alert, Expr         string
	For                 promodel.Duration
	Labels, Annotations map[string]string
}

// scraped is what Prometheus gets from a running service, with the labels that it adds.
func scraped(t *testing.T) map[string][]labels.Labels {
	t.Helper()
	s := start(t, filepath.Join(t.TempDir(), "models.xpwc"), modelsDir(t), pose)
	defer s.stop()
	code, _, body := s.do("GET", "/metrics", "", nil)
	require.Equal(t, http.StatusOK, code)
	problems, err := promlint.New(bytes.NewReader(body)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems, "promtool check metrics says the same")
	parse := expfmt.NewTextParser(promodel.UTF8Validation)
	families, err := parse.TextToMetricFamilies(bytes.NewReader(body))
	require.NoError(t, err)
	series := map[string][]labels.Labels{}
	for name, family := range families {
		for _, m := range family.Metric {
			l := labels.NewBuilder(labels.FromStrings("instance", "here:8080", "job", "service"))
			for _, pair := range m.Label {
				l.Set(pair.GetName(), cmp.Or(pair.GetValue(), "none")) // an empty one would be no label
			}
			if m.Histogram == nil {
				series[name] = append(series[name], l.Labels())
				continue
			}
			for _, suffix := range []string{"_count", "_sum", "_bucket"} {
				if suffix == "_bucket" {
					l.Set("le", "1")
				}
				series[name+suffix] = append(series[name+suffix], l.Labels())
			}
		}
	}
	require.Contains(t, series, "xpwc_load_duration_seconds_bucket")
	return series
}

// requireSeries requires that an expression is PromQL, and that the service has series for each of its selectors, with
// all labels that the expression goes by.
func requireSeries(t *testing.T, series map[string][]labels.Labels, expression string) {
	t.Helper()
	parsed, err := parser.ParseExpr(expression)
	require.NoError(t, err, expression)
	selectors := parser.ExtractSelectors(parsed)
	require.NotEmpty(t, selectors, expression)
	for _, matchers := range selectors {
		name := ""
		for _, m := range matchers {
			if m.Name == promodel.MetricNameLabel {
				name = m.Value
			}
		}
		require.Contains(t, series, name, expression)
		ok := false
		for _, s := range series[name] {
			complete := true
			for _, m := range matchers {
				complete = complete && (m.Name == promodel.MetricNameLabel || s.Has(m.Name) && m.Matches(s.Get(m.Name)))
			}
			ok = ok || complete
		}
		require.True(t, ok, "no series of %s has the labels of %s", name, expression)
		parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
			if a, ok := n.(*parser.AggregateExpr); ok {
				for _, label := range a.Grouping {
					require.True(t, series[name][0].Has(label), "%s has no label %s: %s", name, label, expression)
				}
			}
			return nil
		})
	}
}

func TestTheAlertsAreAboutMetricsThatTheServiceHas(t *testing.T) {
	series := scraped(t)
	content, err := os.ReadFile("alerts.yml")
	require.NoError(t, err)
	var r rules
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&r))
	require.Len(t, r.Groups, 1)
	names := map[string]bool{}
	for _, a := range r.Groups[0].Rules {
		require.Regexp(t, "^Xpwc[A-Za-z]+$", a.Alert)
		require.False(t, names[a.Alert], "%s twice", a.Alert)
		names[a.Alert] = true
		requireSeries(t, series, a.Expr)
		require.Contains(t, []string{"critical", "warning", "info"}, a.Labels["severity"], a.Alert)
		require.Contains(t, a.Annotations, "summary", a.Alert)
		require.Contains(t, a.Annotations, "action", a.Alert)
		for _, text := range a.Annotations { // Prometheus declares these two in the same way
			_, err := template.New(a.Alert).Parse("{{ $labels := .Labels }}{{ $value := .Value }}" + text)
			require.NoError(t, err)
		}
	}
	require.NotEmpty(t, names)
}

func TestTheDashboardIsAboutMetricsThatTheServiceHas(t *testing.T) {
	series := scraped(t)
	content, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
		Panels []struct {
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(content, &dashboard))
	// Grafana puts the chosen values in the places of variables.
	variables := strings.NewReplacer("$instance", ".*", "$path", ".*")
	labelValues := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	for _, v := range dashboard.Templating.List {
		if v.Type == "query" {
			m := labelValues.FindStringSubmatch(v.Query)
			require.NotNil(t, m, v.Query)
			requireSeries(t, series, "count by ("+m[2]+") ("+variables.Replace(m[1])+")")
		}
	}
	require.NotEmpty(t, dashboard.Panels)
	used := map[[2]int]string{}
	for _, p := range dashboard.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			expression := variables.Replace(target.Expr)
			require.NotContains(t, expression, "$", "an unknown variable")
			requireSeries(t, series, expression)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Less(t, x, 24, p.Title)
				require.Empty(t, used[[2]int{x, y}], "%s is drawn over", p.Title)
				used[[2]int{x, y}] = p.Title
			}
		}
	}
}

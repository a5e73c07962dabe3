package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// written is a file of figures of four modes.
func written(t testing.TB) string {
	t.Helper()
	r := result{Name: "x", Model: "model", Processes: 8}
	for i, name := range []string{"none", "cold", "warm", "dropped"} {
		figures := map[string]spread{"rss_anon_bytes": {Median: 1 << 30}}
		for _, f := range []string{"total_load_ms", "first_answer_ms"} {
			figures[f] = spread{float64(i + 2)}
		}
		r.Modes = append(r.Modes, mode{Mode: name, Figures: figures})
	}
	for _, name := range []string{"xpwc, without cache", "xpwc, next start"} {
		figures := map[string]spread{"many_load_ms": {20}, "many_pss_bytes": {1 << 30}}
		r.Modes = append(r.Modes, mode{Mode: name, Figures: figures})
	}
	content, err := json.Marshal(report{[]result{r}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "bench.json")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func TestTheSameFiguresGiveTheSamePlots(t *testing.T) {
	figures := written(t)
	dir := filepath.Join(t.TempDir(), "new")
	drawn := map[string]string{}
	for range 2 {
		require.NoError(t, run([]string{figures, dir}))
		for _, name := range []string{"load", "memory", "dropped", "processes"} {
			svg, err := os.ReadFile(filepath.Join(dir, "x-"+name+".svg"))
			require.NoError(t, err)
			requireXML(t, string(svg))
			require.Contains(t, string(svg), "without cache")
			require.Contains(t, string(svg), "fill:#FFFFFF", "readers' backgrounds may be dark")
			require.Contains(t, string(svg), "model")
			next := "next start"
			if name == "processes" {
				next = "with cache"
			}
			require.Contains(t, string(svg), next)
			if earlier, ok := drawn[name]; ok {
				require.Equal(t, earlier, string(svg))
			}
			drawn[name] = string(svg)
		}
	}
}

func requireXML(t testing.TB, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

func TestMistakesAreTold(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	require.NoError(t, os.WriteFile(garbage, []byte("{"), 0o600))
	require.ErrorContains(t, run(nil), "xpwc bench --figures")
	require.ErrorIs(t, run([]string{filepath.Join(dir, "absent"), dir}), os.ErrNotExist)
	require.ErrorContains(t, run([]string{garbage, dir}), garbage)
	require.Error(t, run([]string{written(t), garbage}))
}

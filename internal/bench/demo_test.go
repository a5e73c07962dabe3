package bench

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// demo runs a demo and returns what it printed.
func demo(t testing.TB, o Options) (string, error) {
	t.Helper()
	var out, stderr strings.Builder
	_, err := Demo(t.Context(), o, &out, &stderr)
	return out.String(), err
}

// shown is one of the modes that demo --figures wrote.
type shown struct {
	figures
	mode, sum string
}

// requireModes checks what demo --figures wrote against the promises of a warm start.
func requireModes(t testing.TB, path string) (modes []shown) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var raw []map[string]any
	require.NoError(t, json.Unmarshal(content, &raw))
	require.Len(t, raw, 3)
	for _, object := range raw {
		require.ElementsMatch(t, []string{"mode", "create_runtime_ms", "total_load_ms", "first_inference_ms",
			"rss_anon_bytes", "rss_file_bytes", "private_dirty_bytes", "hits", "packed", "private", "bytes_written",
			"file_bytes", "payload_bytes", "output_sha256"}, slices.Collect(maps.Keys(object)))
		m := shown{figures: figures{}}
		for name, v := range object {
			switch v := v.(type) {
			case float64:
				m.figures[figure(name)] = v
			case string:
				m.mode, m.sum = object["mode"].(string), object["output_sha256"].(string)
			}
		}
		modes = append(modes, m)
	}
	uncached, cold, warm := modes[0], modes[1], modes[2]
	require.Equal(t, []string{modeNone, modeCold, modeWarm}, []string{uncached.mode, cold.mode, warm.mode})
	for _, m := range modes {
		require.Positive(t, m.figures[createMS])
		require.GreaterOrEqual(t, m.figures[totalMS], m.figures[createMS])
		require.Positive(t, m.figures[firstMS])
		require.Equal(t, uncached.sum, m.sum)
		require.Len(t, m.sum, 2*sha256.Size)
		if runtime.GOOS == "linux" {
			require.Positive(t, m.figures[rssAnon])
			require.Positive(t, m.figures[rssFile])
			require.Positive(t, m.figures[dirty])
		}
	}
	for _, f := range []figure{hits, packed, private, bytesWritten, fileBytes, payloadBytes} {
		require.Zero(t, uncached.figures[f])
	}
	require.Zero(t, cold.figures[hits])
	require.Positive(t, cold.figures[packed])
	require.Greater(t, cold.figures[bytesWritten], cold.figures[payloadBytes])
	require.Equal(t, cold.figures[packed], warm.figures[hits])
	require.Zero(t, warm.figures[packed])
	require.Zero(t, warm.figures[private])
	require.Zero(t, warm.figures[bytesWritten])
	require.Equal(t, cold.figures[fileBytes], warm.figures[fileBytes])
	require.Equal(t, cold.figures[payloadBytes], warm.figures[payloadBytes])
	return modes
}

func TestDemoComparesTheModes(t *testing.T) {
	dir := t.TempDir()
	o := Options{Subject: subjectOf(faceModel(t))}
	o.Dir, o.Figures = filepath.Join(dir, "work"), filepath.Join(dir, "modes.json")
	out, err := demo(t, o)
	require.NoError(t, err)
	modes := requireModes(t, filepath.Join(dir, "modes.json"))
	require.Contains(t, out, "identical bit for bit.\nSHA-256 "+modes[0].sum)
	require.FileExists(t, filepath.Join(dir, "work", "face_detection_short_range.demo.xpwc"))

	_, err = demo(t, o)
	require.NoError(t, err)
	requireModes(t, filepath.Join(dir, "modes.json")) // the cold run is cold although there was a cache

	o.Dir, o.Figures = filepath.Join(dir, "demo"), filepath.Join(dir, "none", "modes.json")
	out, err = demo(t, o)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Contains(t, out, "identical bit for bit", "what was measured is printed first")
}

// The promise of a warm start on a real model of some size: nothing is packed, nothing is written, and the packed
// weights are the file's pages and not private memory.
func TestTheDemoOfTheREADME(t *testing.T) {
	dir := t.TempDir()
	o := Options{Subject: subjectOf(filepath.Join("..", "..", DemoModel))}
	o.Dir, o.Figures = dir, filepath.Join(dir, "modes.json")
	_, err := demo(t, o)
	require.NoError(t, err)
	modes := requireModes(t, filepath.Join(dir, "modes.json"))
	warm := modes[2]
	require.Less(t, warm.figures[fileBytes], 1.01*warm.figures[payloadBytes])
	if runtime.GOOS == "linux" {
		private := warm.figures[rssAnon] - (modes[0].figures[rssAnon] - warm.figures[payloadBytes])
		// The memory of a process without the weights differs between the modes by some MiB under the race detector.
		require.Less(t, private, 0.2*warm.figures[payloadBytes])
	}
}

func TestDemoOfTheGeneratedStack(t *testing.T) {
	dir := t.TempDir()
	o := Options{Subject: subjectOf(Llama), Layers: 1}
	o.Dir, o.Figures = filepath.Join(dir, "demo"), filepath.Join(dir, "modes.json")
	_, err := demo(t, o)
	require.NoError(t, err)
	modes := requireModes(t, filepath.Join(dir, "modes.json"))
	cold, warm := modes[1].figures, modes[2].figures
	payload := cold[payloadBytes]
	require.EqualValues(t, 7, cold[packed])
	require.Less(t, cold[fileBytes], 1.01*payload)
	if runtime.GOOS == "linux" {
		require.Greater(t, modes[0].figures[rssAnon], payload, "without a cache packed weights are private")
		require.Greater(t, warm[rssFile], payload, "warm they are the file's")
		private := warm[rssAnon] - (modes[0].figures[rssAnon] - payload)
		require.Less(t, private, 0.05*payload, "and not private")
	}
	weights, err := os.Stat(filepath.Join(dir, "demo", "llama-qc8w-1.tflite"))
	require.NoError(t, err)

	_, err = demo(t, o)
	require.NoError(t, err)
	second, err := os.Stat(filepath.Join(dir, "demo", "llama-qc8w-1.tflite"))
	require.NoError(t, err)
	require.Equal(t, weights.ModTime(), second.ModTime(), "the weights are generated once")
}

func TestDifferentOutputsFail(t *testing.T) {
	modeOf := func(mode, sum string) *modeResult {
		return &modeResult{Mode: mode, Runs: []*run{{Output: sum}}}
	}
	for _, sums := range [][3]string{{"b", "a", "a"}, {"a", "b", "a"}, {"a", "a", "b"}} {
		var out strings.Builder
		r := result{Modes: []*modeResult{modeOf("none", sums[0]), modeOf("cold", sums[1]), modeOf("warm", sums[2])}}
		require.ErrorIs(t, r.summarize(&out), errDiffer)
		require.Contains(t, out.String(), "cold: "+sums[1])
		require.NotContains(t, out.String(), "identical")
	}
	r := result{Modes: []*modeResult{modeOf("none", "a"), modeOf("cold", "a"), modeOf("warm", "a")}}
	require.NoError(t, r.summarize(&strings.Builder{}))
}

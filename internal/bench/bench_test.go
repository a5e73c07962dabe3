package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"xpwc/internal/modelfile"
)

// TestMain makes this test's binary a measuring process too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == MeasureCommand {
		if err := Measure(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// faceModel is a small model with one input [1, 128, 128, 3] and two outputs.
func faceModel(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "third_party", "models", "face_detection_short_range.tflite"))
	require.NoError(t, err)
	require.FileExists(t, path, "the models are not there: run make third_party")
	return path
}

// subjectOf is a model that one thread runs.
func subjectOf(path string) Subject { return Subject{File: modelfile.File{Path: path}, Threads: 1} }

// measureJSON is a bench with its figures in JSON.
func measureJSON(t testing.TB, dir string, o Options) (r *result, stdout string) {
	t.Helper()
	o.Dir, o.Figures = filepath.Join(dir, "demo"), filepath.Join(dir, "bench.json")
	var out, stderr strings.Builder
	returned, err := Run(t.Context(), o, &out, &stderr)
	require.NoError(t, err, stderr.String())
	content, err := os.ReadFile(filepath.Join(dir, "bench.json"))
	require.NoError(t, err)
	var report Report
	require.NoError(t, json.Unmarshal(content, &report))
	require.Equal(t, environment(), report.Environment)
	require.Len(t, report.Results, 1)
	require.Len(t, returned.Results, 1)
	return report.Results[0], out.String()
}

func modeNames(r *result) (names []string) {
	for _, m := range r.Modes {
		names = append(names, m.Mode)
	}
	return names
}

func TestBenchMeasuresEveryMode(t *testing.T) {
	dir := t.TempDir()
	r, out := measureJSON(t, dir, Options{Subject: subjectOf(Llama), Layers: 1, Rounds: 1})
	modes := []string{modeNone, modeXNNPACK, modeWrite, modeIdeal, modeCold, modeWarm}
	if runtime.GOOS == "linux" {
		modes = append(modes, modeDropped)
	}
	require.Equal(t, modes, modeNames(r))
	require.True(t, r.sameOutputs())
	require.Equal(t, 7, r.Payloads)
	for _, m := range r.Modes {
		require.Len(t, m.Runs, 1, m.Mode)
		total := m.Figures[totalMS]
		require.Positive(t, total.Min, m.Mode)
		require.LessOrEqual(t, total.Min, total.Median)
		require.LessOrEqual(t, total.Median, total.Max)
		_, opened := m.Figures[openMS]
		require.Equal(t, m.Mode != modeNone && m.Mode != modeIdeal && m.Mode != modeWrite, opened, m.Mode)
		for _, run := range m.Runs {
			f := run.Figures
			require.Positive(t, f[steadyMS])
			if runtime.GOOS == "linux" {
				require.GreaterOrEqual(t, f[peakBytes], f[rssAnon]+f[rssFile]-1<<20)
			}
		}
	}
	cold, warm := r.mode(modeCold).Runs[0].Figures, r.mode(modeWarm).Runs[0].Figures
	require.Positive(t, cold[commitMS])
	require.EqualValues(t, 7, cold[packed])
	require.EqualValues(t, 7, warm[hits])
	require.EqualValues(t, r.PayloadBytes, cold[payloadBytes], "the ideal cache has the same payloads")
	require.Len(t, r.Write, 1)

	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, " \n")), 90, line)
	}
	plots := []string{"llama-qc8w-1-load.svg"}
	if runtime.GOOS == "linux" {
		require.Len(t, r.Read, 1)
		plots = []string{"llama-qc8w-1-dropped.svg", plots[0], "llama-qc8w-1-memory.svg"}
	}
	drawn := filepath.Join(dir, "new", "plots")
	draw := exec.Command("go", "-C", "plots", "run", ".", filepath.Join(dir, "bench.json"), drawn)
	message, err := draw.CombinedOutput()
	require.NoError(t, err, string(message))
	files, err := os.ReadDir(drawn)
	require.NoError(t, err)
	require.Len(t, files, len(plots))
	for i, f := range files {
		require.Equal(t, plots[i], f.Name())
	}
	remaining, err := filepath.Glob(filepath.Join(dir, "demo", "*"))
	require.NoError(t, err)
	weights := filepath.Join(dir, "demo", "llama-qc8w-1.tflite")
	require.Equal(t, []string{weights}, remaining, "only what takes long to make is kept")
}

// A convolutional model packs some weights without a look-up. In a pattern its name would be another's.
func TestBenchOfATfliteModel(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "face[1].tflite")
	require.NoError(t, os.Symlink(faceModel(t), model))
	r, _ := measureJSON(t, dir, Options{Subject: subjectOf(model), Rounds: 2})
	require.Len(t, r.mode(modeNone).Runs, 2)
	require.Len(t, r.mode(modeIdeal).Runs, 2)
	require.True(t, r.sameOutputs())
	require.Positive(t, r.mode(modeWarm).Runs[0].Figures[hits])
	require.Len(t, r.Write, 2)
	require.Positive(t, r.mode(modeCold).Runs[1].Figures[packed], "each first start finds no file")
	remaining, err := os.ReadDir(filepath.Join(dir, "demo"))
	require.NoError(t, err)
	require.Empty(t, remaining)
}

func TestAProcessRefusesWhatItCannotMeasure(t *testing.T) {
	for says, task := range map[string]string{
		"end of JSON":  "",
		"model.tflite": `{"Mode": "none", "Model": {"Path": "model.tflite"}}`,
	} {
		var out strings.Builder
		require.ErrorContains(t, Measure([]string{task}, strings.NewReader(""), &out), says)
		require.Empty(t, out.String())
	}
}

func TestDifferentOutputsAreNoticed(t *testing.T) {
	r := result{Modes: []*modeResult{{Runs: []*run{{Output: "a"}}}, {Runs: []*run{{Output: "a"}, {Output: "a"}}}}}
	require.True(t, r.sameOutputs())
	r.Modes[1].Runs[1].Output = "b"
	require.False(t, r.sameOutputs())
}

func TestSpreads(t *testing.T) {
	require.Equal(t, spread{Median: 3, Min: 3, Max: 3}, spreadOf([]float64{3}))
	require.Equal(t, spread{Median: 2.5, Min: 1, Max: 4}, spreadOf([]float64{4, 1, 3, 2}))
	require.Equal(t, spread{Median: 3, Min: 1, Max: 5}, spreadOf([]float64{5, 4, 3, 2, 1}))
}

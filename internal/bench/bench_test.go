package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"xpwc/internal/llama"
)

// TestMain makes this test's binary a measuring process too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		commands := map[string]func() error{
			MeasureCommand: func() error { return Measure(os.Stdin, os.Stdout, os.Stderr) },
			HostCommand:    func() error { return Host(os.Args[2:], os.Stdin, os.Stdout) },
		}
		if command := commands[os.Args[1]]; command != nil {
			if err := command(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
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

// measureJSON is a bench with its figures in JSON.
func measureJSON(t testing.TB, dir string, o Options) (r *result, stdout string) {
	t.Helper()
	o.Dir, o.Figures, o.Threads = filepath.Join(dir, "demo"), filepath.Join(dir, "bench.json"), 1
	var out, stderr strings.Builder
	returned, err := Run(t.Context(), o, &out, &stderr)
	require.NoError(t, err, stderr.String())
	content, err := os.ReadFile(filepath.Join(dir, "bench.json"))
	require.NoError(t, err)
	var all Report
	require.NoError(t, json.Unmarshal(content, &all))
	require.Equal(t, environment(), all.Environment)
	require.Len(t, all.Results, 1)
	require.Len(t, returned.Results, 1)
	return all.Results[0], out.String()
}

func modeNames(r *result) (names []string) {
	for _, m := range r.Modes {
		names = append(names, m.Mode)
	}
	return names
}

func TestBenchMeasuresEveryMode(t *testing.T) {
	dir := t.TempDir()
	r, out := measureJSON(t, dir, Options{Model: Llama, Stacks: []llama.Stack{{Layers: 1}}, Modes: Modes(), Rounds: 1})
	require.Equal(t, Modes(), modeNames(r))
	require.True(t, r.sameOutputs())
	require.Equal(t, 7, r.Payloads)
	require.EqualValues(t, 2048*8192, r.LargestTensor)
	for _, m := range r.Modes {
		runs := 1
		if slices.Contains([]string{modeIdeal, modeWarm, modeReread}, m.Mode) {
			runs = Repeats
		}
		require.Len(t, m.Runs, runs, m.Mode)
		total := m.Figures[totalMS]
		require.Positive(t, total.Min, m.Mode)
		require.LessOrEqual(t, total.Min, total.Median)
		require.LessOrEqual(t, total.Median, total.Max)
		_, opened := m.Figures[openMS]
		require.Equal(t, m.Mode != modeNone && m.Mode != modeIdeal && m.Mode != modeWrite, opened, m.Mode)
		for _, run := range m.Runs {
			require.Equal(t, m.Mode, run.Mode)
			require.Positive(t, run.SteadyMS)
			if runtime.GOOS == "linux" {
				require.Equal(t, !fromDisk(m.Mode), run.AfterLoad != nil, m.Mode)
				require.Positive(t, run.LoadFaults.Minor)
				require.GreaterOrEqual(t, run.PeakRSSBytes, run.AfterInference.RSSAnon+run.AfterInference.RSSFile-1<<20)
			}
		}
	}
	cold, warm := r.mode(modeCold).Runs[0], r.mode(modeWarm).Runs[0]
	require.Positive(t, cold.CommitMS)
	require.EqualValues(t, 7, cold.Packed)
	require.EqualValues(t, 7, warm.Hits)
	require.Equal(t, r.PayloadBytes, cold.PayloadBytes, "the ideal cache has the same payloads")
	require.Len(t, r.Write.Runs, 1)

	names := map[string]bool{}
	for _, b := range r.Goals {
		require.False(t, names[b.Name], "%s is there twice", b.Name)
		names[b.Name] = true
		require.Contains(t, out, b.Name)
	}
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, " \n")), 120, line)
	}
	plots := []string{"llama-qc8w-1-load.svg"}
	if runtime.GOOS == "linux" {
		require.Len(t, r.Goals, 14)
		require.Len(t, r.Read.Runs, 1)
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
	left, err := filepath.Glob(filepath.Join(dir, "demo", "*"))
	require.NoError(t, err)
	weights := filepath.Join(dir, "demo", "llama-qc8w-1.weights")
	require.Equal(t, []string{weights}, left, "only what takes long to make is kept")
}

// A convolutional model packs some weights without a look-up.
func TestBenchOfATfliteModel(t *testing.T) {
	dir := t.TempDir()
	r, _ := measureJSON(t, dir, Options{Model: faceModel(t), Modes: []string{modeNone, modeIdeal, modeWarm}, Rounds: 2})
	require.Equal(t, []string{modeNone, modeIdeal, modeWarm}, modeNames(r))
	require.Len(t, r.mode(modeNone).Runs, 2)
	require.Len(t, r.mode(modeIdeal).Runs, 2*Repeats)
	require.True(t, r.sameOutputs())
	require.Positive(t, r.mode(modeWarm).Runs[0].Hits)
	require.Nil(t, r.Write)
	require.Nil(t, r.Read)
}

func TestAProcessRefusesWhatItCannotMeasure(t *testing.T) {
	for says, task := range map[string]string{
		"standard input":     "",
		"no mode \"fly\"":    `{"Mode": "fly", "Model": {"Path": "model.tflite"}}`,
		"needs a cache file": `{"Mode": "cold", "Model": {"Path": "model.tflite"}}`,
		"model.tflite":       `{"Mode": "none", "Model": {"Path": "model.tflite"}}`,
	} {
		var out strings.Builder
		require.ErrorContains(t, Measure(strings.NewReader(task), &out, &out), says)
		require.Empty(t, out.String())
	}
}

func TestDifferentOutputsAreNoticed(t *testing.T) {
	run := func(sum string) *measured { return &measured{measurement: measurement{OutputSHA256: sum}} }
	r := result{Modes: []*modeResult{{Runs: []*measured{run("a")}}, {Runs: []*measured{run("a"), run("a")}}}}
	require.True(t, r.sameOutputs())
	r.Modes[1].Runs[1] = run("b")
	require.False(t, r.sameOutputs())
}

func TestSpreads(t *testing.T) {
	require.Equal(t, spread{Median: 3, Min: 3, Max: 3, Q1: 3, Q3: 3}, spreadOf([]float64{3}))
	require.Equal(t, spread{Median: 2.5, Min: 1, Max: 4, Q1: 1.75, Q3: 3.25}, spreadOf([]float64{4, 1, 3, 2}))
	require.Equal(t, spread{Median: 3, Min: 1, Max: 5, Q1: 2, Q3: 4}, spreadOf([]float64{5, 4, 3, 2, 1}))
}

// judged returns the goals of a run of all modes with these figures, by their names.
func judged(warm, cold func(*measured)) map[string]goal {
	run := func(mode string, total float64) *measured {
		m := &measured{SteadyMS: 30, MemoryKnown: true, AfterLoad: &memory{}}
		m.measurement = measurement{Mode: mode, CreateRuntimeMS: total, TotalLoadMS: total, FirstInferenceMS: 30,
			PayloadBytes: 930 << 20, FileBytes: 930 << 20}
		return m
	}
	runs := []*measured{
		run(modeNone, 1182), run(modeIdeal, 0.8), run(modeCold, 1000), run(modeWarm, 0.9), run(modeDropped, 500),
	}
	cold(runs[2])
	warm(runs[3])
	r := result{Layers: Layers, Threads: 1, Write: &baseline{}, Read: &baseline{},
		recording: recording{PayloadBytes: 930 << 20, LargestTensor: 16 << 20}}
	r.Write.add(1000)
	r.Read.add(482)
	for _, m := range runs {
		r.Modes = append(r.Modes, &modeResult{Mode: m.Mode, Runs: []*measured{m}})
	}
	r.judge()
	goals := map[string]goal{}
	for _, b := range r.Goals {
		goals[b.Name] = b
	}
	return goals
}

func TestGoalsAreJudged(t *testing.T) {
	same := func(*measured) {}
	good := judged(same, same)
	require.Len(t, good, 12)
	for name, b := range good {
		require.True(t, b.Reached, name)
	}
	bad := judged(func(m *measured) {
		m.TotalLoadMS, m.SteadyMS, m.FirstInferenceMS = 1.005, 30.2, 33.6
		m.AfterLoad.RSSAnon, m.AfterInference.PrivateDirty = 5<<20, 5<<20
	}, func(m *measured) {
		m.FinalizeMS, m.CommitMS, m.PeakRSSBytes, m.CopiedBytes = 194, 1206, 963<<20, 1
		m.FileBytes += 1 << 20
	})
	require.Len(t, bad, len(good))
	for name, b := range bad {
		require.Equal(t, strings.HasPrefix(name, "dropped"), b.Reached, name)
	}
	require.InDelta(t, 1.26, *bad["warm: total load, against ideal"].Ratio, 1e-9)
	rounded := judged(same, func(m *measured) { m.CreateRuntimeMS = 1125 })["cold: create and finalize, against none"]
	require.InDelta(t, 0.95, *rounded.Ratio, 1e-9, "ratios are judged as they are printed")
}

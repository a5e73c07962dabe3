package bench

import (
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// demo runs a demo and returns what it printed.
func demo(t testing.TB, o DemoOptions) (string, error) {
	t.Helper()
	var out, stderr strings.Builder
	_, err := Demo(t.Context(), o, &out, &stderr)
	return out.String(), err
}

// requireModes checks what demo --figures wrote against the promises of a warm start.
func requireModes(t testing.TB, path string) []measurement {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var raw []map[string]any
	require.NoError(t, json.Unmarshal(content, &raw))
	require.Len(t, raw, 3)
	for _, object := range raw {
		var names []string
		for name := range object {
			names = append(names, name)
		}
		require.ElementsMatch(t, []string{"mode", "create_runtime_ms", "total_load_ms", "first_inference_ms",
			"rss_anon_bytes", "rss_file_bytes", "private_dirty_bytes", "hits", "packed", "private", "bytes_written",
			"file_bytes", "payload_bytes", "output_sha256"}, names)
	}
	var modes []measurement
	require.NoError(t, json.Unmarshal(content, &modes))
	uncached, cold, warm := modes[0], modes[1], modes[2]
	require.Equal(t, []string{modeNone, modeCold, modeWarm}, []string{uncached.Mode, cold.Mode, warm.Mode})
	for _, m := range modes {
		require.Positive(t, m.CreateRuntimeMS)
		require.GreaterOrEqual(t, m.TotalLoadMS, m.CreateRuntimeMS)
		require.Positive(t, m.FirstInferenceMS)
		require.Equal(t, uncached.OutputSHA256, m.OutputSHA256)
		require.Len(t, m.OutputSHA256, 2*sha256.Size)
		if runtime.GOOS == "linux" {
			require.Positive(t, m.RSSAnonBytes)
			require.Positive(t, m.RSSFileBytes)
			require.Positive(t, m.PrivateDirtyBytes)
		}
	}
	require.Zero(t, uncached.Hits+uncached.Packed+uncached.Private)
	require.Zero(t, uncached.BytesWritten+uncached.FileBytes+uncached.PayloadBytes)
	require.Zero(t, cold.Hits)
	require.Positive(t, cold.Packed)
	require.Greater(t, cold.BytesWritten, cold.PayloadBytes)
	require.Equal(t, cold.Packed, warm.Hits)
	require.Zero(t, warm.Packed)
	require.Zero(t, warm.Private)
	require.Zero(t, warm.BytesWritten)
	require.Equal(t, cold.FileBytes, warm.FileBytes)
	require.Equal(t, cold.PayloadBytes, warm.PayloadBytes)
	return modes
}

func TestDemoComparesTheModes(t *testing.T) {
	dir := t.TempDir()
	o := DemoOptions{Model: faceModel(t), Threads: 1}
	o.Dir, o.Figures = filepath.Join(dir, "work"), filepath.Join(dir, "modes.json")
	out, err := demo(t, o)
	require.NoError(t, err)
	modes := requireModes(t, filepath.Join(dir, "modes.json"))
	require.Contains(t, out, "identical bit for bit.\nSHA-256 "+modes[0].OutputSHA256)
	require.FileExists(t, filepath.Join(dir, "work", "face_detection_short_range.demo.xpwc"))

	_, err = demo(t, o)
	require.NoError(t, err)
	requireModes(t, filepath.Join(dir, "modes.json")) // the cold run is cold although there was a cache

	notes := filepath.Join(dir, "work", "face_detection_short_range.demo.xpwc")
	require.NoError(t, os.WriteFile(notes, []byte("my notes"), 0o600))
	_, err = demo(t, o)
	require.ErrorContains(t, err, "not a packed weights cache")
	content, err := os.ReadFile(notes)
	require.NoError(t, err)
	require.Equal(t, "my notes", string(content))

	o.Dir, o.Figures = filepath.Join(dir, "demo"), filepath.Join(dir, "none", "modes.json")
	out, err = demo(t, o)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Contains(t, out, "identical bit for bit", "what was measured is printed first")
}

// The promise of a warm start on a real model of some size: nothing is packed, nothing is written, and the packed
// weights are the file's pages and not private memory.
func TestTheDemoOfTheREADME(t *testing.T) {
	dir := t.TempDir()
	o := DemoOptions{Model: filepath.Join("..", "..", DemoModel), Threads: 1, Dir: dir}
	o.Figures = filepath.Join(dir, "modes.json")
	_, err := demo(t, o)
	require.NoError(t, err)
	modes := requireModes(t, filepath.Join(dir, "modes.json"))
	warm := modes[2]
	require.Less(t, float64(warm.FileBytes), 1.01*float64(warm.PayloadBytes))
	if runtime.GOOS == "linux" {
		private := warm.RSSAnonBytes - (modes[0].RSSAnonBytes - warm.PayloadBytes)
		// What a process has beside the weights differs between the modes by some MiB, with the race detector.
		require.Less(t, float64(private), 0.2*float64(warm.PayloadBytes))
	}
}

func TestDemoOfTheGeneratedStack(t *testing.T) {
	dir := t.TempDir()
	o := DemoOptions{Model: Llama, Layers: 1, Threads: 1}
	o.Dir, o.Figures = filepath.Join(dir, "demo"), filepath.Join(dir, "modes.json")
	_, err := demo(t, o)
	require.NoError(t, err)
	modes := requireModes(t, filepath.Join(dir, "modes.json"))
	cold, warm := modes[1], modes[2]
	require.EqualValues(t, 7, cold.Packed)
	require.Less(t, float64(cold.FileBytes), 1.01*float64(cold.PayloadBytes))
	if runtime.GOOS == "linux" {
		require.Greater(t, modes[0].RSSAnonBytes, cold.PayloadBytes, "without a cache packed weights are private")
		require.Greater(t, warm.RSSFileBytes, cold.PayloadBytes, "warm they are the file's")
		private := warm.RSSAnonBytes - (modes[0].RSSAnonBytes - cold.PayloadBytes)
		require.Less(t, float64(private), 0.05*float64(cold.PayloadBytes), "and not private")
	}
	weights, err := os.Stat(filepath.Join(dir, "demo", "llama-qc8w-1.weights"))
	require.NoError(t, err)

	o.Shared, o.Figures = true, filepath.Join(dir, "shared.json")
	_, err = demo(t, o)
	require.NoError(t, err)
	again, err := os.Stat(filepath.Join(dir, "demo", "llama-qc8w-1.weights"))
	require.NoError(t, err)
	require.Equal(t, weights.ModTime(), again.ModTime(), "the weights are generated once")
	if runtime.GOOS != "linux" {
		return
	}
	var shared []twice
	content, err := os.ReadFile(filepath.Join(dir, "shared.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &shared))
	require.Len(t, shared, 2)
	without, with := shared[0], shared[1]
	require.False(t, without.Cache)
	require.True(t, with.Cache)
	require.Equal(t, without.Sum, with.Sum)
	added := without.AfterSecond - without.AfterFirst
	require.Greater(t, added, cold.PayloadBytes, "without a cache there are two copies")
	require.Less(t, with.AfterSecond-with.AfterFirst, cold.PayloadBytes/10, "with one there is one")
}

func TestDifferentOutputsFail(t *testing.T) {
	of := func(mode, sum string) *measured {
		return &measured{measurement: measurement{Mode: mode, OutputSHA256: sum}}
	}
	for _, sums := range [][3]string{{"b", "a", "a"}, {"a", "b", "a"}, {"a", "a", "b"}} {
		var out strings.Builder
		err := summarize(&out, of(modeNone, sums[0]), of(modeCold, sums[1]), of(modeWarm, sums[2]))
		require.ErrorIs(t, err, errDiffer)
		require.Contains(t, out.String(), "cold: "+sums[1])
		require.NotContains(t, out.String(), "identical")
	}
	require.NoError(t, summarize(&strings.Builder{}, of(modeNone, "a"), of(modeCold, "a"), of(modeWarm, "a")))
}

//go:build linux

package bench

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/npy"
)

func TestPeersAreMeasured(t *testing.T) {
	dir := t.TempDir()
	hand := filepath.Join(filepath.Dir(faceModel(t)), "hand_landmark_lite.tflite")
	o := PeersOptions{Models: []string{hand}, Rounds: 2, Processes: 2, Dir: filepath.Join(dir, "work"),
		JSON: filepath.Join(dir, "peers.json")}
	require.NoError(t, writeJSON(o.JSON, Report{Results: []*result{{Name: "of another model"}}}))
	var out, stderr strings.Builder
	require.NoError(t, RunPeers(t.Context(), o, &out, &stderr), stderr.String())
	require.Contains(t, out.String(), "xpwc, next start")
	content, err := os.ReadFile(o.JSON)
	require.NoError(t, err)
	var all Report
	require.NoError(t, json.Unmarshal(content, &all))
	require.Len(t, all.Results, 2, "what was measured before is kept")
	r := all.Results[1]
	require.Equal(t, 2, r.Rounds)
	require.Equal(t, 2, r.Processes)
	require.Equal(t, []string{"xpwc, without cache", "xpwc, first start", "xpwc, next start"}, modeNames(r))
	for _, m := range r.Modes {
		require.Len(t, m.Runs, 2)
		require.Zero(t, m.Difference)
		for _, f := range []figure{totalMS, firstMS, answerMS, steadyMS, rssAnon} {
			require.Positive(t, m.Figures[f].Min, "%s: %s", m.Mode, f)
		}
		_, written := m.Figures[fileBytes]
		require.Equal(t, m.Mode == "xpwc, first start", written)
		require.Equal(t, m.Mode != "xpwc, first start", m.Many != nil)
		if m.Many != nil {
			require.Positive(t, m.Many.LoadMS)
			require.Greater(t, m.Many.PSSBytes, m.Figures[rssAnon].Min)
			require.Equal(t, m.Mode == "xpwc, next start", m.Many.TogetherMS > 0)
			require.GreaterOrEqual(t, m.Many.SlowestMS, m.Many.TogetherMS)
		}
	}
	left, err := os.ReadDir(o.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestASmallModelIsMeasuredAsProgramsLoadIt(t *testing.T) {
	dir := t.TempDir()
	o := PeersOptions{Models: []string{faceModel(t)}, Rounds: 1, Dir: filepath.Join(dir, "work")}
	var out, stderr strings.Builder
	require.NoError(t, RunPeers(t.Context(), o, &out, &stderr), stderr.String())
	require.Contains(t, out.String(), "xpwc, no file: under 1 MiB")
	require.NotContains(t, out.String(), "first start")
	require.NotContains(t, out.String(), "next start")
}

func TestOnlyModelsThatAPeerRunsAreCompared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	require.NoError(t, os.WriteFile(path, []byte("model"), 0o600))
	err := RunPeers(t.Context(), PeersOptions{Models: []string{path}, Dir: t.TempDir()}, os.Stdout, os.Stderr)
	require.ErrorContains(t, err, ".tflite")
}

func TestAHostThatFailsIsReportedWithWhatItSaid(t *testing.T) {
	_, err := answeringHost(t.Context(), []string{"sh", "-c", "echo no such model >&2; exit 3"})
	require.ErrorContains(t, err, "no such model")
}

func TestProcessesLoadTogetherOrItIsAnError(t *testing.T) {
	const waits = `echo; while read -r line; do :; done; `
	loads, err := loadTogether(t.Context(), []string{"sh", "-c", waits + `echo '{"load_ms": 2}'`}, 3)
	require.NoError(t, err)
	require.Equal(t, []float64{2, 2, 2}, loads)
	_, err = loadTogether(t.Context(), []string{"sh", "-c", waits + "echo no such model >&2; exit 3"}, 3)
	require.ErrorContains(t, err, "no such model")
	_, err = loadTogether(t.Context(), []string{"sh", "-c", "echo no such model >&2; exit 3"}, 3)
	require.ErrorContains(t, err, "does not wait")
}

func TestAnswersAreComparedByTheirGreatestDifference(t *testing.T) {
	d, err := difference([]float32{1, -4, 2}, []float32{1, -3, 2.5})
	require.NoError(t, err)
	require.Equal(t, 0.25, d)
	d, err = difference([]float32{0}, []float32{0})
	require.NoError(t, err)
	require.Zero(t, d)
	_, err = difference([]float32{1}, nil)
	require.Error(t, err)
}

func TestInputsAreArraysOfNumPy(t *testing.T) {
	f := peerFiles{filepath.Join(t.TempDir(), "x")}
	program, err := filepath.Abs(filepath.Join("..", "..", "executorch", "testdata", "programs", "mlp_fp32.pte"))
	require.NoError(t, err)
	paths, err := f.writeInputs(program)
	require.NoError(t, err)
	require.Len(t, paths, 1)
	content, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	a, err := npy.Read(content)
	require.NoError(t, err)
	require.Equal(t, npy.Float32, a.Dtype)
	require.Len(t, a.Shape, 2)
	require.Len(t, a.Data, 4*a.Shape[0]*a.Shape[1])
}

func TestTheHostOfTheReaderCompiles(t *testing.T) {
	flags, err := exec.CommandContext(t.Context(), "go", "env", "CGO_CFLAGS").Output()
	require.NoError(t, err)
	root := filepath.Join("..", "..")
	args := append(strings.Fields(string(flags)), "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"+root,
		"-I"+filepath.Join(root, "capi", "include"), "-I"+filepath.Join(root, "capi", "reader"),
		filepath.Join("reader", "reader.c"))
	out, err := exec.CommandContext(t.Context(), "gcc", args...).CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestTheHostOfLiteRTCompiles(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "gcc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
		filepath.Join("litert", "litert.c")).CombinedOutput()
	require.NoError(t, err, string(out))
}

//go:build linux

package bench

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/generated"
	"xpwc/internal/modelfile"
	"xpwc/internal/tests/modeltest"
)

func TestPeersAreMeasured(t *testing.T) {
	dir := t.TempDir()
	hand := filepath.Join(filepath.Dir(faceModel(t)), "hand_landmark_lite.tflite")
	o := PeersOptions{Models: []string{hand}, Rounds: 2, Processes: 2, Dir: filepath.Join(dir, "work"),
		JSON: filepath.Join(dir, "peers.json")}
	var out, stderr strings.Builder
	require.NoError(t, RunPeers(t.Context(), o, &out, &stderr), stderr.String())
	require.Contains(t, out.String(), "xpwc, next start")
	content, err := os.ReadFile(o.JSON)
	require.NoError(t, err)
	var report Report
	require.NoError(t, json.Unmarshal(content, &report))
	require.Len(t, report.Results, 1)
	r := report.Results[0]
	require.Equal(t, 2, r.Rounds)
	require.Equal(t, 2, r.Processes)
	require.True(t, r.sameOutputs())
	require.Equal(t, []string{"xpwc, without cache", "xpwc, first start", "xpwc, next start"}, modeNames(r))
	for _, m := range r.Modes {
		require.Len(t, m.Runs, 2)
		for _, f := range []figure{totalMS, firstMS, answerMS, steadyMS, rssAnon} {
			require.Positive(t, m.Figures[f].Min, "%s: %s", m.Mode, f)
		}
		require.Equal(t, m.Mode != "xpwc, without cache", m.Figures[fileBytes].Min > 0)
		require.Equal(t, m.Mode != "xpwc, first start", m.Figures[manyMS].Min > 0)
		if m.Mode != "xpwc, first start" {
			require.Greater(t, m.Figures[manyPSS].Min, m.Figures[rssAnon].Min)
		}
		require.Equal(t, m.Mode == "xpwc, next start", m.Figures[togetherMS].Min > 0)
		require.GreaterOrEqual(t, m.Figures[slowestMS].Max, m.Figures[togetherMS].Max)
	}
	remaining, err := os.ReadDir(o.Dir)
	require.NoError(t, err)
	require.Empty(t, remaining)
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
	_, err := runProcess(t.Context(), []string{"sh", "-c", "echo no such model >&2; exit 3"})
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

func TestOutputsAreThoseOfOneFileOrOfMany(t *testing.T) {
	d := outputDir(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, d.clear())
	_, err := d.sum()
	require.ErrorIs(t, err, os.ErrNotExist)
	for i, content := range []string{"1234", "56789012"} {
		header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d,)}", len(content)/4)
		array := fmt.Sprintf("\x93NUMPY\x01\x00%c\x00%s%s", len(header), header, content)
		path := filepath.Join(string(d), fmt.Sprintf("forward.out%d.npy", i))
		require.NoError(t, os.WriteFile(path, []byte(array), 0o600))
	}
	arrays, err := d.sum()
	require.NoError(t, err)
	require.NoError(t, d.clear())
	require.NoError(t, os.WriteFile(d.answer(), []byte("123456789012"), 0o600))
	answer, err := d.sum()
	require.NoError(t, err)
	require.Equal(t, answer, arrays)
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

// A wrong offset or shape of a matrix gives another answer.
func TestONNXRuntimeComputesTheChainWithAndWithoutPackedWeights(t *testing.T) {
	library, err := filepath.Abs(filepath.Join("..", "..", "third_party", "onnxruntime", "lib", "libonnxruntime.so"))
	require.NoError(t, err)
	if _, err := os.Stat(library); err != nil {
		t.Skip("third_party/fetch-onnxruntime gets ONNX Runtime")
	}
	dir := t.TempDir()
	chain, model := generated.Chain(2, false), filepath.Join(dir, "chain.tflite")
	require.NoError(t, chain.Generate(t.Context(), model, nil))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chain.onnx"), chain.ONNX("chain.tflite"), 0o600))
	host := filepath.Join(dir, "onnxruntime")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", host, "./onnxruntime").CombinedOutput()
	require.NoError(t, err, string(out))

	answer := func(cache string) []float32 {
		path := filepath.Join(dir, "answer")
		r, err := runProcess(t.Context(), []string{host, library, filepath.Join(dir, "chain.onnx"), cache, path})
		require.NoError(t, err)
		for _, f := range []figure{totalMS, firstMS, steadyMS, loadCPU, answerCPU} {
			require.Positive(t, r.Figures[f], "%s", f)
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		values := make([]float32, generated.Width)
		_, err = binary.Decode(content, binary.LittleEndian, values)
		require.NoError(t, err)
		return values
	}
	plain, cache := answer(""), filepath.Join(dir, "packed")
	require.Equal(t, plain, answer(cache), "the first start writes the packed weights")
	require.FileExists(t, cache+".data")
	require.NoError(t, os.Remove(filepath.Join(dir, "chain.onnx")))
	require.Equal(t, plain, answer(cache), "the next one has nothing else")

	m, err := modelfile.File{Path: model}.Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	require.InDeltaSlice(t, modeltest.Run(t, m, generated.Input())[0], plain, 1e-3)
}

//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/format"
	"xpwc/internal/tests/testkit"
)

// explainJSON is a successful xpwc explain --json. It requires that the cache file stays as it is, if it is there.
func explainJSON(t *testing.T, dir, cache string, args ...string) explanation {
	t.Helper()
	path := filepath.Join(dir, cache)
	original, content := stateOfFile(t, path)
	e := reported[explanation](t, dir, 0, append([]string{"explain", "--json", "--cache", cache}, args...)...)
	final, contentAfter := stateOfFile(t, path)
	require.Equal(t, content, contentAfter)
	if original == nil {
		require.Nil(t, final, "it is not created")
		names, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, n := range names {
			require.NotContains(t, n.Name(), cache)
		}
		return e
	}
	require.Equal(t, original.ModTime(), final.ModTime())
	require.Equal(t, original.Mode(), final.Mode())
	require.True(t, os.SameFile(original, final))
	require.Equal(t, ownerOf(original), ownerOf(final))
	return e
}

func ownerOf(info os.FileInfo) [2]uint32 {
	stat := info.Sys().(*syscall.Stat_t)
	return [2]uint32{stat.Uid, stat.Gid}
}

func stateOfFile(t *testing.T, path string) (os.FileInfo, string) {
	t.Helper()
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return nil, ""
	}
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return info, string(content)
}

// outcomes counts weights by what a start would do with them.
func outcomes(e explanation) map[xpwc.Reason]int {
	counts := map[xpwc.Reason]int{}
	for _, w := range e.Weights {
		counts[w.Reason]++
	}
	return counts
}

func TestExplainAnswersWhyAStartPacks(t *testing.T) {
	dir := t.TempDir()
	model := testkit.Settled(t, faceModel(t))

	e := explainJSON(t, dir, "cache.xpwc", model)
	n := len(e.Weights)
	require.Greater(t, n, 10, "XNNPACK of 2024 looks up fewer kernels")
	require.Equal(t, map[xpwc.Reason]int{xpwc.ReasonNoFile: n}, outcomes(e))
	require.Contains(t, e.Summary, fmt.Sprintf("0 of %d weights are found. %d", n, n))

	run, _ := runJSON(t, dir, model, "--cache", "cache.xpwc")
	require.Len(t, run.Cache.Slow, 1)
	require.Equal(t, xpwc.ReasonNoFile, run.Cache.Slow[0].Reason)
	e = explainJSON(t, dir, "cache.xpwc", model)
	require.Equal(t, map[xpwc.Reason]int{"": n}, outcomes(e))
	require.EqualValues(t, n, e.Hits)
	require.Equal(t, run.Cache.PayloadBytes, e.HitBytes)
	require.Contains(t, e.Summary, fmt.Sprintf("%d of %d weights are found", n, n))

	e = explainJSON(t, dir, "cache.xpwc", testModel(t, "selfie_segmentation.tflite"))
	require.Zero(t, e.Hits)
	others := outcomes(e)
	require.Equal(t, len(e.Weights), others[xpwc.ReasonName]+others[xpwc.ReasonContent], "both have a conv2d/Kernel")

	packedElsewhere(t, filepath.Join(dir, "cache.xpwc"))
	e = explainJSON(t, dir, "cache.xpwc", model)
	require.Equal(t, map[xpwc.Reason]int{xpwc.ReasonLayout: n}, outcomes(e))
	require.Contains(t, e.Summary, "it is for riscv64 rvv, and this is ")
	require.Contains(t, e.Weights[0].Detail, "riscv64 rvv")

	out := printed(t, dir, 0, "explain", "--cache", "cache.xpwc", model)
	require.Equal(t, n, strings.Count(out, " layout\n"))
	require.Contains(t, out, fmt.Sprintf("0 of %d weights are found.", n))

	require.NoError(t, os.Truncate(filepath.Join(dir, "cache.xpwc"), 5000))
	e = explainJSON(t, dir, "cache.xpwc", model)
	require.Equal(t, map[xpwc.Reason]int{xpwc.ReasonDamaged: n}, outcomes(e))
}

// packedElsewhere makes the layout of a file another machine's.
func packedElsewhere(t *testing.T, path string) {
	t.Helper()
	forgeLayouts(t, path, func(l *format.Layout) {
		l.Fingerprint[0] ^= 1
		l.Description, l.Evidence = "riscv64 rvv", ""
	}, func(records []format.Record, file []byte) ([]format.Record, []byte) {
		for i := range records {
			records[i].Layout[0] ^= 1
		}
		return records, file
	})
}

// A start would read a model that was copied, and find its weights.
func TestExplainNamesTheTensorsThatAStartReads(t *testing.T) {
	dir := t.TempDir()
	content, err := os.ReadFile(faceModel(t))
	require.NoError(t, err)
	for _, name := range []string{"a.tflite", "b.tflite"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		testkit.Settled(t, filepath.Join(dir, name))
	}
	runJSON(t, dir, "a.tflite", "--cache", "cache.xpwc")
	e := explainJSON(t, dir, "cache.xpwc", "a.tflite")
	if len(e.Tensors) > 0 {
		t.Skip("files have no stamps here: ", e.Summary)
	}
	e = explainJSON(t, dir, "cache.xpwc", "b.tflite")
	require.EqualValues(t, len(e.Weights), e.Hits)
	require.NotEmpty(t, e.Tensors)
	for _, read := range e.Tensors {
		require.Equal(t, xpwc.ReasonStamp, read.Reason)
	}
	require.Contains(t, e.Summary, "are read in full: ")
}

func TestExplainTakesWhatRunTakes(t *testing.T) {
	dir := t.TempDir()
	for name, model := range map[string][]string{
		"program":   {program(t, perceptron)},
		"described": {describedModel(t, dir)},
	} {
		cache := name + ".xpwc"
		e := explainJSON(t, dir, cache, model...)
		require.NotEmpty(t, e.Weights, name)
		require.Zero(t, e.Hits, name)
		runJSON(t, dir, append(model, "--cache", cache)...)
		second := explainJSON(t, dir, cache, model...)
		require.Len(t, second.Weights, len(e.Weights), name)
		require.Positive(t, second.Hits, name)
	}
	printed(t, dir, 0, "pack", describedModel(t, dir), "--embed-beside", "-o", "packed.safetensors")
	e := reported[explanation](t, dir, 0, "explain", "--json", "packed.safetensors")
	require.Equal(t, "packed.safetensors", e.File)
	require.Positive(t, e.Hits)

	require.Contains(t, printed(t, dir, exitUsage, "explain", faceModel(t)), "--cache is missing")
	require.NotEmpty(t, failed(t, dir, exitFailed, "explain", "--json", "--cache", "c", "absent.tflite").Message)
}

// A file that nobody may write to keeps a start in private memory.
func TestExplainKnowsAFileThatIsReadOnly(t *testing.T) {
	dir := t.TempDir()
	cache := filepath.Join(dir, "cache.xpwc")
	runJSON(t, dir, faceModel(t), "--cache", cache)
	packedElsewhere(t, cache)
	reasons := func() (got []xpwc.Reason) {
		for _, r := range explainJSON(t, dir, "cache.xpwc", faceModel(t)).Reasons {
			got = append(got, r.Reason)
		}
		return got
	}
	require.Equal(t, []xpwc.Reason{xpwc.ReasonLayout}, reasons())
	require.NoError(t, os.Chmod(cache, 0o444))
	require.Equal(t, []xpwc.Reason{xpwc.ReasonLayout, xpwc.ReasonReadOnly}, reasons())
}

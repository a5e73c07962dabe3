package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/models/litert"
)

// needsExecuTorchs skips a test where the tool does not pack for the stock ExecuTorch.
func needsExecuTorchs(t testing.TB) {
	t.Helper()
	if !packsAsExecuTorch() {
		t.Skip("this is not ExecuTorch's XNNPACK")
	}
}

func TestASkeletonTakesThePlaceOfAProgramForTheStockRuntimeAlone(t *testing.T) {
	needsExecuTorchs(t)
	dir := t.TempDir()
	model := program(t, perceptron)
	printed(t, dir, 0, "pack", model, "--for", "executorch", "-o", "packed")
	strip := []string{"strip", model, "--packed", "packed", "-o", "skeleton.pte"}
	require.Contains(t, printed(t, dir, 0, strip...), "keep "+model)
	r := reported[stripped](t, dir, 0, strip...) // replaces it
	require.Equal(t, native, r.CPU)
	require.Positive(t, r.Kernels)
	require.Greater(t, r.HoleBytes, r.FileBytes/2)
	require.Empty(t, r.Kept)
	whole, skeleton := contentOf(t, model), contentOf(t, filepath.Join(dir, "skeleton.pte"))
	require.EqualValues(t, r.FileBytes, len(skeleton))
	require.Greater(t, len(skeleton), len(whole))

	for _, args := range [][]string{
		{"run", "skeleton.pte"}, {"run", "skeleton.pte", "--cache", "c.xpwc"}, {"inspect", "skeleton.pte"},
		{"pack", "skeleton.pte", "-o", "c.xpwc"}, {"pack", "skeleton.pte", "--for", "executorch", "-o", "c"},
		{"strip", "skeleton.pte", "--packed", "packed", "-o", "again.pte"},
	} {
		if args[0] != "run" {
			got := failed(t, dir, exitFailed, args...)
			require.Equal(t, kindUnsupported, got.Kind, args)
		}
		require.Contains(t, printed(t, dir, exitFailed, args...), "use the program that it was made of")
	}
	require.NoFileExists(t, filepath.Join(dir, "c.xpwc"))
}

func TestStripTellsWhichKernelsTheStockRuntimePacksAtEachLoad(t *testing.T) {
	needsExecuTorchs(t)
	dir, model := t.TempDir(), program(t, filepath.Join("..", "reported", "mixd1.pte"))
	printed(t, dir, 0, "pack", model, "--for", "executorch", "-o", "packed")
	strip := []string{"strip", model, "--packed", "packed", "-o", "skeleton.pte"}
	require.Contains(t, printed(t, dir, 0, strip...), "packs the kernels of 1 constant at each load")
	require.Equal(t, 1, reported[stripped](t, dir, 0, strip...).Renamed)
}

func TestOnlyAFileThatWasPackedForTheProgramStripsIt(t *testing.T) {
	needsExecuTorchs(t)
	dir := t.TempDir()
	model := program(t, perceptron)
	printed(t, dir, 0, "pack", model, "-o", "own.xpwc")
	printed(t, dir, 0, "pack", model, "--for", "executorch", "-o", "packed")
	printed(t, dir, 0, "pack", program(t, mobilenet), "--for", "executorch", "-o", "other")
	printed(t, dir, 0, "convert", "own.xpwc", "--to", string(cachefile.XPWC2), "-o", "no_program")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("mine"), 0o600))
	copied := filepath.Join(dir, "copied.pte")
	require.NoError(t, os.WriteFile(copied, contentOf(t, model), 0o600))
	for _, c := range []struct {
		message string
		code    int
		args    []string
	}{
		{"was packed for", exitFailed, []string{model, "--packed", "other", "-o", "s"}},
		{"does not say which program", exitFailed, []string{model, "--packed", "no_program", "-o", "s"}},
		{"does not say which program", exitFailed, []string{model, "--packed", "own.xpwc", "-o", "s"}},
		{"absent", exitFailed, []string{model, "--packed", "absent", "-o", "s"}},
		{"is no skeleton, and is left as it is", exitFailed, []string{model, "--packed", "packed", "-o", "notes"}},
		{"same file as the input", exitUsage, []string{copied, "--packed", "packed", "-o", copied}},
		{"same file as the input", exitUsage, []string{model, "--packed", "packed", "-o", "packed"}},
		{"is missing", exitUsage, []string{model, "--packed", "packed"}},
		{"is missing", exitUsage, []string{model, "-o", "s"}},
	} {
		require.Contains(t, printed(t, dir, c.code, append([]string{"strip"}, c.args...)...), c.message, c.args)
		require.NoFileExists(t, filepath.Join(dir, "s"))
	}
	require.Equal(t, "mine", string(contentOf(t, filepath.Join(dir, "notes"))))
	require.Equal(t, contentOf(t, model), contentOf(t, copied))
	requireNoStage(t, dir)

	// In integers there is nothing that could not be believed.
	printed(t, dir, 0, "pack", program(t, mobilenet), "--for", "executorch", "-o", "int8")
	said := printed(t, dir, exitFailed, "strip", program(t, mobilenet), "--packed", "int8", "-o", "s")
	require.Contains(t, said, "numbers that one might believe")
	require.NoFileExists(t, filepath.Join(dir, "s"))
}

// stripForLiteRT is the command line that strips a model for LiteRT, of the kernels that a test's model has.
func stripForLiteRT(model, packed string, args ...string) []string {
	return append([]string{"strip", model, "--packed", packed, "--litert-lm", libraryForLiteRT, "--least", "1"},
		args...)
}

func TestASkeletonForLiteRTIsLoadedByLiteRTAlone(t *testing.T) {
	dir := t.TempDir()
	model := zooModel(t, "mlp_fp32")
	litertPack(t, dir, model, "-o", "packed")
	strip := stripForLiteRT(model, "packed", "-o", "skeleton.tflite")
	require.Contains(t, printed(t, dir, 0, strip...), "keep "+model)
	r := reported[stripped](t, dir, 0, strip...) // replaces it
	require.Equal(t, 3, r.Kernels)
	require.Empty(t, r.Kept)
	require.Equal(t, litert.Releases()[0].Version, r.LiteRT)
	require.Greater(t, r.HoleBytes, r.FileBytes*4/5)
	require.EqualValues(t, r.FileBytes, len(contentOf(t, filepath.Join(dir, "skeleton.tflite"))))

	for _, args := range [][]string{
		{"run", "skeleton.tflite"}, {"pack", "skeleton.tflite", "-o", "c.xpwc"},
		packsForLiteRT("skeleton.tflite", "-o", "c"), stripForLiteRT("skeleton.tflite", "packed", "-o", "again.tflite"),
		{"verify", "packed", "--model", "skeleton.tflite", "--litert-lm", libraryForLiteRT},
	} {
		require.Contains(t, printed(t, dir, exitFailed, args...), "use the model that it was made of", args)
	}
	requireNoStage(t, dir)
}

func TestOnlyAFileThatWasPackedForTheModelStripsItForLiteRT(t *testing.T) {
	dir := t.TempDir()
	model := zooModel(t, "mlp_fp32")
	litertPack(t, dir, model, "-o", "packed")
	litertPack(t, dir, retrained(t, model), "-o", "old")
	litertPack(t, dir, zooModel(t, "mlp_int8"), "-o", "other")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("mine"), 0o600))
	for packed, saying := range map[string]string{
		"old":    "it does not have what the model is packed into",
		"other":  "it does not have what the model is packed into",
		"absent": "absent",
		"notes":  "not a cache file of LiteRT",
	} {
		require.Contains(t, printed(t, dir, exitFailed, stripForLiteRT(model, packed, "-o", "s")...), saying)
	}
	require.Contains(t, printed(t, dir, exitUsage, stripForLiteRT(model, "packed", "-o", "s", "--cpu", "i386")...),
		"i386")
	require.Contains(t, printed(t, dir, exitUsage, stripForLiteRT(model, "packed", "-o", "packed")...), "same file")
	require.Contains(t, printed(t, dir, exitFailed, stripForLiteRT(model, "packed", "-o", "notes")...),
		"is no skeleton")
	require.NoFileExists(t, filepath.Join(dir, "s"))
	require.Equal(t, "mine", string(contentOf(t, filepath.Join(dir, "notes"))))
	requireNoStage(t, dir)
}

func TestStripOfAModelThatKeepsAllWeightsHasTheReasons(t *testing.T) {
	dir := t.TempDir()
	model := zooModel(t, "mlp_fp32")
	litertPack(t, dir, model, "-o", "packed")
	out := printed(t, dir, 1, stripForLiteRT(model, "packed", "-o", "skeleton", "--least", "1000000000")...)
	require.Regexp(t, "all of its weights would stay; [0-9]+ kernels?, .*: so small that a hole saves nothing", out)
	require.NoFileExists(t, filepath.Join(dir, "skeleton"))
}

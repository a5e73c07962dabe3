package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/npy"
)

// program returns the path of a program that ExecuTorch exported, or of its inputs and outputs.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "models", "executorch", "testdata", "programs", name))
	require.NoError(t, err)
	require.FileExists(t, path)
	return path
}

const (
	perceptron = "mlp_fp32.pte"
	floats16   = "mlp_fp16.pte" // whose inputs are float16
	mobilenet  = "mobilenet_v3_small_int8.pte"
)

func TestAProgramThatWasPackedAheadOfTimePacksNothing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{perceptron, "mlp_dyn_fp32.pte", floats16, mobilenet} {
		t.Run(name, func(t *testing.T) {
			report := packJSON(t, dir, program(t, name), "-o", name+".xpwc")
			require.Positive(t, report.Levels[0].Packed)
			plain, _ := runJSON(t, dir, program(t, name))
			warm, _ := runJSON(t, dir, program(t, name), "--cache", name+".xpwc")
			require.Equal(t, plain.Outputs, warm.Outputs)
			require.Zero(t, warm.Cache.Packed)
			require.Zero(t, warm.Cache.Private)
			require.Zero(t, warm.Cache.BytesWritten)
			require.Equal(t, report.Levels[0].Packed, warm.Cache.Hits+warm.Cache.Reused)
			require.Contains(t, printed(t, dir, 0, "verify", name+".xpwc", "--model", program(t, name)), "proven")
		})
	}
}

func TestAProgramComputesWhatExecuTorchDoes(t *testing.T) {
	dir := t.TempDir()
	for name, tolerance := range map[string]float64{"mlp_fp32": 1e-4, "mobilenet_v3_small_int8": 3e-2} {
		report, _ := runJSON(t, dir, program(t, name+".pte"), "--method", "forward",
			"--input", program(t, name+".in0.npy"), "--output-dir", name)
		requireNear(t, program(t, name+".out0.npy"), filepath.Join(dir, report.Outputs[0].File), tolerance)
	}
}

// twoMethods has "method 0", of two layers, and "method 1", of the first of them.
func twoMethods(t testing.TB) string {
	t.Helper()
	return program(t, filepath.Join("..", "two_methods.pte"))
}

func TestAllMethodsOfAProgramArePackedAndOneIsRun(t *testing.T) {
	dir := t.TempDir()
	report := packJSON(t, dir, twoMethods(t), "-o", "c.xpwc")
	require.Equal(t, 2, report.Entries)
	var sums []string
	for i, hits := range []int64{2, 1} {
		name := fmt.Sprint("method ", i)
		plain, _ := runJSON(t, dir, twoMethods(t), "--method", name)
		warm, _ := runJSON(t, dir, twoMethods(t), "--method", name, "--cache", "c.xpwc")
		require.Equal(t, plain.Outputs, warm.Outputs)
		require.Zero(t, warm.Cache.Packed)
		require.Equal(t, hits, warm.Cache.Hits)
		sums = append(sums, warm.Outputs[0].SHA256)
	}
	require.NotEqual(t, sums[0], sums[1])
	require.Contains(t, printed(t, dir, exitFailed, "run", twoMethods(t)),
		`it has "method 0", "method 1"; choose one with --method`)
	v := reported[programReport](t, dir, 0, "inspect", twoMethods(t))
	require.Len(t, v.Methods, 2)
	require.Equal(t, 3, v.WeightCount)
}

func TestADynamicInputTakesItsBatchFromItsFile(t *testing.T) {
	dir := t.TempDir()
	model := program(t, "mlp_dyn_fp32.pte") // at most [16 64]
	report, _ := runJSON(t, dir, model, "--input", program(t, "mlp_dyn_fp32.in0.npy"), "--output-dir", "out",
		"--cache", "c.xpwc")
	require.Equal(t, []int{3, 16}, report.Outputs[0].Shape)
	requireNear(t, program(t, "mlp_dyn_fp32.out0.npy"), filepath.Join(dir, report.Outputs[0].File), 1e-4)
	largest, _ := runJSON(t, dir, model, "--cache", "c.xpwc")
	require.Equal(t, []int{16, 16}, largest.Outputs[0].Shape)
	require.Zero(t, largest.Cache.Packed, "packed weights suit every batch")
	for shape, n := range map[string]int{"(17, 64)": 17 * 64, "(0, 64)": 0, "(64,)": 64, "(1, 3, 64)": 3 * 64} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "x.npy"), numPy("<f4", shape, make([]byte, 4*n)), 0o600))
		require.Contains(t, printed(t, dir, exitFailed, "run", model, "--input", "x.npy"),
			"[16 64], or in a .npy a smaller shape", shape)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.npy"), numPy("<f4", "(3, 63)", make([]byte, 4*3*63)), 0o600))
	require.Contains(t, printed(t, dir, exitFailed, "run", model, "--input", "x.npy"),
		"inputs of shapes [3 63], at most [16 64]", "the kernel has 64 channels")
}

// readNumbers returns what a .npy has, and its shape.
func readNumbers(t testing.TB, path string) ([]byte, []int) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	a, err := npy.Read(content)
	require.NoError(t, err)
	return a.Data, a.Shape
}

// requireNear compares the floats in a file with a .npy file: their relative L2 distance is at most the tolerance.
func requireNear(t testing.TB, want, got string, tolerance float64) {
	t.Helper()
	numbers, _ := readNumbers(t, want)
	floats := func(b []byte) (out []float64) {
		for ; len(b) > 0; b = b[4:] {
			bits := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
			out = append(out, float64(math.Float32frombits(bits)))
		}
		return out
	}
	content, err := os.ReadFile(got)
	require.NoError(t, err)
	x, y := floats(numbers), floats(content)
	require.Len(t, y, len(x))
	var difference, norm float64
	for i := range x {
		difference, norm = difference+(x[i]-y[i])*(x[i]-y[i]), norm+x[i]*x[i]
	}
	require.LessOrEqual(t, math.Sqrt(difference/norm), tolerance)
}

func TestADemoRunsAProgram(t *testing.T) {
	dir := t.TempDir()
	require.Contains(t, printed(t, dir, 0, "demo", program(t, mobilenet)), "identical bit for bit")
	require.Contains(t, printed(t, dir, exitFailed, "demo", outsider(t)), "operators that cannot be run here")
	output := printed(t, dir, 0, "demo", twoMethods(t), "--method", "method 1")
	require.Regexp(t, `entries packed +- +1 +0\n`, output)
}

func TestAProgramIsPackedForLesserCPUs(t *testing.T) {
	dir := t.TempDir()
	report := packJSON(t, dir, program(t, perceptron), "-o", "c.xpwc", "--cpu", "sse2,native")
	require.Len(t, report.Levels, 2)
	require.NotEqual(t, report.Levels[0].Layout, report.Levels[1].Layout)
	warm, _ := runJSON(t, dir, program(t, perceptron), "--cache", "c.xpwc")
	require.Zero(t, warm.Cache.Packed)
}

// outsider makes a program with an operator that only ExecuTorch could run, and returns its path.
func outsider(t testing.TB) string {
	t.Helper()
	content, err := os.ReadFile(program(t, mobilenet))
	require.NoError(t, err)
	name, unsupported := []byte("_to_dim_order_copy"), []byte("_to_dim_order_cozy")
	require.Contains(t, string(content), string(name))
	path := filepath.Join(t.TempDir(), "outsider.pte")
	require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(content, name, unsupported), 0o600))
	return path
}

func TestAProgramThatCannotBeRunIsPacked(t *testing.T) {
	dir := t.TempDir()
	model := outsider(t)
	code, out, stderr := xpwcIn(t, dir, "run", model, "--cache", "c.xpwc")
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, stderr, "cannot be run here: dim_order_ops::_to_dim_order_cozy.out (18 times)")
	require.NoFileExists(t, filepath.Join(dir, "c.xpwc"))

	report := packJSON(t, dir, model, "-o", "c.xpwc")
	require.Equal(t, packJSON(t, dir, program(t, mobilenet), "-o", "runnable.xpwc").Entries, report.Entries)
	require.Contains(t, printed(t, dir, 0, "verify", "c.xpwc", "--model", model), "proven")
}

func TestAProgramsExternalDataIsGivenWithIt(t *testing.T) {
	programs := os.Getenv("XPWC_PROGRAMS")
	if programs == "" {
		t.Skip("XPWC_PROGRAMS does not say where a program with external data is")
	}
	dir := t.TempDir()
	pte := filepath.Join(programs, "mobilenet_v2_fp32_ext.pte")
	ptd := filepath.Join(programs, "mobilenet_v2_fp32_ext.ptd")
	for _, command := range []string{"run", "pack", "inspect", "demo", "bench"} {
		args := []string{command, pte}
		if command == "pack" {
			args = append(args, "-o", "c.xpwc")
		}
		require.Contains(t, printed(t, dir, exitFailed, args...), "give its .ptd files too")
	}
	v := reported[programReport](t, dir, 0, "inspect", pte, ptd)
	require.Equal(t, []string{ptd}, v.Data)
	require.Equal(t, ptd, v.Weights[0].File)
	require.Contains(t, printed(t, dir, 0, "inspect", pte, ptd), "   mobilenet_v2_fp32_ext.ptd\n")
	demo := printed(t, dir, 0, "demo", pte, ptd)
	require.Contains(t, demo, "mobilenet_v2_fp32_ext.pte, 13.3 MiB\n", "both files")
	require.Contains(t, demo, "identical bit for bit")
	printed(t, dir, 0, "bench", pte, ptd, "--runs", "1")
	packJSON(t, dir, pte, ptd, "-o", "c.xpwc")
	plain, _ := runJSON(t, dir, pte, ptd)
	warm, _ := runJSON(t, dir, pte, ptd, "--cache", "c.xpwc")
	require.Equal(t, plain.Outputs, warm.Outputs)
	require.Zero(t, warm.Cache.Packed)
	require.Contains(t, printed(t, dir, 0, "verify", "c.xpwc", "--model", pte, "--data", ptd), "proven")
}

const inspectedPerceptron = `model.pte: ExecuTorch's program, 1 method, 4 weights of 40.6 KiB

method forward: 1 delegate, can be run here
input 0: fp32 [1..16x64]
output 0: fp32 [16x16] at most

   operator         count      where
   FullyConnected       2   delegate

   weight                                                                 size   type      shape
   c56e8d751c6cfbc98a5507c1a7112aca92e49a44a340c5839984d9e065b0dc11   32.0 KiB   fp32   [128x64]
   d2d2a586dae717628576e7513681a1a4e2b4e82f38e56437cb810660cf03d66e    8.0 KiB   fp32   [16x128]
   f3c277d0b18828b8002be68cf9894d5dea773fdc0e93b3b6cb60da9a52e7c617      512 B   fp32      [128]
   bffa1385bcc2ece04f9a5e56bde19d1eb0ffedf73897f1e6065fed3ca86c758c       64 B   fp32       [16]
`

func TestInspectShowsWhatIsInAProgram(t *testing.T) {
	dir := t.TempDir()
	content, err := os.ReadFile(program(t, "mlp_dyn_fp32.pte"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.pte"), content, 0o600))
	require.Equal(t, inspectedPerceptron, printed(t, dir, 0, "inspect", "model.pte"))
	require.Contains(t, printed(t, dir, 0, "inspect", "model.pte", "--filter", "c56e8d"),
		"\n1 weight of 4, 32.0 KiB.\n")
	require.Contains(t, printed(t, dir, 0, "inspect", "model.pte", "--filter", "none"), "No weights")

	v := reported[programReport](t, dir, 0, "inspect", "model.pte")
	require.Equal(t, []methodReport{{
		Name: "forward", Delegates: 1, Runnable: true,
		Inputs:    []valueReport{{"input 0", "fp32", []int{16, 64}, true, []int{0}}},
		Outputs:   []valueReport{{"output 0", "fp32", []int{16, 16}, true, nil}},
		Operators: []operatorReport{{"FullyConnected", 2, "delegate"}},
	}}, v.Methods)
	require.Equal(t, weightReport{
		"c56e8d751c6cfbc98a5507c1a7112aca92e49a44a340c5839984d9e065b0dc11", "fp32", []int{128, 64}, 32768,
		filepath.Join(dir, "model.pte"),
	}, v.Weights[0])
	require.Len(t, v.Weights, v.WeightCount)
}

func TestInspectShowsWhatALanguageModelTellsOfItself(t *testing.T) {
	path, err := filepath.Abs("../../models/llm/testdata/small.pte")
	require.NoError(t, err)
	text := printed(t, t.TempDir(), 0, "inspect", path)
	require.Contains(t, text, "method forward: 24 delegates, can be run here\ninput 0: int64 [1x1..63]\n")
	require.Contains(t, text, "\nmethod get_eos_ids returns 2\n")
	require.Contains(t, text, "\nmethod use_kv_cache returns true\n")
}

func TestInspectShowsWhatIsOutsideOfXNNPACK(t *testing.T) {
	dir, model := t.TempDir(), outsider(t)
	text := printed(t, dir, 0, "inspect", model)
	require.Contains(t, text, "can be packed here, not run:\n")
	require.Contains(t, text, "dim_order_ops::_to_dim_order_cozy.out (18 times)")
	require.Regexp(t, `dim_order_ops::_to_dim_order_cozy.out +18 +outside\n`, text)
	m := reported[programReport](t, dir, 0, "inspect", model).Methods[0]
	require.False(t, m.Runnable)
	require.Contains(t, m.Reason, "_to_dim_order_cozy.out (18 times)")
}

func TestMistakesWithProgramsAreReported(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.pte")
	require.NoError(t, os.WriteFile(garbage, []byte("no program at all"), 0o600))
	pte, ptd := program(t, perceptron), filepath.Join("..", "..", "models", "executorch", "testdata", "reference.ptd")
	ptd, err := filepath.Abs(ptd)
	require.NoError(t, err)
	for i, c := range []struct {
		code    int
		message string
		args    []string
	}{
		{exitFailed, "the model has no such signature", []string{"run", faceModel(t), "--method", "forward"}},
		{exitFailed, "the model has no such signature", []string{"demo", faceModel(t), "--method", "forward"}},
		{exitUsage, "--method is for programs", []string{"bench", "--method", "forward"}},
		{exitUsage, "wrong number of arguments", []string{"demo", faceModel(t), ptd}},
		{exitUsage, "wrong number of arguments", []string{"run", faceModel(t), ptd}},
		{exitUsage, "wrong number of arguments", []string{"pack", faceModel(t), ptd, "-o", "c"}},
		{exitUsage, "--description is for", []string{"pack", pte, "--description", "d.json", "-o", "c"}},
		{exitUsage, "DATA are the .ptd files of a program",
			[]string{"verify", "c", "--model", faceModel(t), "--data", ptd}},
		{exitUsage, "DATA are the .ptd files of a --model", []string{"verify", "c", ptd}},
		{exitUsage, "DATA are the .ptd files of a program", []string{"verify", "c", ptd, "--model", faceModel(t)}},
		{exitUsage, "--embed-beside is for", []string{"pack", pte, "--embed-beside", "-o", "c"}},
		{exitUsage, "the same file", []string{"pack", pte, ptd, "-o", ptd}},
		{exitUsage, "--map is not for the model", []string{"inspect", pte, "--map"}},
		{exitUsage, "wrong number of arguments", []string{"inspect", ptd, pte}},
		{exitFailed, "malformed", []string{"inspect", garbage}},
		{exitFailed, `"backward": no such method: it has "forward"; choose one with --method`,
			[]string{"run", pte, "--method", "backward"}},
		{exitFailed, "not a .ptd", []string{"run", pte, pte}},
		{exitFailed, "malformed", []string{"run", garbage}},
		{exitFailed, "malformed", []string{"pack", garbage, "-o", "c"}},
		{exitFailed, "absent.ptd", []string{"pack", pte, "absent.ptd", "-o", "c"}},
	} {
		t.Run(fmt.Sprint(i, " ", c.message), func(t *testing.T) {
			code, out, stderr := xpwcIn(t, dir, c.args...)
			require.Equal(t, c.code, code, stderr)
			require.Empty(t, out)
			require.Contains(t, stderr, c.message)
			require.NoFileExists(t, filepath.Join(dir, "c"))
		})
	}
}

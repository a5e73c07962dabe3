package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunWritesItsOutputs(t *testing.T) {
	dir := t.TempDir()
	report, _ := runJSON(t, dir, faceModel(t), "--output-dir", "new/out")
	require.Len(t, report.Outputs, 2)
	require.Nil(t, report.Cache)
	for i, shape := range [][]int{{1, 896, 16}, {1, 896, 1}} {
		o := report.Outputs[i]
		require.Equal(t, shape, o.Shape)
		require.Equal(t, filepath.Join("new", "out", fmt.Sprintf("output_%d.f32", i)), o.File)
		content, err := os.ReadFile(filepath.Join(dir, o.File))
		require.NoError(t, err)
		require.Len(t, content, 4*shape[1]*shape[2])
		sum := sha256.Sum256(content)
		require.Equal(t, hex.EncodeToString(sum[:]), o.SHA256)
	}
	require.Equal(t, "regressors", report.Outputs[0].Name)
}

func TestRunReadsItsInputs(t *testing.T) {
	dir := t.TempDir()
	var input []byte
	for i := range 128 * 128 * 3 {
		x := float32(uint64(i) * 2654435761 % (1 << 32))
		input = binary.LittleEndian.AppendUint32(input, math.Float32bits(x/(1<<32)))
	}
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	standard, _ := runJSON(t, dir, faceModel(t))
	withFile, _ := runJSON(t, dir, faceModel(t), "--input", write("knuth.f32", input), "--threads", "2")
	require.Equal(t, standard.Outputs, withFile.Outputs, "the documented input is what is used without --input")
	require.Equal(t, 2, withFile.Threads)
	zero, _ := runJSON(t, dir, faceModel(t), "--input", write("zero.f32", make([]byte, len(input))))
	require.NotEqual(t, standard.Outputs, zero.Outputs)

	for name, content := range map[string][]byte{"short": input[4:], "long": append(input, 0), "empty": nil} {
		code, out, stderr := xpwcIn(t, dir, "run", faceModel(t), "--input", write(name, content))
		require.Equal(t, exitFailed, code)
		require.Empty(t, out)
		require.Contains(t, stderr, name)
		require.Contains(t, stderr, fmt.Sprint(len(input)), "how many bytes it should be")
	}
}

func TestRunPacksOnce(t *testing.T) {
	dir := t.TempDir()
	plain, _ := runJSON(t, dir, faceModel(t))
	cold, _ := runJSON(t, dir, faceModel(t), "--cache", "c.xpwc")
	require.Equal(t, plain.Outputs, cold.Outputs)
	require.Positive(t, cold.Cache.Packed)
	require.Zero(t, cold.Cache.Hits)
	original, err := os.ReadFile(filepath.Join(dir, "c.xpwc"))
	require.NoError(t, err)
	require.EqualValues(t, len(original), cold.Cache.FileBytes)

	warm, _ := runJSON(t, dir, faceModel(t), "--cache", "c.xpwc")
	require.Equal(t, plain.Outputs, warm.Outputs)
	require.Equal(t, cold.Cache.Packed, warm.Cache.Hits)
	require.Zero(t, warm.Cache.Packed)
	require.Zero(t, warm.Cache.Private)
	require.Zero(t, warm.Cache.BytesWritten)
	final, err := os.ReadFile(filepath.Join(dir, "c.xpwc"))
	require.NoError(t, err)
	require.Equal(t, original, final)

	code, table, stderr := xpwcIn(t, dir, "run", faceModel(t), "--cache", "c.xpwc")
	require.Zero(t, code, stderr)
	require.Contains(t, table, "create runtime")
	require.Contains(t, table, plain.Outputs[1].SHA256)
}

func TestRunComputesAsALesserCPUWould(t *testing.T) {
	dir := t.TempDir()
	code, _, stderr := xpwcIn(t, dir, "run", faceModel(t), "--cpu", "z80")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--cpu z80: known are ")
	packed, _ := runJSON(t, dir, faceModel(t), "--cpu", "native", "--cache", "c.xpwc")
	require.Positive(t, packed.Cache.Packed)
	if runtime.GOARCH != "amd64" {
		return
	}
	lesser, _ := runJSON(t, dir, faceModel(t), "--cpu", "sse2", "--cache", "c.xpwc")
	sse2, _ := runJSON(t, dir, faceModel(t), "--cpu", "sse2", "--cache", "c.xpwc")
	require.Equal(t, lesser.Outputs, sse2.Outputs)
	require.Zero(t, sse2.Cache.Packed, "what it packed has the layout of that CPU")
}

func TestRunGetsOverADamagedCache(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.xpwc")
	cold, _ := runJSON(t, dir, faceModel(t), "--cache", path)
	require.NoError(t, os.Truncate(path, cold.Cache.FileBytes/2))

	second, _ := runJSON(t, dir, faceModel(t), "--cache", path)
	require.Equal(t, cold.Outputs, second.Outputs)
	require.Equal(t, cold.Cache.Packed, second.Cache.Packed)
	require.NotEmpty(t, second.Cache.Notes, "it says so")

	warm, _ := runJSON(t, dir, faceModel(t), "--cache", path)
	require.Equal(t, cold.Cache.Packed, warm.Cache.Hits)
	require.Empty(t, warm.Cache.Notes)
}

func TestRunLeavesAnotherProgramsFileAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "notes.txt")
	content := []byte(strings.Repeat("not a cache at all\n", 1000))
	require.NoError(t, os.WriteFile(path, content, 0o600))
	code, out, stderr := xpwcIn(t, dir, "run", faceModel(t), "--cache", path)
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, stderr, path)
	final, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, content, final)
}

func TestANameInAModelCannotPutLinesIntoWhatRunPrints(t *testing.T) {
	content, err := os.ReadFile(faceModel(t))
	require.NoError(t, err)
	content = bytes.ReplaceAll(content, []byte("classificators"), []byte("\noutput 9 ok\r\x1b"))
	path := filepath.Join(t.TempDir(), "odd.tflite")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	out := printed(t, t.TempDir(), 0, "run", path)
	require.Contains(t, out, " ?output 9 ok?? [1x896x1]\n")
	require.NotContains(t, out, "\noutput 9")
	require.NotContains(t, out, "\r")
}

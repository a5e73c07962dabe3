package main

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"xpwc/internal/half"
)

// tokens computes (token + 0.5*(n+1)) * bit of int64, int8 and a boolean, in single precision and as int8.
func tokens(t testing.TB) string {
	t.Helper()
	return program(t, filepath.Join("..", "tokens.pte"))
}

func TestAProgramTakesAndGivesTheTypesThatItDeclares(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	var long []byte
	for _, n := range []int64{-3, 0, 5, 1 << 24, 7, 1} {
		long = binary.LittleEndian.AppendUint64(long, uint64(n))
	}
	small, bits := []byte{255, 1, 2, 0xfb, 0, 7}, []byte{1, 0, 1, 1, 1, 0}
	write("token.npy", numPy("<i8", "(2, 3)", long))
	write("n.npy", numPy("|i1", "(1, 2, 3)", small))
	write("bit.npy", numPy("|b1", "(2, 3)", bits))
	write("bit.raw", bits)

	want := binary.LittleEndian.AppendUint32(nil, math.Float32bits(-3))
	for _, f := range []float32{0, 6.5, 1<<24 - 2, 7.5, 0} {
		want = binary.LittleEndian.AppendUint32(want, math.Float32bits(f))
	}
	for _, inputs := range [][]string{{"token.npy", "n.npy", "bit.npy"}, {"token.npy", "n.npy", "bit.raw"}} {
		args := []string{tokens(t), "--output-dir", "out"}
		for _, input := range inputs {
			args = append(args, "--input", input)
		}
		report, _ := runJSON(t, dir, args...)
		require.Equal(t, filepath.Join("out", "output_0.f32"), report.Outputs[0].File)
		require.Equal(t, filepath.Join("out", "output_1.i8"), report.Outputs[1].File)
		require.Equal(t, []string{"float32", "int8"}, []string{report.Outputs[0].Type, report.Outputs[1].Type})
		got, err := os.ReadFile(filepath.Join(dir, "out", "output_0.f32"))
		require.NoError(t, err)
		require.Equal(t, want, got)
		got, err = os.ReadFile(filepath.Join(dir, "out", "output_1.i8"))
		require.NoError(t, err)
		require.Equal(t, []byte{1, 3, 6, 127, 7, 3}, got, "in steps of 2, and 3 for 0")
	}
	out := printed(t, dir, 0, "run", tokens(t), "--input", "token.npy", "--input", "n.npy", "--input", "bit.npy")
	require.Contains(t, out, "input 0  input 0 int64 [2x3]\n")
	require.Contains(t, out, "output 1  output 1 int8 [2x3]\n   1  3  6  127  7  3\n   sha256 ")
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 80+1, line)
	}
	require.Contains(t, printed(t, dir, 0, "inspect", tokens(t)), "input 0: int64, converted to fp32 [2x3]\n")

	for name, c := range map[string]struct {
		file    []byte
		message string
	}{
		"floats.npy": {numPy("<f4", "(2, 3)", make([]byte, 24)), "its elements are F32, but the model takes int64 " +
			"input 0 [2 3]; save it as x.astype(numpy.int64)"},
		"narrow.npy": {numPy("<i4", "(2, 3)", make([]byte, 24)), "its elements are I32, but the model takes int64"},
		"turned.npy": {numPy("<i8", "(3, 2)", long), "its shape is [3 2], but the model takes int64 input 0 [2 3]"},
		"short":      {long[1:], "has 47 bytes, but the model takes 48: int64 input 0 [2 3]"},
		"long":       {append(long, 0), "has more than the 48 bytes"},
	} {
		write(name, c.file)
		out := printed(t, dir, exitFailed, "run", tokens(t), "--input", name, "--input", "n.npy", "--input", "bit.npy")
		require.Contains(t, out, name)
		require.Contains(t, out, c.message)
	}
	wrong := printed(t, dir, exitFailed, "run", tokens(t),
		"--input", "token.npy", "--input", "bit.npy", "--input", "bit.npy")
	require.Contains(t, wrong,
		"the model takes int8 input 1 [2 3], scale 0.5, zero point -1; save it as x.astype(numpy.int8)")
	wrong = printed(t, dir, exitFailed, "run", tokens(t), "--input", "token.npy", "--input", "n.npy", "--input",
		"n.npy")
	require.Contains(t, wrong, "the model takes bool input 2 [2 3]; save it as x.astype(numpy.bool_)")
	require.Contains(t, printed(t, dir, exitUsage, "run", tokens(t), "--input", "n.npy"),
		"1 file for 3 inputs: int64 input 0 [2 3]; int8 input 1 [2 3]")
}

func TestWithoutInputsEachTypeHasNumbersOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	var long, small, bits, halves []byte
	for i := range 6 {
		h := uint32(i) * 2654435761
		long = binary.LittleEndian.AppendUint64(long, uint64(h>>31))
		small, bits = append(small, byte(h>>24)), append(bits, byte(h>>31))
	}
	for name, content := range map[string][]byte{"0": long, "1": small, "2": bits} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	named, _ := runJSON(t, dir, tokens(t), "--input", "0", "--input", "1", "--input", "2")
	generated, _ := runJSON(t, dir, tokens(t))
	require.Equal(t, named.Outputs, generated.Outputs)

	for i := range 3 * 64 {
		h := uint32(i) * 2654435761
		halves = binary.LittleEndian.AppendUint16(halves, half.Bits(float64(h>>21)/2048))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "halves"), halves, 0o600))
	named, _ = runJSON(t, dir, program(t, floats16), "--input", "halves")
	generated, _ = runJSON(t, dir, program(t, floats16))
	require.Equal(t, named.Outputs, generated.Outputs)
}

func TestAProgramInHalfPrecisionComputesWhatExecuTorchDoes(t *testing.T) {
	dir := t.TempDir()
	report, _ := runJSON(t, dir, program(t, floats16), "--input", program(t, "mlp_fp16.in0.npy"), "--output-dir", "o")
	require.Equal(t, filepath.Join("o", "output_0.f16"), report.Outputs[0].File)
	got, err := os.ReadFile(filepath.Join(dir, report.Outputs[0].File))
	require.NoError(t, err)
	want, _ := readNumbers(t, program(t, "mlp_fp16.out0.npy"))
	require.Len(t, got, len(want))
	var difference, norm float64
	for i := 0; i < len(got); i += 2 {
		x, y := half.Float64(binary.LittleEndian.Uint16(got[i:])), half.Float64(binary.LittleEndian.Uint16(want[i:]))
		difference, norm = difference+(x-y)*(x-y), norm+y*y
	}
	require.LessOrEqual(t, math.Sqrt(difference/norm), 5e-3)
	require.Contains(t, printed(t, dir, 0, "demo", program(t, floats16)), "identical bit for bit")
	require.Contains(t, printed(t, dir, 0, "demo", tokens(t)), "identical bit for bit")
}

package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// numPy is a .npy file of version 1.0.
func numPy(dtype string, shape string, data []byte) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", dtype, shape)
	header += strings.Repeat(" ", 64-(10+len(header)+1)%64) + "\n"
	b := append([]byte("\x93NUMPY\x01\x00"), binary.LittleEndian.AppendUint16(nil, uint16(len(header)))...)
	return append(append(b, header...), data...)
}

func TestRunReadsNumPysFiles(t *testing.T) {
	dir := t.TempDir()
	var raw []byte
	for i := range 128 * 128 * 3 {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(i%255)/255))
	}
	write := func(name string, content []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	write("x.f32", raw)
	write("x.npy", numPy("<f4", "(1, 128, 128, 3)", raw))
	write("image.npy", numPy("<f4", "(128, 128, 3)", raw))
	want, _ := runJSON(t, dir, faceModel(t), "--input", "x.f32")
	for _, name := range []string{"x.npy", "image.npy"} {
		got, _ := runJSON(t, dir, faceModel(t), "--input", name)
		require.Equal(t, want.Outputs, got.Outputs, name)
	}
	write("flat.npy", numPy("<f4", "(49152,)", raw))
	write("turned.npy", numPy("<f4", "(3, 128, 128)", raw))
	write("bytes.npy", numPy("|u1", "(128, 128, 3)", raw[:128*128*3]))
	write("cut.npy", numPy("<f4", "(128, 128, 3)", raw[4:]))
	for name, message := range map[string]string{"flat.npy": "[1 128 128 3]", "turned.npy": "[3 128 128]",
		"bytes.npy": "astype", "cut.npy": "malformed", "none.npy": "no such file"} {
		code, out, stderr := xpwcIn(t, dir, "run", faceModel(t), "--input", name)
		require.Equal(t, exitFailed, code, name)
		require.Empty(t, out)
		require.Contains(t, stderr, name)
		require.Contains(t, stderr, message)
	}
	code, _, stderr := xpwcIn(t, dir, "run", faceModel(t), "--input", "x.npy", "--input", "x.f32")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "2 files for 1 input:")
}

func TestRunTakesAFileForEachInput(t *testing.T) {
	dir := t.TempDir()
	model := describedModel(t, dir) // inputs [1 48], [1 64], [1 3 3 4]
	for i, n := range []int{48, 64, 36} {
		var raw []byte
		for k := range n {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(i+1)*float32(k)/64))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".f32")), raw, 0o600))
		shape := []string{"(48,)", "(1, 64)", "(3, 3, 4)"}[i]
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".npy")), numPy("<f4", shape, raw), 0o600))
	}
	raw := []string{"--input", "0.f32", "--input", "1.f32", "--input", "2.f32"}
	want, _ := runJSON(t, dir, append([]string{model}, raw...)...)
	separate, _ := runJSON(t, dir, model, "--input", "0.f32", "--input", "1.npy", "--input", "2.npy")
	require.Equal(t, want.Outputs, separate.Outputs)
	_, out, _ := xpwcIn(t, dir, append([]string{"run", model}, raw...)...)
	require.Contains(t, out, "output 2  stem output [1x1x1x8]")
	code, _, _ := xpwcIn(t, dir, "run", model, "--input", "1.f32", "--input", "0.f32", "--input", "2.f32")
	require.Equal(t, exitFailed, code)
}

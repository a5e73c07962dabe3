package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/npy"
)

func TestAModelOfSeveralSignaturesIsPackedWholeAndRunsEach(t *testing.T) {
	dir := t.TempDir()
	testdata, err := filepath.Abs(filepath.Join("..", "..", "models", "tflite", "testdata", "signatures"))
	require.NoError(t, err)
	model := filepath.Join(testdata, "autoencoder.tflite")
	in := func(name string) string { return filepath.Join(testdata, name+".npy") }
	require.Contains(t, printed(t, dir, 0, "pack", model, "-o", "packed"), "2 entries")
	for _, args := range [][]string{
		{"--method", "encode", "--input", in("gain"), "--input", in("picture"), "--output-dir", "out"},
		{"--method", "decode"},
	} {
		said := printed(t, dir, 0, append([]string{"run", model, "--cache", "packed"}, args...)...)
		require.Regexp(t, `entries packed +0\n`, said)
	}
	got, err := os.ReadFile(filepath.Join(dir, "out", "output_0.f32"))
	require.NoError(t, err)
	file, err := os.ReadFile(in("code"))
	require.NoError(t, err)
	code, err := npy.Read(file)
	require.NoError(t, err)
	require.Len(t, got, len(code.Data), "of two pictures")
	shown := reported[modelReport](t, dir, 0, "inspect", model)
	require.Len(t, shown.Signatures, 2)
	for i, name := range []string{"decode", "encode"} {
		s := shown.Signatures[i]
		require.Equal(t, name, s.Name)
		require.True(t, s.Runnable, s.Reason)
		require.NotEmpty(t, s.Inputs)
		require.NotEmpty(t, s.Outputs)
		require.Positive(t, s.WeightBytes)
	}
	require.Contains(t, printed(t, dir, 0, "inspect", model), "signature encode: can be run")
	said := printed(t, dir, 1, "run", model, "--method", "train")
	require.Contains(t, said, `it has ["decode" "encode"]; choose one with --method`)
}

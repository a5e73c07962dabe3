package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/bundle"
)

// smallBundle is a bundle of LiteRT-LM with a language model of two layers, and its embedder.
func smallBundle(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "models", "bundle", "testdata", "small.litertlm"))
	require.NoError(t, err)
	return path
}

// extracted writes a model of a bundle to a file of its own.
func extracted(t testing.TB, path, section string) string {
	t.Helper()
	b, err := bundle.Open(path)
	require.NoError(t, err)
	s, err := b.Section(section)
	require.NoError(t, err)
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	model := filepath.Join(t.TempDir(), section+".tflite")
	require.NoError(t, os.WriteFile(model, file[s.Offset:][:s.Size], 0o600))
	return model
}

func copyFile(t testing.TB, source, target string) {
	t.Helper()
	content, err := os.ReadFile(source)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(target, content, 0o600))
}

func TestInspectShowsTheSectionsOfABundle(t *testing.T) {
	code, out, stderr := xpwcIn(t, t.TempDir(), "inspect", smallBundle(t))
	require.Zero(t, code, stderr)
	for _, part := range []string{"version 1.7.0, 5 sections", "hf_tokenizer_zlib", "signature decode: can be run",
		"signature prefill_embedder_16", "xnnpack_cache, which is not there"} {
		require.Contains(t, out, part)
	}
	code, out, stderr = xpwcIn(t, t.TempDir(), "inspect", smallBundle(t)+"#embedder")
	require.Zero(t, code, stderr)
	require.Contains(t, out, "signature decode_embedder")
	require.NotContains(t, out, "kv_cache")
}

func TestAModelInABundleRunsAsTheExtractedOne(t *testing.T) {
	dir, model := t.TempDir(), extracted(t, smallBundle(t), "prefill_decode")
	want, _ := runJSON(t, dir, model, "--method", "decode")
	for _, name := range []string{"decode", "decode"} {
		got, _ := runJSON(t, dir, smallBundle(t)+"#prefill_decode", "--method", name, "--cache", "c.xpwc")
		require.Equal(t, want.Outputs, got.Outputs)
	}
	got, _ := runJSON(t, dir, model, "--method", "decode", "--cache", "c.xpwc")
	require.Zero(t, got.Cache.Packed, "a constant is its bytes, in whatever file")
}

func TestAllModelsOfABundleArePackedIntoOneFile(t *testing.T) {
	dir := t.TempDir()
	packJSON(t, dir, smallBundle(t), "-o", "c.xpwc")
	got, _ := runJSON(t, dir, smallBundle(t)+"#prefill_decode", "--method", "decode", "--cache", "c.xpwc")
	require.Zero(t, got.Cache.Packed)
	require.Positive(t, got.Cache.Hits)
	require.Contains(t, printed(t, dir, 0, "verify", "c.xpwc", "--model", smallBundle(t)), "proven")
}

func TestMistakesWithBundlesAreReported(t *testing.T) {
	dir := t.TempDir()
	file, err := os.ReadFile(smallBundle(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cut.litertlm"), file[:100<<10], 0o600))
	copyFile(t, faceModel(t), filepath.Join(dir, "face#2.tflite"))
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{exitFailed, []string{"run", smallBundle(t)}, "#embedder"},
		{exitFailed, []string{"run", smallBundle(t) + "#vision"}, `unknown section "vision"`},
		{exitFailed, []string{"run", smallBundle(t) + "#hf_tokenizer_zlib"}, "no model"},
		{exitFailed, []string{"run", "cut.litertlm"}, "malformed bundle"},
		{exitFailed, []string{"run", faceModel(t) + "#main"}, "not a bundle"},
		{exitFailed, []string{"pack", smallBundle(t), "--for", "litert", "-o", "c"}, "give one"},
		{exitUsage, []string{"pack", faceModel(t), "--for", "litert-lm"}, "a model is a bundle"},
		{exitUsage, []string{"pack", smallBundle(t), "--for", "litert-lm", "--cpu", "avx2,sse4.1"}, "one CPU"},
		{exitUsage, []string{"inspect", smallBundle(t), "--map"}, "--map"},
		{exitOK, []string{"run", "face#2.tflite"}, ""},
	} {
		code, _, stderr := xpwcIn(t, dir, c.args...)
		require.Equal(t, c.code, code, "%v: %s", c.args, stderr)
		require.Contains(t, stderr, c.want, strings.Join(c.args, " "))
	}
}

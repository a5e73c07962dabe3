package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/safetensors"
)

func TestALoaderThatIsToldOnlyTheFilePacksNothing(t *testing.T) {
	dir := t.TempDir()
	model := describedModel(t, dir)
	plain, _ := runJSON(t, dir, model)
	report := packJSON(t, dir, model, "--embed-beside", "-o", "packed.safetensors")
	require.Zero(t, report.Embedded.Offset%65536)
	require.Equal(t, report.FileBytes, report.Embedded.Bytes)
	info, err := os.Stat(filepath.Join(dir, "packed.safetensors"))
	require.NoError(t, err)
	require.Equal(t, report.Embedded.FileBytes, info.Size())

	original, err := safetensors.Open(model)
	require.NoError(t, err)
	defer original.Close()
	packed, err := safetensors.Open(filepath.Join(dir, "packed.safetensors"))
	require.NoError(t, err)
	defer packed.Close()
	for _, want := range original.Tensors() {
		got, ok := packed.Lookup(want.Name)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	for _, got := range packed.Tensors() {
		_, ok := original.Lookup(got.Name)
		require.True(t, ok || got.Name == safetensors.PackedName ||
			strings.HasPrefix(got.Name, safetensors.PaddingPrefix), got.Name)
	}

	// As a copy, alone, elsewhere, that cannot be written to.
	elsewhere := t.TempDir()
	content, err := os.ReadFile(filepath.Join(dir, "packed.safetensors"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "only.safetensors"), content, 0o400))
	warm, _ := runJSON(t, elsewhere, "only.safetensors")
	require.Equal(t, plain.Outputs, warm.Outputs)
	require.Zero(t, warm.Cache.Packed)
	require.Zero(t, warm.Cache.Private)
	require.EqualValues(t, 3, warm.Cache.Hits)
	require.Equal(t, report.FileBytes, warm.Cache.FileBytes)
	entries, err := os.ReadDir(elsewhere)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// Tensors may change in a file that still has the packed weights of the old ones.
func TestPackedWeightsOfOtherTensorsAreNotUsed(t *testing.T) {
	dir := t.TempDir()
	model := describedModel(t, dir)
	packJSON(t, dir, model, "--embed-beside", "-o", "packed.safetensors")
	path := filepath.Join(dir, "packed.safetensors")
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	section, _, err := f.Section("embed")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content[section+2] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
	stale, _ := runJSON(t, dir, "packed.safetensors")
	require.EqualValues(t, 2, stale.Cache.Hits)
	require.EqualValues(t, 1, stale.Cache.Private)
	separate, _ := runJSON(t, dir, "packed.safetensors", "--cache", "own.xpwc")
	require.Equal(t, separate.Outputs, stale.Outputs)
}

func TestEmbeddedPackedWeightsAreAddedTo(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("there is only one level of CPU")
	}
	dir := t.TempDir()
	model := describedModel(t, dir)
	first := packJSON(t, dir, model, "--embed-beside", "-o", "one.safetensors", "--cpu", "sse2", "--align", "4096")
	require.Zero(t, first.Embedded.Offset%4096)
	second := packJSON(t, dir, "one.safetensors", "--embed-beside", "-o", "two.safetensors")
	require.Equal(t, first.Levels[0].Packed+second.Levels[0].Packed, int64(second.Entries))
	for _, level := range []string{"sse2", "native"} {
		second := packJSON(t, dir, "two.safetensors", "--embed-beside", "-o", "three.safetensors", "--cpu", level)
		require.Zero(t, second.Levels[0].Packed)
	}
	warm, _ := runJSON(t, dir, "three.safetensors")
	require.Zero(t, warm.Cache.Private)
	require.EqualValues(t, 3, warm.Cache.Hits)
}

func TestEmbeddingDestroysNothing(t *testing.T) {
	dir := t.TempDir()
	model := describedModel(t, dir)
	secondModel := describedModel(t, t.TempDir())
	content, err := os.ReadFile(model)
	require.NoError(t, err)
	require.NoError(t, os.Link(model, filepath.Join(dir, "hard.safetensors")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("notes"), 0o600))
	packJSON(t, dir, faceModel(t), "-o", "c.xpwc")
	for _, c := range []struct {
		args    []string
		code    int
		message string
	}{
		{[]string{model, "-o", "model.safetensors"}, exitUsage, "the same file"},
		{[]string{model, "-o", "hard.safetensors"}, exitUsage, "the same file"},
		{[]string{model, "-o", "model.safetensors.json"}, exitUsage, "the same file"},
		{[]string{secondModel, "-o", "model.safetensors"}, exitFailed, "no packed weights"},
		{[]string{secondModel, "-o", "notes"}, exitFailed, "malformed"},
		{[]string{secondModel, "-o", "c.xpwc"}, exitFailed, "malformed"},
		{[]string{faceModel(t), "-o", "new.safetensors"}, exitUsage, ".safetensors"},
		{[]string{model, "-o", "new.safetensors", "--align", "1000"}, exitUsage, "--align"},
	} {
		original, _ := os.ReadFile(filepath.Join(dir, c.args[2]))
		code, out, stderr := xpwcIn(t, dir, append([]string{"pack", "--embed-beside"}, c.args...)...)
		require.Equal(t, c.code, code, stderr)
		require.Empty(t, out)
		require.Contains(t, stderr, c.message)
		final, _ := os.ReadFile(filepath.Join(dir, c.args[2]))
		require.True(t, bytes.Equal(original, final))
	}
	final, err := os.ReadFile(model)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, final))
	packJSON(t, dir, secondModel, "--embed-beside", "-o", "new.safetensors")
	packJSON(t, dir, model, "--embed-beside", "-o", "new.safetensors")
	requireNoStage(t, dir)
}

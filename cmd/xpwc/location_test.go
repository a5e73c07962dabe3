package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/models/safetensors"
)

// embeddedModel packs a safetensors file with packed weights in it, and the same weights into a cache file of their
// own.
func embeddedModel(t *testing.T) (dir string, section embedded) {
	t.Helper()
	dir = t.TempDir()
	model := describedModel(t, dir)
	packJSON(t, dir, model, "-o", "own.xpwc")
	return dir, *packJSON(t, dir, model, "--embed-beside", "-o", "packed.safetensors").Embedded
}

func TestInspectAndVerifyFindTheCacheInASafetensorsFile(t *testing.T) {
	dir, section := embeddedModel(t)
	separate := reported[inspection](t, dir, 0, "inspect", "own.xpwc", "--check", "--sort", "name")
	require.Nil(t, separate.Embedded)
	inSection := reported[inspection](t, dir, 0, "inspect", "packed.safetensors", "--check", "--sort", "name")
	require.Equal(t, &section, inSection.Embedded)
	require.Equal(t, section.Bytes, inSection.FileBytes)
	require.Len(t, inSection.Entries, 3)
	for i, e := range inSection.Entries {
		require.Equal(t, sumOK, e.Checksum)
		require.Equal(t, separate.Entries[i].Name, e.Name)
		require.Equal(t, separate.Entries[i].Sum, e.Sum)
	}
	text := printed(t, dir, 0, "inspect", "packed.safetensors")
	require.Contains(t, text, "the tensor xpwc.packed")
	require.Contains(t, text, "this machine's")

	v := reported[verification](t, dir, 0, "verify", "packed.safetensors")
	require.True(t, v.Sound)
	require.Equal(t, 3, v.Entries)
	require.Equal(t, &section, v.Embedded)
	require.Contains(t, printed(t, dir, 0, "verify", "packed.safetensors"), "sound")
	require.NotContains(t, printed(t, dir, 0, "verify", "own.xpwc"), "note")
}

func TestDamagedPackedWeightsInASafetensorsFileAreReported(t *testing.T) {
	dir, section := embeddedModel(t)
	entry := reported[inspection](t, dir, 0, "inspect", "packed.safetensors").Entries[0]
	path := filepath.Join(dir, "packed.safetensors")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content[section.Offset+entry.Offset] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
	v := reported[verification](t, dir, exitFailed, "verify", "packed.safetensors")
	require.Len(t, v.Problems, 1)
	require.Equal(t, entry.Offset, v.Problems[0].Offset)
	require.Equal(t, entry.Name, v.Problems[0].Name)
	text := printed(t, dir, exitFailed, "inspect", "packed.safetensors", "--check")
	require.Contains(t, text, "is damaged: 1 of 3 entries")
}

func TestPackedWeightsAreTakenOutOfASafetensorsFileAndCompared(t *testing.T) {
	dir, _ := embeddedModel(t)
	original, err := os.ReadFile(filepath.Join(dir, "packed.safetensors"))
	require.NoError(t, err)
	require.Contains(t, printed(t, dir, 0, "diff", "packed.safetensors", "own.xpwc"), "3 entries in common")
	printed(t, dir, 0, "convert", "packed.safetensors", "--to", "native", "-o", "out.xpwc")
	printed(t, dir, 0, "verify", "out.xpwc")
	printed(t, dir, 0, "diff", "packed.safetensors", "out.xpwc")
	for _, args := range [][]string{{"compact"}, {"prune", "--max-size", "1MiB"},
		{"prune", "--keep-layout", "current"}} {
		require.Contains(t, printed(t, dir, exitFailed, append(args, "packed.safetensors")...),
			"xpwc pack --embed-beside")
	}
	final, err := os.ReadFile(filepath.Join(dir, "packed.safetensors"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(original, final))
}

func TestASafetensorsFileWithoutPackedWeightsSaysHowToGetThem(t *testing.T) {
	dir := t.TempDir()
	describedModel(t, dir)
	for _, command := range []string{"inspect", "verify", "compact"} {
		text := printed(t, dir, exitFailed, command, "model.safetensors")
		require.Contains(t, text, cachefile.ErrNotCache.Error())
		require.Contains(t, text, "--embed-beside")
	}
	path := filepath.Join(dir, "forged.safetensors")
	var file bytes.Buffer
	require.NoError(t, safetensors.Write(&file, []safetensors.Tensor{
		{Name: safetensors.PackedName, Dtype: safetensors.U8, Shape: []int{4}, Data: []byte("none")}}, nil))
	require.NoError(t, os.WriteFile(path, file.Bytes(), 0o600))
	require.Contains(t, printed(t, dir, exitFailed, "inspect", "forged.safetensors"), cachefile.ErrNotCache.Error())
}

func TestAModelIsNoCacheAndTheErrorSaysWhatToDoWithIt(t *testing.T) {
	dir := t.TempDir()
	text := printed(t, dir, exitFailed, "verify", faceModel(t))
	require.Contains(t, text, "xpwc pack makes one of a model, and xpwc run shows a model's inputs and outputs")
	printed(t, dir, 0, "pack", faceModel(t), "-o", "packed.tflite")
	require.Contains(t, printed(t, dir, 0, "inspect", "packed.tflite"), "entries")
	content, err := os.ReadFile(faceModel(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "face.bin"), content, 0o600))
	require.Contains(t, printed(t, dir, 0, "inspect", "face.bin"), "can be run", "its content decides")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "directory.tflite"), 0o700))
	require.Contains(t, printed(t, dir, exitFailed, "verify", "directory.tflite"), cachefile.ErrNotCache.Error())
}

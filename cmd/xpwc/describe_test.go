package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/safetensors"
)

// llamaLike writes a safetensors file with a layer of a Llama's names, and the description that somebody who knows it
// writes by hand.
func llamaLike(t testing.TB, dir string) (model string) {
	t.Helper()
	floats := func(n int) []byte { return bytes.Repeat([]byte{0, 0, 0, 0x3d}, n) }
	var list []safetensors.Tensor
	add := func(name string, dtype safetensors.Dtype, data []byte, shape ...int) {
		list = append(list, safetensors.Tensor{Name: name, Dtype: dtype, Shape: shape, Data: data})
	}
	add("model.embed_tokens.weight", safetensors.F32, floats(96*48), 96, 48)
	add("model.layers.0.self_attn.q_proj.weight", safetensors.I8, bytes.Repeat([]byte{1, 2, 253}, 64*16), 64, 48)
	add("model.layers.0.self_attn.q_proj.weight_scale", safetensors.F32, floats(64), 64, 1)
	add("model.layers.0.self_attn.o_proj.weight", safetensors.F32, floats(48*64), 48, 64)
	add("model.layers.0.self_attn.o_proj.bias", safetensors.F32, floats(48), 48)
	add("model.norm.weight", safetensors.F32, floats(48), 48)
	var file bytes.Buffer
	require.NoError(t, safetensors.Write(&file, list, nil))
	model = filepath.Join(dir, "llama.safetensors")
	require.NoError(t, os.WriteFile(model, file.Bytes(), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "hand.json"), []byte(`[
		{"op": "fully_connected", "datatype": "qd8_f32_qc8w", "weights": "model.layers.0.self_attn.q_proj.weight",
			"scales": "model.layers.0.self_attn.q_proj.weight_scale"},
		{"op": "fully_connected", "datatype": "f32", "weights": "model.layers.0.self_attn.o_proj.weight",
			"bias": "model.layers.0.self_attn.o_proj.bias"}
	]`), 0o600))
	return model
}

// The written description packs what one written by hand does, of every kind of file.
func TestTheDescriptionThatIsWrittenPacks(t *testing.T) {
	dir := t.TempDir()
	model := llamaLike(t, dir)
	writeFlatTensor(t, filepath.Join(dir, "llama.ptd"), tensorsOf(t, model))
	packJSON(t, dir, model, "--description", "hand.json", "-o", "hand.xpwc")
	want, _ := runJSON(t, dir, model, "--description", "hand.json")
	for _, of := range []string{"llama.safetensors", "llama.ptd"} {
		code, out, stderr := xpwcIn(t, dir, "pack", "--describe", of)
		require.Zero(t, code, stderr)
		require.Contains(t, stderr, "note: 2 operators, and 2 tensors left out; see")
		code, said, stderr := xpwcIn(t, dir, "pack", "--describe", of, "-o", of+".guess")
		require.Zero(t, code, stderr)
		require.Empty(t, said)
		written, err := os.ReadFile(filepath.Join(dir, of+".guess"))
		require.NoError(t, err)
		require.Equal(t, out, string(written))
		require.Contains(t, out, `"note":"of a norm"`)
		report := packJSON(t, dir, of, "--description", of+".guess", "-o", of+".xpwc")
		require.EqualValues(t, 2, report.Levels[0].Packed)
		code, out, stderr = xpwcIn(t, dir, "diff", "hand.xpwc", of+".xpwc")
		require.Zero(t, code, out+stderr)
		got, _ := runJSON(t, dir, of, "--description", of+".guess", "--cache", "hand.xpwc")
		require.Zero(t, got.Cache.Packed)
		require.ElementsMatch(t, want.Outputs, got.Outputs)
	}
}

func TestADescriptionIsNotWrittenOverAnother(t *testing.T) {
	dir := t.TempDir()
	model := describedModel(t, dir)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitFailed, "model.safetensors.json exists", []string{model, "-o", model + ".json"}},
		{exitUsage, "--describe is for tensors", []string{faceModel(t)}},
		{exitUsage, "--cpu does not go with it", []string{model, "--cpu", "native"}},
		{exitFailed, "no such file", []string{"absent.safetensors"}},
	} {
		code, out, stderr := xpwcIn(t, dir, append([]string{"pack", "--describe"}, c.args...)...)
		require.Equal(t, c.code, code)
		require.Empty(t, out)
		require.Contains(t, stderr, c.says)
	}
	// What the names do not say is named as what is missing.
	var file bytes.Buffer
	require.NoError(t, safetensors.Write(&file, []safetensors.Tensor{{Name: "adapter", Dtype: safetensors.F32,
		Shape: []int{8, 4}, Data: make([]byte, 8*4*4)}}, nil))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m.safetensors"), file.Bytes(), 0o600))
	code, _, stderr := xpwcIn(t, dir, "pack", "--describe", "m.safetensors", "-o", "m.safetensors.json")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "note: 1 operator")
	code, _, stderr = xpwcIn(t, dir, "pack", "m.safetensors", "-o", "c.xpwc")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, `operator 0 (weights "adapter")`)
	require.Contains(t, stderr, `"op" is to be decided`)
	require.NoFileExists(t, filepath.Join(dir, "c.xpwc"))
}

package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/safetensors"
)

// describedModel writes a safetensors file and its description: a float32 and an int8 matrix, and a convolution.
func describedModel(t testing.TB, dir string) (model string) {
	t.Helper()
	floats := func(n int, start float32) (b []byte) {
		for i := range n {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(start+float32(i%13)/16))
		}
		return b
	}
	bytesOf := func(n int) (b []byte) {
		for i := range n {
			b = append(b, byte(i*31))
		}
		return b
	}
	var file bytes.Buffer
	require.NoError(t, safetensors.Write(&file, []safetensors.Tensor{
		{Name: "embed", Dtype: safetensors.F32, Shape: []int{64, 48}, Data: floats(64*48, -0.5)},
		{Name: "q", Dtype: safetensors.I8, Shape: []int{96, 64}, Data: bytesOf(96 * 64)},
		{Name: "q.scales", Dtype: safetensors.F32, Shape: []int{96}, Data: floats(96, 0.25)},
		{Name: "stem", Dtype: safetensors.F32, Shape: []int{8, 3, 3, 4}, Data: floats(8*3*3*4, -0.25)},
		{Name: "stem.bias", Dtype: safetensors.F32, Shape: []int{8}, Data: floats(8, 1)},
		{Name: "small", Dtype: safetensors.F32, Shape: []int{1, 3, 3, 5}, Data: floats(3*3*5, 0)},
		{Name: "odd", Dtype: safetensors.U8, Shape: []int{3}, Data: []byte{1, 2, 3}},
	}, nil))
	model = filepath.Join(dir, "model.safetensors")
	require.NoError(t, os.WriteFile(model, file.Bytes(), 0o600))
	require.NoError(t, os.WriteFile(model+".json", []byte(`[
		{"op": "fully_connected", "datatype": "f32", "weights": "embed"},
		{"op": "fully_connected", "datatype": "qd8_f32_qc8w", "weights": "q", "scales": "q.scales"},
		{"op": "convolution_2d", "datatype": "f32", "weights": "stem", "bias": "stem.bias", "stride": [2, 2]}
	]`), 0o600))
	return model
}

func TestASafetensorsFileIsPackedByItsDescription(t *testing.T) {
	dir := t.TempDir()
	model := describedModel(t, dir)
	report := packJSON(t, dir, model, "-o", "c.xpwc")
	require.EqualValues(t, 3, report.Levels[0].Packed)
	plain, _ := runJSON(t, dir, model)
	require.Len(t, plain.Outputs, 3)
	warm, _ := runJSON(t, dir, model, "--cache", "c.xpwc")
	require.Equal(t, plain.Outputs, warm.Outputs)
	require.Zero(t, warm.Cache.Packed)
	require.Zero(t, warm.Cache.Private)
	require.EqualValues(t, 3, warm.Cache.Hits)

	require.NoError(t, os.Rename(model+".json", filepath.Join(dir, "operators.json")))
	code, _, stderr := xpwcIn(t, dir, "pack", model, "-o", "d.xpwc")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "model.safetensors.json")
	second := packJSON(t, dir, model, "--description", "operators.json", "-o", "c.xpwc")
	require.Zero(t, second.Levels[0].Packed)
	run, _ := runJSON(t, dir, model, "--description", "operators.json")
	require.Equal(t, plain.Outputs, run.Outputs)

	code, _, stderr = xpwcIn(t, dir, "pack", model, "--description", "operators.json", "-o", "operators.json")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "the same file")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad.json"),
		[]byte(`[{"op": "fully_connected", "datatype": "f32", "weights": "none"}]`), 0o600))
	code, _, stderr = xpwcIn(t, dir, "pack", model, "--description", "bad.json", "-o", "d.xpwc")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, `operator 0 (weights "none")`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "heap.json"),
		[]byte(`[{"op": "depthwise_convolution_2d", "datatype": "f32", "weights": "small"}]`), 0o600))
	code, out, stderr := xpwcIn(t, dir, "pack", model, "--description", "heap.json", "-o", "d.xpwc")
	if code == exitOK { // XNNPACK of 2026 packs these through a cache too
		require.FileExists(t, filepath.Join(dir, "d.xpwc"))
	} else {
		require.Equal(t, exitFailed, code, out)
		require.Contains(t, stderr, "no weights that XNNPACK packs through a cache")
		require.NoFileExists(t, filepath.Join(dir, "d.xpwc"))
	}
	code, _, stderr = xpwcIn(t, dir, "run", faceModel(t), "--description", "operators.json")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--description")
	requireNoStage(t, dir)
}

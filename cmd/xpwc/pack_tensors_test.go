package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/flatbuf"
	"xpwc/models/executorch"
	"xpwc/models/safetensors"
)

// writeFlatTensor writes tensors as a .ptd file, with the schemas' slots. Those without a shape have no type there.
func writeFlatTensor(t testing.TB, path string, tensors []safetensors.Tensor) {
	t.Helper()
	types := map[safetensors.Dtype]executorch.ScalarType{safetensors.F32: executorch.Float,
		safetensors.I8: executorch.Char, safetensors.U8: executorch.Byte, safetensors.BF16: executorch.BFloat16}
	var data []byte
	var segments, named []flatbuf.Fields
	for i, tensor := range tensors {
		segments = append(segments, flatbuf.Fields{0: uint64(len(data)), 1: uint64(len(tensor.Data))})
		data = append(data, tensor.Data...)
		data = append(data, make([]byte, -len(data)&127)...)
		name := flatbuf.Fields{0: tensor.Name, 1: uint32(i)}
		if tensor.Shape != nil {
			var sizes []int32
			var order []byte
			for i, n := range tensor.Shape {
				sizes, order = append(sizes, int32(n)), append(order, byte(i))
			}
			name[2] = flatbuf.Fields{0: byte(types[tensor.Dtype]), 1: sizes, 2: order}
		}
		named = append(named, name)
	}
	flat := flatbuf.Build(flatbuf.Fields{0: uint32(0), 1: segments, 2: named}, "FT01")
	const length = 48
	base := (len(flat) + length + 127) &^ 127
	header := binary.LittleEndian.AppendUint32([]byte("FH01"), 40)
	for _, n := range []int{length, len(flat), base, len(data)} {
		header = binary.LittleEndian.AppendUint64(header, uint64(n))
	}
	header = append(header, make([]byte, length-len(header))...)
	binary.LittleEndian.PutUint32(flat, binary.LittleEndian.Uint32(flat)+length)
	file := append(append(append([]byte{}, flat[:8]...), header...), flat[8:]...)
	file = append(append(file, make([]byte, base-len(file))...), data...)
	require.NoError(t, os.WriteFile(path, file, 0o600))
}

// tensorsOf reads a safetensors file.
func tensorsOf(t testing.TB, path string) []safetensors.Tensor {
	t.Helper()
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f.Tensors()
}

// The kinds of files differ in nothing that counts: the same tensors are packed into equal entries, and found again.
func TestTensorsOfEveryKindOfFileArePackedAlike(t *testing.T) {
	dir := t.TempDir()
	tensors := tensorsOf(t, describedModel(t, dir))
	writeFlatTensor(t, filepath.Join(dir, "model.ptd"), tensors)
	description, err := os.ReadFile(filepath.Join(dir, "model.safetensors.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "operators.json"), description, 0o600))
	with := map[string][]string{
		"model.safetensors": {"model.safetensors"},
		"model.ptd":         {"model.ptd", "--description", "operators.json"},
	}
	plain, _ := runJSON(t, dir, with["model.safetensors"]...)
	for kind, model := range with {
		report := packJSON(t, dir, append(model, "-o", kind+".xpwc")...)
		require.EqualValues(t, 3, report.Levels[0].Packed, kind)
	}
	for kind, model := range with {
		code, out, stderr := xpwcIn(t, dir, "diff", "model.safetensors.xpwc", kind+".xpwc")
		require.Zero(t, code, out+stderr)
		for other := range with {
			ran, _ := runJSON(t, dir, append(model, "--cache", other+".xpwc")...)
			require.Equal(t, plain.Outputs, ran.Outputs, "%s from %s", kind, other)
			require.EqualValues(t, 3, ran.Cache.Hits, "%s from %s", kind, other)
			require.Zero(t, ran.Cache.Packed, "%s from %s", kind, other)
			require.Zero(t, ran.Cache.Private, "%s from %s", kind, other)
			verify := []string{"verify", other + ".xpwc", "--model", model[0]}
			code, out, stderr := xpwcIn(t, dir, append(verify, model[1:]...)...)
			require.Zero(t, code, out+stderr)
		}
	}
}

// What is missing is named, with what helps.
func TestTensorsThatCannotBePacked(t *testing.T) {
	dir := t.TempDir()
	tensors := tensorsOf(t, describedModel(t, dir))
	writeFlatTensor(t, filepath.Join(dir, "weights.ptd"), tensors)
	writeFlatTensor(t, filepath.Join(dir, "empty.ptd"), nil)
	bare := tensors[0]
	bare.Shape = nil
	writeFlatTensor(t, filepath.Join(dir, "bare.ptd"), []safetensors.Tensor{bare})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "d.json"),
		[]byte(`[{"op": "fully_connected", "datatype": "f32", "weights": "embed"}]`), 0o600))
	for _, c := range []struct {
		code int
		says []string
		args []string
	}{
		{exitFailed, []string{"weights.ptd", "--description", "weights.ptd.json", "--describe"},
			[]string{"pack", "weights.ptd", "-o", "c"}},
		{exitFailed, []string{"weights.ptd", "weights.ptd.json"}, []string{"run", "weights.ptd"}},
		{exitFailed, []string{`there is no tensor "embed"`},
			[]string{"pack", "empty.ptd", "--description", "d.json", "-o", "c"}},
		{exitFailed, []string{`"embed" has no type and shape`},
			[]string{"pack", "bare.ptd", "--description", "d.json", "-o", "c"}},
		{exitFailed, []string{"absent.ptd", "no such file"},
			[]string{"pack", "absent.ptd", "--description", "d.json", "-o", "c"}},
		{exitFailed, []string{"absent.json", "no such file"},
			[]string{"run", "weights.ptd", "--description", "absent.json"}},
		{exitUsage, []string{"the same file"},
			[]string{"pack", "weights.ptd", "--description", "d.json", "-o", "weights.ptd"}},
		{exitUsage, []string{"--embed-beside", ".safetensors"},
			[]string{"pack", "weights.ptd", "--description", "d.json", "--embed-beside", "-o", "c"}},
		{exitUsage, []string{"--for", "programs"},
			[]string{"pack", "bare.ptd", "--description", "d.json", "--for", "executorch", "-o", "c"}},
		{exitUsage, []string{"wrong number of arguments"}, []string{"pack", "bare.ptd", "bare.ptd", "-o", "c"}},
		{exitFailed, []string{"not a packed weights cache", "xpwc pack"}, []string{"inspect", "bare.ptd"}},
		{exitFailed, []string{"not a packed weights cache", "xpwc pack"}, []string{"verify", "weights.ptd"}},
	} {
		code, out, stderr := xpwcIn(t, dir, c.args...)
		require.Equal(t, c.code, code, "%v: %s%s", c.args, out, stderr)
		for _, says := range c.says {
			require.Contains(t, strings.ReplaceAll(stderr, "\n", " "), says, "%v", c.args)
		}
		require.NoFileExists(t, filepath.Join(dir, "c"))
		requireNoStage(t, dir)
	}
}

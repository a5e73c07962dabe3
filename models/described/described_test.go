package described_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/half"
	"xpwc/internal/tests/modeltest"
	"xpwc/models/described"
	"xpwc/models/safetensors"
)

// tensors are made for a test: numbers from a seed.
type tensors struct {
	random *rand.Rand
	list   []safetensors.Tensor
}

func newTensors() *tensors { return &tensors{random: rand.New(rand.NewPCG(1, 2))} }

func (ts *tensors) add(name string, dtype safetensors.Dtype, shape ...int) {
	n := 1
	for _, d := range shape {
		n *= d
	}
	var data []byte
	for range n {
		v := ts.random.Float32()*2 - 1
		if strings.Contains(name, "scale") {
			v = (v + 1.5) / 64
		}
		switch dtype {
		case safetensors.F32:
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		case safetensors.BF16:
			data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits(v)>>16))
		case safetensors.F16:
			data = binary.LittleEndian.AppendUint16(data, half.Bits(float64(v)))
		case safetensors.I32:
			data = binary.LittleEndian.AppendUint32(data, uint32(int32(v*100)))
		default:
			data = append(data, byte(ts.random.Uint32()))
		}
	}
	ts.list = append(ts.list, safetensors.Tensor{Name: name, Dtype: dtype, Shape: shape, Data: data})
}

func (ts *tensors) write(t testing.TB, path string) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, safetensors.Write(&b, ts.list, nil))
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
}

// everyUse has each operator in each datatype.
func everyUse() (*tensors, string) {
	ts := newTensors()
	var entries []string
	use := func(op, datatype, fields string, dtype, bias, scale safetensors.Dtype, scales int, out int, shape ...int) {
		name := fmt.Sprintf("%s.%s.%d", op, datatype, len(entries))
		ts.add(name, dtype, shape...)
		e := fmt.Sprintf(`{"op": %q, "datatype": %q, "weights": %q`, op, datatype, name)
		if scales > 0 {
			ts.add(name+".scales", scale, scales)
			e += fmt.Sprintf(`, "scales": %q`, name+".scales")
		}
		if bias != "" {
			ts.add(name+".bias", bias, out)
			e += fmt.Sprintf(`, "bias": %q`, name+".bias")
		}
		if strings.HasPrefix(datatype, "qs8") {
			e += `, "input": {"scale": 0.0078125, "zero_point": 3}, "output": {"scale": 0.25, "zero_point": -2}`
		}
		entries = append(entries, e+fields+"}")
	}
	const f32, f16, bf16, noBias = safetensors.F32, safetensors.F16, safetensors.BF16, ""
	const i8, u8, i32 = safetensors.I8, safetensors.U8, safetensors.I32
	fc, conv, dw, deconv := "fully_connected", "convolution_2d", "depthwise_convolution_2d", "deconvolution_2d"
	use(fc, "f32", "", f32, f32, "", 0, 43, 43, 37)
	use(fc, "f32", `, "transposed": true`, f32, f32, "", 0, 43, 37, 43)
	use(fc, "f32", `, "activation": [0, null]`, f32, noBias, "", 0, 43, 43, 37)
	use(fc, "f16", "", f16, f16, "", 0, 18, 18, 24)
	use(fc, "f32_qc8w", "", i8, noBias, f32, 43, 43, 43, 37)
	use(fc, "f32_qc4w", `, "zero_point": 8`, u8, noBias, f32, 43, 43, 43, 19)
	use(fc, "qd8_f32_qc8w", "", i8, f32, f32, 43, 43, 43, 37)
	use(fc, "qd8_f32_qc8w", `, "transposed": true`, i8, noBias, f32, 43, 43, 37, 43)
	use(fc, "qd8_f32_qc4w", `, "zero_point": 8`, u8, f32, f32, 43, 43, 43, 20)
	use(fc, "qd8_f32_qc4w", `, "zero_point": 0`, u8, noBias, f32, 43, 43, 43, 20)
	use(fc, "qd8_f32_qc4w", `, "zero_point": 8, "transposed": true`, u8, noBias, f32, 44, 44, 40, 22)
	use(fc, "qd8_f32_qb4w", `, "zero_point": 8, "block_size": 32`, u8, f32, bf16, 18*4, 18, 18, 64)
	use(fc, "qs8_qc8w", "", i8, i32, f32, 43, 43, 43, 37)
	use(conv, "f32", "", f32, f32, "", 0, 18, 18, 3, 3, 11)
	use(conv, "qd8_f32_qc8w", "", i8, f32, f32, 10, 10, 10, 3, 2, 6)
	use(conv, "qs8_qc8w", "", i8, i32, f32, 10, 10, 10, 2, 3, 6)
	use(dw, "f32", "", f32, f32, "", 0, 21, 1, 3, 3, 21)
	use(dw, "qs8_qc8w", "", i8, i32, f32, 21, 21, 1, 3, 3, 21)
	use(deconv, "f32", "", f32, f32, "", 0, 18, 18, 3, 3, 7)
	use(deconv, "qd8_f32_qc8w", "", i8, f32, f32, 9, 9, 9, 2, 2, 7)
	use(deconv, "qs8_qc8w", "", i8, i32, f32, 9, 9, 9, 3, 3, 7)
	return ts, "[\n" + strings.Join(entries, ",\n") + "\n]"
}

// settings has what else convolutions can be given.
func settings() (*tensors, string) {
	ts := newTensors()
	ts.add("conv", safetensors.F32, 12, 3, 3, 4)
	ts.add("one", safetensors.F32, 12, 3, 3, 1)
	ts.add("depthwise", safetensors.F32, 1, 5, 5, 8)
	ts.add("deconv", safetensors.F32, 6, 2, 3, 4)
	return ts, `[
		{"op": "convolution_2d", "datatype": "f32", "weights": "conv", "stride": [2, 1], "dilation": [1, 3],
			"padding": [1, 2, 3, 4]},
		{"op": "convolution_2d", "datatype": "f32", "weights": "conv", "groups": 3, "same_padding": true,
			"activation": [0, 6]},
		{"op": "convolution_2d", "datatype": "f32", "weights": "one", "groups": 12},
		{"op": "depthwise_convolution_2d", "datatype": "f32", "weights": "depthwise", "depth_multiplier": 2,
			"stride": [2, 2]},
		{"op": "deconvolution_2d", "datatype": "f32", "weights": "deconv", "groups": 2, "stride": [2, 3],
			"padding": [1, 1, 1, 1], "adjustment": [1, 2]}
	]`
}

func open(t testing.TB, ts *tensors, description string) *described.Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.safetensors")
	ts.write(t, path)
	require.NoError(t, os.WriteFile(path+".json", []byte(description), 0o600))
	m, err := described.Open(path, path+".json")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// content is the x that inputs are filled with.
func content(i int) float32 { return float32(i*37%101)/101 - 0.5 }

// inputs are the model's, filled with content.
func inputs(t testing.TB, m *described.Model) [][]float32 {
	t.Helper()
	var outputs [][]float32
	for _, v := range m.Inputs() {
		n, err := v.ByteSize()
		require.NoError(t, err)
		x := make([]float32, n/4)
		for i := range x {
			x[i] = content(i)
		}
		outputs = append(outputs, x)
	}
	return outputs
}

func plain(t testing.TB, m *described.Model) [][]float32 {
	t.Helper()
	return modeltest.Run(t, m, inputs(t, m)...)
}

func cached(t testing.TB, m *described.Model, cache *xpwc.Cache, data xpwc.DataMap) [][]float32 {
	t.Helper()
	return modeltest.RunCached(t, m, cache, data, inputs(t, m)...)
}

func TestWhatWasPackedIsLookedUp(t *testing.T) {
	for name, build := range map[string]func() (*tensors, string){"every use": everyUse, "settings": settings} {
		t.Run(name, func(t *testing.T) {
			ts, description := build()
			m := open(t, ts, description)
			want := plain(t, m)
			cache, err := xpwc.Open(modeltest.CheckPacked(t, m), nil)
			require.NoError(t, err)
			require.Equal(t, want, cached(t, m, cache, m.DataMap()))
			require.NoError(t, cache.Close())
			warm := cache.Stats()
			require.Zero(t, warm.Packed)
			require.Zero(t, warm.WrittenBytes)
			require.Empty(t, warm.Private)
		})
	}
}

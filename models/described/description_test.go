package described_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models"
	"xpwc/models/described"
	"xpwc/models/safetensors"
	"xpwc/xnnpack"
)

// wrong has descriptions that do not fit the tensors of sample, with the error's text.
var wrong = []struct{ description, says string }{
	{``, "unexpected EOF"},
	{`{}`, "JSON array"},
	{`[]`, "no operators"},
	{`[{"op": "fully_connected"`, "operator 0"},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "w"}] []`, "after top-level value"},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "w"}, {"weights": "w", "op": 3}]`,
		`operator 1: invalid description: line 1, column 87`},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "w", "wieghts": "w"}]`, "wieghts"},
	{`[{"Op": "fully_connected", "datatype": "f32", "weights": "w"}]`, "Op"},
	{`[{"op": "fully_connected", "op": "fully_connected", "datatype": "f32", "weights": "w"}]`, "op"},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "w", "zero_point": 1.5}]`, "zero_point"},
	{`[{"op": "batch_matrix_multiply", "datatype": "f32", "weights": "w"}]`, "deconvolution_2d"},
	{`[{"op": "fully_connected, convolution_2d", "datatype": "f32", "weights": "w"}]`, "unknown op"},
	{`[{"datatype": "f32", "weights": "w"}]`, "unknown op"},
	{`[{"op": "fully_connected", "weights": "w"}]`, `"datatype" is missing`},
	{`[{"op": "fully_connected", "datatype": "f64", "weights": "w"}]`, "qd8_f32_qb4w"},
	{`[{"op": "convolution_2d", "datatype": "f16", "weights": "c"}]`, "fully_connected"},
	{`[{"op": "fully_connected", "datatype": "f32"}]`, `"weights" is missing`},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "none"}]`, `no tensor "none"`},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "w8"}]`, "I8, not F32"},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "c"}]`, "2 dimensions"},
	{`[{"op": "convolution_2d", "datatype": "f32", "weights": "w"}]`, "4 dimensions"},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "empty"}]`, "empty"},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "w", "bias": "w"}]`, "for 4 output channels"},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "w", "bias": "b6"}]`, "for 4 output channels"},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "w", "bias": "none"}]`, "none"},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "w", "scales": "b4"}]`, `"scales" does not apply`},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "w", "stride": [1, 1]}]`, `"stride" does not apply`},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "w", "same_padding": true}]`,
		`"same_padding" does not apply`},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "w", "input": {"scale": 1, "zero_point": 0}}]`,
		`"input" does not apply`},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "w", "activation": [1]}]`, "activation"},
	{`[{"op": "fully_connected", "datatype": "f32", "weights": "w", "activation": [1, 1]}]`, "activation"},
	{`[{"op": "fully_connected", "datatype": "f32_qc8w", "weights": "w8"}]`, `"scales" is missing`},
	{`[{"op": "fully_connected", "datatype": "f32_qc8w", "weights": "w8", "scales": "b4"}]`, "channel 0"},
	{`[{"op": "fully_connected", "datatype": "f32_qc8w", "weights": "w8", "scales": "b6"}]`, "one for each channel: 4"},
	{`[{"op": "fully_connected", "datatype": "f32_qc4w", "weights": "w4", "scales": "s4"}]`, `"zero_point" is missing`},
	{`[{"op": "fully_connected", "datatype": "f32_qc4w", "weights": "w4", "scales": "s4", "zero_point": 7}]`,
		"zero_point 7"},
	{`[{"op": "fully_connected", "datatype": "f32_qc4w", "weights": "w4", "scales": "s4", "zero_point": 8,
		"transposed": true}]`, "transposed"},
	{`[{"op": "fully_connected", "datatype": "qd8_f32_qb4w", "weights": "w4", "scales": "s4", "zero_point": 8}]`,
		"block_size"},
	{`[{"op": "fully_connected", "datatype": "qd8_f32_qb4w", "weights": "w4", "scales": "s4", "zero_point": 8,
		"block_size": 32}]`, "BF16"},
	{`[{"op": "fully_connected", "datatype": "qd8_f32_qb4w", "weights": "w4", "scales": "sb", "zero_point": 8,
		"block_size": 24}]`, "block_size 24"},
	{`[{"op": "fully_connected", "datatype": "qd8_f32_qb4w", "weights": "w4", "scales": "sb", "zero_point": 8,
		"block_size": 64}]`, "one for each block: 4"},
	{`[{"op": "fully_connected", "datatype": "qs8_qc8w", "weights": "w8", "scales": "s4",
		"input": {"scale": 1, "zero_point": 0}}]`, `"output" is missing`},
	{`[{"op": "fully_connected", "datatype": "qs8_qc8w", "weights": "w8", "scales": "s4",
		"input": {"scale": 1, "zero_point": 200}, "output": {"scale": 1, "zero_point": 0}}]`, "input"},
	{`[{"op": "fully_connected", "datatype": "qs8_qc8w", "weights": "w8", "scales": "s4",
		"input": {"scale": 1, "zero_point": 0}, "output": {"scale": 0, "zero_point": 0}}]`, "output"},
	{`[{"op": "convolution_2d", "datatype": "f32", "weights": "c", "stride": [1]}]`, "stride"},
	{`[{"op": "convolution_2d", "datatype": "f32", "weights": "c", "stride": [0, 1]}]`, "stride"},
	{`[{"op": "convolution_2d", "datatype": "f32", "weights": "c", "dilation": [1, 100000]}]`, "dilation"},
	{`[{"op": "convolution_2d", "datatype": "f32", "weights": "c", "padding": [1, 1]}]`, "padding"},
	{`[{"op": "convolution_2d", "datatype": "f32", "weights": "c", "padding": [0, 0, 0, 0], "same_padding": true}]`,
		`"padding" does not apply`},
	{`[{"op": "convolution_2d", "datatype": "f32", "weights": "c", "groups": 4}]`, "4 groups"},
	{`[{"op": "convolution_2d", "datatype": "f32", "weights": "c", "groups": -1}]`, "positive"},
	{`[{"op": "convolution_2d", "datatype": "f32", "weights": "c", "depth_multiplier": 2}]`,
		`"depth_multiplier" does not apply`},
	{`[{"op": "convolution_2d", "datatype": "f32", "weights": "c", "transposed": true}]`,
		`"transposed" does not apply`},
	{`[{"op": "convolution_2d", "datatype": "f32", "weights": "c", "adjustment": [0, 0]}]`,
		`"adjustment" does not apply`},
	{`[{"op": "convolution_2d", "datatype": "f32", "weights": "big", "dilation": [1024, 1024]}]`, "elements"},
	{`[{"op": "depthwise_convolution_2d", "datatype": "f32", "weights": "c"}]`, "1 to 1 channels"},
	{`[{"op": "depthwise_convolution_2d", "datatype": "f32", "weights": "d", "depth_multiplier": 3}]`,
		"1 to 3 channels"},
	{`[{"op": "depthwise_convolution_2d", "datatype": "f32", "weights": "d", "groups": 4}]`, `"groups" does not apply`},
	{`[{"op": "deconvolution_2d", "datatype": "f32", "weights": "c", "same_padding": true}]`,
		`"same_padding" does not apply`},
	{`[{"op": "deconvolution_2d", "datatype": "f32", "weights": "c", "adjustment": [1, 0]}]`, "adjustment"},
}

// sample is the tensors that descriptions in the tests are about.
func sample() *tensors {
	ts := newTensors()
	ts.add("w", safetensors.F32, 4, 6)
	ts.add("w8", safetensors.I8, 4, 6)
	ts.add("w4", safetensors.U8, 4, 32)
	ts.add("wh", safetensors.F16, 4, 6)
	ts.add("b4", safetensors.F32, 4)
	ts.list[len(ts.list)-1].Data[3] |= 0x80 // negative
	ts.add("b6", safetensors.F32, 6)
	ts.add("i4", safetensors.I32, 4)
	ts.add("bh", safetensors.F16, 4)
	ts.add("s4", safetensors.F32, 4)
	for i := range 4 {
		copy(ts.list[len(ts.list)-1].Data[4*i:], []byte{0, 0, 0, 0x3c})
	}
	ts.add("sb.scales", safetensors.BF16, 8)
	ts.list[len(ts.list)-1].Name = "sb"
	ts.add("c", safetensors.F32, 6, 2, 3, 4)
	ts.add("d", safetensors.F32, 1, 3, 3, 8)
	ts.add("big", safetensors.F32, 1, 20, 20, 16)
	ts.add("empty", safetensors.F32, 0, 6)
	return ts
}

func TestAWrongDescriptionIsRefusedWithWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.safetensors")
	sample().write(t, path)
	for _, c := range wrong {
		description := filepath.Join(dir, "d.json")
		require.NoError(t, os.WriteFile(description, []byte(c.description), 0o600))
		_, err := described.Open(path, description)
		require.ErrorIs(t, err, described.ErrInvalid, c.description)
		require.ErrorContains(t, err, c.says, c.description)
		require.ErrorContains(t, err, "d.json")
	}
	_, err := described.Open(path, filepath.Join(dir, "none.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ok.json"),
		[]byte(`[{"op": "fully_connected", "datatype": "f32", "weights": "w"}]`), 0o600))
	_, err = described.Open(filepath.Join(dir, "ok.json"), filepath.Join(dir, "ok.json"))
	require.ErrorIs(t, err, safetensors.ErrMalformed)
}

// FuzzDescription: for any description XNNPACK is given nothing that ends the process.
func FuzzDescription(f *testing.F) {
	for _, c := range wrong {
		f.Add([]byte(c.description))
	}
	for _, d := range []string{
		`[{"op": "fully_connected", "datatype": "qd8_f32_qb4w", "weights": "w4", "scales": "sb", "zero_point": 8,
			"block_size": 32, "bias": "b4"}]`,
		`[{"op": "fully_connected", "datatype": "qs8_qc8w", "weights": "w8", "scales": "s4", "bias": "i4",
			"input": {"scale": 1, "zero_point": 0}, "output": {"scale": 1, "zero_point": 0}}]`,
		`[{"op": "fully_connected", "datatype": "f16", "weights": "wh", "bias": "bh", "transposed": false}]`,
		`[{"op": "convolution_2d", "datatype": "f32", "weights": "c", "stride": [2, 1], "dilation": [1, 3],
			"padding": [1, 2, 3, 4], "groups": 2}]`,
		`[{"op": "depthwise_convolution_2d", "datatype": "f32", "weights": "d", "depth_multiplier": 2,
			"same_padding": true, "activation": [null, 6]}]`,
		`[{"op": "deconvolution_2d", "datatype": "f32", "weights": "c", "stride": [2, 3], "padding": [1, 1, 1, 1],
			"adjustment": [1, 2]}]`,
	} {
		f.Add([]byte(d))
	}
	path := filepath.Join(f.TempDir(), "m.safetensors")
	sample().write(f, path)
	file, err := safetensors.Open(path)
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, file.Close()) })
	f.Fuzz(func(t *testing.T, description []byte) {
		operators, err := described.Parse(description)
		if err != nil {
			require.ErrorIs(t, err, described.ErrInvalid)
			return
		}
		m, err := described.New(file, operators)
		if err != nil {
			require.ErrorIs(t, err, described.ErrInvalid)
			return
		}
		l := models.NewMemory(m.DataMap())
		g, err := m.Subgraph(l)
		if err != nil {
			var status xnnpack.Status
			require.True(t, errors.As(err, &status), "%v", err)
			return
		}
		if r, err := xnnpack.NewRuntime(g, nil); err == nil {
			require.NoError(t, r.Delete())
		}
		require.NoError(t, g.Delete())
		require.NoError(t, l.Close())
	})
}

func TestAMistakeInADescriptionIsNamedInItsWords(t *testing.T) {
	for text, says := range map[string]string{
		`[{"op": "fully_connected", "wights": "w"}]`:                       `there is no member "wights"`,
		`[{"op": "fully_connected", "weights": 5}]`:                        `"weights" cannot be`,
		"[\n  {\"op\": \"convolution_2d\",\n   \"input\": {\"scal\": 1}}]": `line 3, column 14: `,
		`[{"op": "fully_connected", "weights": "w", ]`:                     "line 1, column 4",
	} {
		_, err := described.Parse([]byte(text))
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "/0")
		require.NotContains(t, err.Error(), "object member")
	}
}

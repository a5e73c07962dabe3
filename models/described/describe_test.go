package described_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
	"xpwc/models/described"
	"xpwc/models/safetensors"
)

// stored is a tensor as a checkpoint has it, and what is guessed of it: an operator without what is assumed, or the
// beginning of the reason.
type stored struct {
	name  string
	dtype safetensors.Dtype
	shape []int
	guess string
}

const part = "(a part of another)"

// checkpoints have the names and shapes of real models, small.
var checkpoints = map[string][]stored{
	"Llama as Hugging Face has it": {
		{"model.embed_tokens.weight", safetensors.F16, []int{64, 32},
			"none: an embedding: rows are looked up, not multiplied"},
		{"model.layers.0.self_attn.q_proj.weight", safetensors.F16, []int{32, 32}, "fully_connected f16"},
		{"model.layers.0.mlp.down_proj.weight", safetensors.F32, []int{32, 64}, "fully_connected f32"},
		{"model.layers.0.input_layernorm.weight", safetensors.F16, []int{32}, "none: of a norm"},
		{"model.layers.0.self_attn.k_proj.weight", safetensors.BF16, []int{8, 32},
			"none: of BF16, which no datatype takes"},
		{"model.layers.0.self_attn.rotary_emb.inv_freq", safetensors.F32, []int{16}, "none: no matrix"},
		{"lm_head.weight", safetensors.F32, []int{64, 32}, "fully_connected f32"},
	},
	"Qwen, whose projections have biases, and tied embeddings": {
		{"model.embed_tokens.weight", safetensors.F32, []int{64, 32},
			"none: an embedding: rows are looked up, not multiplied; if the output is computed with it too"},
		{"model.layers.0.self_attn.q_proj.bias", safetensors.F32, []int{48}, part},
		{"model.layers.0.self_attn.q_proj.weight", safetensors.F32, []int{48, 32},
			"fully_connected f32 bias=model.layers.0.self_attn.q_proj.bias"},
	},
	"GPT-2, whose matrices are [in, out]": {
		{"wte.weight", safetensors.F32, []int{64, 32}, "none: an embedding"},
		{"wpe.weight", safetensors.F32, []int{16, 32}, "none: an embedding"},
		{"h.0.ln_1.weight", safetensors.F32, []int{32}, "none: of a norm"},
		{"h.0.ln_1.bias", safetensors.F32, []int{32}, "none: of a norm"},
		{"h.0.attn.c_attn.weight", safetensors.F32, []int{32, 96},
			"fully_connected f32 bias=h.0.attn.c_attn.bias transposed"},
		{"h.0.attn.c_attn.bias", safetensors.F32, []int{96}, part},
		{"h.0.attn.c_proj.weight", safetensors.F32, []int{32, 32},
			"fully_connected f32 bias=h.0.attn.c_proj.bias transposed"},
		{"h.0.attn.c_proj.bias", safetensors.F32, []int{32}, part},
		{"lm_head.weight", safetensors.F32, []int{64, 32}, "fully_connected f32"},
	},
	"torchao": {
		{"layers.0.attention.wq.weight", safetensors.I8, []int{40, 32},
			"fully_connected qd8_f32_qc8w scales=layers.0.attention.wq.scales"},
		{"layers.0.attention.wq.scales", safetensors.F32, []int{40}, part},
		{"layers.0.attention.wk.weight", safetensors.I8, []int{40, 32},
			`none: not packed as it is: scales "layers.0.attention.wk.scales" is of BF16, not F32`},
		{"layers.0.attention.wk.scales", safetensors.BF16, []int{40}, part},
		{"tok_embeddings.weight", safetensors.I8, []int{40, 32}, "none: an embedding"},
		{"layers.0.attention.wv.weight", safetensors.I8, []int{40, 32}, "?: integers without scales"},
	},
	"compressed-tensors": {
		{"model.layers.0.mlp.up_proj.weight", safetensors.I8, []int{40, 32},
			"fully_connected qd8_f32_qc8w scales=model.layers.0.mlp.up_proj.weight_scale"},
		{"model.layers.0.mlp.up_proj.weight_scale", safetensors.F32, []int{40, 1}, part},
		{"model.layers.0.mlp.gate_proj.weight", safetensors.I8, []int{40, 32}, "none: quantised with zero points"},
		{"model.layers.0.mlp.gate_proj.weight_scale", safetensors.F32, []int{40, 1}, part},
		{"model.layers.0.mlp.gate_proj.weight_zero_point", safetensors.I8, []int{40, 1}, part},
		{"model.layers.0.mlp.down_proj.weight_packed", safetensors.I32, []int{40, 4}, "none: of I32"},
	},
	"optimum-quanto": {
		{"model.layers.0.self_attn.q_proj.weight._data", safetensors.I8, []int{40, 32},
			"fully_connected qd8_f32_qc8w scales=model.layers.0.self_attn.q_proj.weight._scale"},
		{"model.layers.0.self_attn.q_proj.weight._scale", safetensors.F32, []int{40, 1}, part},
		{"model.layers.0.self_attn.q_proj.input_scale", safetensors.F32, []int{}, "none: no matrix"},
	},
	"GPTQ and bitsandbytes": {
		{"model.layers.0.self_attn.q_proj.qweight", safetensors.I32, []int{4, 40}, "none: of I32"},
		{"model.layers.0.self_attn.q_proj.scales", safetensors.F16, []int{1, 40}, "?: its name does not say"},
		{"model.layers.0.self_attn.v_proj.weight", safetensors.I8, []int{40, 32},
			"?: integers without scales of a usual name"},
		{"model.layers.0.self_attn.v_proj.SCB", safetensors.F32, []int{40}, "none: no matrix"},
	},
	"4 bits": {
		{"layers.0.w1.weight", safetensors.U8, []int{40, 32},
			"fully_connected qd8_f32_qc4w scales=layers.0.w1.scales zero_point=8"},
		{"layers.0.w1.scales", safetensors.F32, []int{40}, part},
		{"layers.0.w2.weight", safetensors.U8, []int{40, 32},
			"fully_connected qd8_f32_qb4w scales=layers.0.w2.scales zero_point=8 block_size=32"},
		{"layers.0.w2.scales", safetensors.BF16, []int{40, 2}, part},
	},
	"a convolutional net": {
		{"conv1.weight", safetensors.F32, []int{64, 3, 7, 7},
			"?: weights of images: of [out, height, width, in], as XNNPACK takes them, op is convolution_2d, " +
				"depthwise_convolution_2d, deconvolution_2d; PyTorch stores [out, in, height, width]"},
		{"conv1.bias", safetensors.F32, []int{64}, part},
		{"bn1.weight", safetensors.F32, []int{64}, "none: of a norm"},
		{"bn1.running_mean", safetensors.F32, []int{64}, "none: of a norm"},
		{"bn1.num_batches_tracked", safetensors.I64, []int{}, "none: of a norm"},
		{"fc.weight", safetensors.F32, []int{10, 64}, "fully_connected f32 bias=fc.bias"},
		{"fc.bias", safetensors.F32, []int{10}, part},
	},
	"integers of 32 bits as biases": {
		{"fc.weight", safetensors.I8, []int{16, 8}, "fully_connected qs8_qc8w bias=fc.bias scales=fc.weight_scale"},
		{"fc.weight_scale", safetensors.F32, []int{16}, part},
		{"fc.bias", safetensors.I32, []int{16}, part},
	},
	"nothing that is packed": {
		{"cls", safetensors.F32, []int{8, 3}, "?: its name does not say"},
		{"pos_embed", safetensors.F32, []int{1, 8, 3}, "none: of 3 dimensions"},
		{"empty.weight", safetensors.F32, []int{0, 3}, "none: empty"},
	},
	"Flax": {
		{"params/dense/kernel", safetensors.F32, []int{32, 48},
			"fully_connected f32 bias=params/dense/bias transposed"},
		{"params/dense/bias", safetensors.F32, []int{48}, part},
		{"params/LayerNorm_0/scale", safetensors.F32, []int{48}, "none: of a norm"},
		{"params/embed/embedding", safetensors.F32, []int{48, 8}, "none: an embedding"},
	},
}

// text is what of an operator was guessed.
func text(o described.Operator) string {
	if o.Op == described.LeftOut || o.Op == described.Undecided {
		return o.Op + ": " + o.Note
	}
	s := o.Op + " " + o.Datatype
	for _, m := range []struct{ name, value string }{{"bias", o.Bias}, {"scales", o.Scales}} {
		if m.value != "" {
			s += fmt.Sprintf(" %s=%s", m.name, m.value)
		}
	}
	if o.ZeroPoint != nil {
		s += fmt.Sprint(" zero_point=", *o.ZeroPoint)
	}
	if o.BlockSize != 0 {
		s += fmt.Sprint(" block_size=", o.BlockSize)
	}
	if o.Transposed {
		s += " transposed"
	}
	return s
}

func openStored(t *testing.T, list []stored) described.Tensors {
	t.Helper()
	ts := newTensors()
	for _, s := range list {
		ts.add(s.name, s.dtype, s.shape...)
	}
	for i := range ts.list { // add knows the types that are packed
		n := ts.list[i].Dtype.Bits() / 8
		for _, d := range ts.list[i].Shape {
			n *= d
		}
		ts.list[i].Data = append(ts.list[i].Data, make([]byte, max(0, n-len(ts.list[i].Data)))...)[:n]
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	ts.write(t, path)
	tensors, err := described.OpenTensors(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tensors.Close()) })
	return tensors
}

// Every tensor is guessed or has a reason; what is guessed is packed, and what is not complete is an error that says
// what to give.
func TestADescriptionIsGuessedFromNamesTypesAndShapes(t *testing.T) {
	for name, list := range checkpoints {
		t.Run(name, func(t *testing.T) {
			tensors := openStored(t, list)
			written, err := described.Format(described.Describe(tensors))
			require.NoError(t, err)
			operators, err := described.Parse(written)
			require.NoError(t, err)
			byName := map[string]described.Operator{}
			for _, o := range operators {
				byName[o.Weights] = o
			}
			require.Len(t, byName, len(operators))
			var complete []described.Operator
			for _, s := range list {
				o, ok := byName[s.name]
				require.Equal(t, s.guess != part, ok, s.name)
				if !ok {
					continue
				}
				require.True(t, strings.HasPrefix(text(o), s.guess), "%s: %s", s.name, text(o))
				if o.Op == described.LeftOut {
					continue
				}
				_, err := described.New(tensors, []described.Operator{o})
				switch {
				case o.Op == described.Undecided:
					require.ErrorIs(t, err, described.ErrInvalid)
					require.ErrorContains(t, err, `"op" is to be decided`)
					require.ErrorContains(t, err, o.Note)
				case o.Datatype == "qs8_qc8w":
					require.ErrorContains(t, err, `"input" is missing`)
				default:
					require.NoError(t, err)
					require.Contains(t, o.Assumed, "activation")
					complete = append(complete, o)
				}
			}
			if len(complete) == 0 {
				return
			}
			m, err := described.New(tensors, complete)
			require.NoError(t, err)
			modeltest.PackWhole(t, m, filepath.Join(t.TempDir(), "cache"))
		})
	}
}

func TestADescriptionThatLeavesAllOutHasNoOperators(t *testing.T) {
	tensors := openStored(t, checkpoints["nothing that is packed"])
	_, err := described.New(tensors, []described.Operator{{Op: described.LeftOut, Weights: "cls"}})
	require.ErrorContains(t, err, "no operators")
}

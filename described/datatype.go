package described

import (
	"xpwc/safetensors"
	"xpwc/xnnpack"
)

// datatype is a combination of types that XNNPACK has kernels for.
type datatype struct {
	input, weights, bias, output xnnpack.Datatype
	// What the file has: four-bit weights are two to a byte.
	stored, storedBias, scales safetensors.Dtype
	operators                  []string
	notTransposed              bool // XNNPACK cannot pack transposed weights
}

// The operators.
const (
	fullyConnected = "fully_connected"
	convolution    = "convolution_2d"
	depthwise      = "depthwise_convolution_2d"
	deconvolution  = "deconvolution_2d"
)

var operators = []string{fullyConnected, convolution, depthwise, deconvolution}

var datatypes = map[string]datatype{
	"f32": {
		input: xnnpack.Float32, weights: xnnpack.Float32, bias: xnnpack.Float32, output: xnnpack.Float32,
		stored: safetensors.F32, storedBias: safetensors.F32,
		operators: operators,
	},
	"f16": {
		input: xnnpack.Float16, weights: xnnpack.Float16, bias: xnnpack.Float16, output: xnnpack.Float16,
		stored: safetensors.F16, storedBias: safetensors.F16,
		operators: []string{fullyConnected},
	},
	"f32_qc8w": {
		input: xnnpack.Float32, weights: xnnpack.ChannelQInt8, bias: xnnpack.Float32, output: xnnpack.Float32,
		stored: safetensors.I8, storedBias: safetensors.F32, scales: safetensors.F32,
		operators: []string{fullyConnected},
	},
	"f32_qc4w": {
		input: xnnpack.Float32, weights: xnnpack.ChannelQInt4, bias: xnnpack.Float32, output: xnnpack.Float32,
		stored: safetensors.U8, storedBias: safetensors.F32, scales: safetensors.F32,
		operators: []string{fullyConnected}, notTransposed: true,
	},
	"qd8_f32_qc8w": {
		input: xnnpack.DynamicQInt8, weights: xnnpack.ChannelQInt8, bias: xnnpack.Float32, output: xnnpack.Float32,
		stored: safetensors.I8, storedBias: safetensors.F32, scales: safetensors.F32,
		operators: []string{fullyConnected, convolution, deconvolution},
	},
	"qd8_f32_qc4w": {
		input: xnnpack.DynamicQInt8, weights: xnnpack.ChannelQInt4, bias: xnnpack.Float32, output: xnnpack.Float32,
		stored: safetensors.U8, storedBias: safetensors.F32, scales: safetensors.F32,
		operators: []string{fullyConnected},
	},
	"qd8_f32_qb4w": {
		input: xnnpack.DynamicQInt8, weights: xnnpack.BlockQInt4, bias: xnnpack.Float32, output: xnnpack.Float32,
		stored: safetensors.U8, storedBias: safetensors.F32, scales: safetensors.BF16,
		operators: []string{fullyConnected}, notTransposed: true,
	},
	"qs8_qc8w": {
		input: xnnpack.QInt8, weights: xnnpack.ChannelQInt8, bias: xnnpack.ChannelQInt32, output: xnnpack.QInt8,
		stored: safetensors.I8, storedBias: safetensors.I32, scales: safetensors.F32,
		operators: operators,
	},
}

func (d *datatype) fourBit() bool { return d.weights.Size() == 4 }
func (d *datatype) dynamic() bool { return d.input == xnnpack.DynamicQInt8 }

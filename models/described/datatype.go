package described

import (
	"xpwc/models/safetensors"
	"xpwc/xnnpack"
)

// datatype is a combination of types that XNNPACK has kernels for.
type datatype struct {
	input, weights, bias, output xnnpack.Datatype
	operators                    []string
	notTransposed                bool // XNNPACK cannot pack transposed weights
}

// The operators.
const (
	fullyConnected = "fully_connected"
	convolution    = "convolution_2d"
	depthwise      = "depthwise_convolution_2d"
	deconvolution  = "deconvolution_2d"
)

var operators = []string{fullyConnected, convolution, depthwise, deconvolution}

var onMatrices = []string{fullyConnected}

var datatypes = map[string]datatype{
	"f32":      {xnnpack.Float32, xnnpack.Float32, xnnpack.Float32, xnnpack.Float32, operators, false},
	"f16":      {xnnpack.Float16, xnnpack.Float16, xnnpack.Float16, xnnpack.Float16, onMatrices, false},
	"f32_qc8w": {xnnpack.Float32, xnnpack.ChannelQInt8, xnnpack.Float32, xnnpack.Float32, onMatrices, false},
	"f32_qc4w": {xnnpack.Float32, xnnpack.ChannelQInt4, xnnpack.Float32, xnnpack.Float32, onMatrices, true},
	"qd8_f32_qc8w": {xnnpack.DynamicQInt8, xnnpack.ChannelQInt8, xnnpack.Float32, xnnpack.Float32,
		[]string{fullyConnected, convolution, deconvolution}, false},
	"qd8_f32_qc4w": {xnnpack.DynamicQInt8, xnnpack.ChannelQInt4, xnnpack.Float32, xnnpack.Float32, onMatrices, false},
	"qd8_f32_qb4w": {xnnpack.DynamicQInt8, xnnpack.BlockQInt4, xnnpack.Float32, xnnpack.Float32, onMatrices, true},
	"qs8_qc8w":     {xnnpack.QInt8, xnnpack.ChannelQInt8, xnnpack.ChannelQInt32, xnnpack.QInt8, operators, false},
}

// What a file has of weights and biases. Weights of 4 bits are two to a byte.
var stored = map[xnnpack.Datatype]safetensors.Dtype{
	xnnpack.Float32: safetensors.F32, xnnpack.Float16: safetensors.F16, xnnpack.ChannelQInt32: safetensors.I32,
	xnnpack.ChannelQInt8: safetensors.I8, xnnpack.ChannelQInt4: safetensors.U8, xnnpack.BlockQInt4: safetensors.U8,
}

// What a file has of the scales of weights; none of floats.
var storedScales = map[xnnpack.Datatype]safetensors.Dtype{
	xnnpack.ChannelQInt8: safetensors.F32, xnnpack.ChannelQInt4: safetensors.F32, xnnpack.BlockQInt4: safetensors.BF16,
}

func (d *datatype) fourBit() bool { return d.weights.Size() == 4 }

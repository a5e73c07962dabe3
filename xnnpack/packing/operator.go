package packing

import "fmt"

// An Operator is one that packs weights. The numbers are part of the digest and of the cache file.
type Operator uint8

// The operators, by the function of xnnpack.h that defines one.
const (
	FullyConnected         Operator = 1 // xnn_define_fully_connected
	Convolution2D          Operator = 2 // xnn_define_convolution_2d
	DepthwiseConvolution2D Operator = 3 // xnn_define_depthwise_convolution_2d
	Deconvolution2D        Operator = 4 // xnn_define_deconvolution_2d
	BatchMatrixMultiply    Operator = 5 // xnn_define_batch_matrix_multiply
)

var operators = [...]string{
	FullyConnected:         "fully-connected",
	Convolution2D:          "convolution",
	DepthwiseConvolution2D: "depthwise-convolution",
	Deconvolution2D:        "deconvolution",
	BatchMatrixMultiply:    "batch-matrix-multiply",
}

// String returns the operator's name, e.g. "fully-connected".
func (o Operator) String() string {
	if int(o) < len(operators) && operators[o] != "" {
		return operators[o]
	}
	return fmt.Sprintf("operator %d", uint8(o))
}

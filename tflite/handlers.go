package tflite

import (
	"math"

	"xpwc/xnnpack"
)

// handlers has, for each operator, what plans it: checks it, gives its outputs their shapes, and returns what adds it
// to a subgraph, or nil if it needs no node.
var handlers = map[opcode]func(*call) func(*emitter) error{
	opAbs:             planUnary(xnnpack.Unary{Op: xnnpack.Abs}),
	opAdd:             planBinary(xnnpack.Add, true, binaryActivation),
	opAveragePool2D:   planPool(true),
	opConcatenation:   planConcatenation,
	opConv2D:          planConv2D,
	opDensify:         planDensify,
	opDepthToSpace:    planDepthToSpace,
	opDepthwiseConv2D: planDepthwiseConv2D,
	opDequantize:      planDequantize,
	opDiv:             planBinary(xnnpack.Divide, false, binaryActivation),
	opFullyConnected:  planFullyConnected,
	opHardSwish:       planUnary(xnnpack.Unary{Op: xnnpack.HardSwish}),
	opLeakyReLU:       planLeakyReLU,
	opLogistic:        planUnary(xnnpack.Unary{Op: xnnpack.Sigmoid}),
	opMaxPool2D:       planPool(false),
	opMaximum:         planBinary(xnnpack.Maximum, false, absent),
	opMean:            planMean,
	opMinimum:         planBinary(xnnpack.Minimum, false, absent),
	opMul:             planBinary(xnnpack.Multiply, true, binaryActivation),
	opPReLU:           planPReLU,
	opPad:             planPad,
	opPadV2:           planPad,
	opQuantize:        planQuantize,
	opReLU:            planUnary(clamp(0, math.Inf(1))),
	opReLU6:           planUnary(clamp(0, 6)),
	opReLUN1To1:       planUnary(clamp(-1, 1)),
	opReshape:         planReshape,
	opResizeBilinear:  planResizeBilinear,
	opSoftmax:         planSoftmax,
	opSub:             planBinary(xnnpack.Subtract, true, binaryActivation),
	opTanh:            planUnary(xnnpack.Unary{Op: xnnpack.Tanh}),
	opTransposeConv:   planTransposeConv,
}

// customHandlers has the operators that models name themselves.
var customHandlers = map[string]func(*call) func(*emitter) error{
	"Convolution2DTransposeBias": planTransposeConvBias,
}

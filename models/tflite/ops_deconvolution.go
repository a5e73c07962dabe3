package tflite

import (
	"encoding/binary"

	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// Convolution2DTransposeBias, MediaPipe's operator (its source: transpose_conv_bias.cc): input [N, H, W, C], filter
// [outputs, height, width, C], bias [outputs]. The options are TfLiteTransposeConvParams: padding (1 is SAME, 2 is
// VALID), stride width and stride height, each an int32. The output follows from the input; that of SAME padding is
// the input's size times the stride only if the kernel is large enough.
func planTransposeConvBias(c *call) {
	const params = 3 * 4
	if c.op.bytes.Size < params {
		malformed("%d bytes of options, not %d", c.op.bytes.Size, params)
	}
	b := c.op.bytes.In(c.plan.file)
	padding := int32(binary.LittleEndian.Uint32(b))
	strideW, strideH := int(int32(binary.LittleEndian.Uint32(b[4:]))), int(int32(binary.LittleEndian.Uint32(b[8:])))
	if padding != 1 && padding != 2 {
		malformed("unknown padding %d", padding)
	}
	in, filter := c.rank4(0), c.packed(1, 4)
	taken := func(_, size, stride, along int) (off, _ int) {
		if stride <= 0 {
			malformed("a stride of %d", stride)
		}
		if padding == 1 {
			off = max(0, size-(along-1)%stride-1)
		}
		return off, 0
	}
	c.deconvolution(0, 1, 2, in, filter, xnnpack.Size{Height: strideH, Width: strideW}, taken, xnnpack.Range{})
}

// TRANSPOSE_CONV: the output's shape (a constant), filter [outputs, height, width, C], input [N, H, W, C], bias
// [outputs] or none.
func planTransposeConv(c *call) {
	shape, filter, in := c.integers(0), c.packed(1, 4), c.rank4(2)
	same, limits := c.samePadding(transposeConvPadding), c.activation(transposeConvActivation)
	o := c.op.options
	if len(shape) != 4 || shape[0] != in.shape[0] || shape[3] != filter.shape[0] || shape[1] <= 0 || shape[2] <= 0 {
		malformed("an output of shape %v for an input of %v and a filter of %v", shape, in.shape, filter.shape)
	}
	taken := func(dimension, size, stride, along int) (off, adjustment int) {
		out := shape[dimension]
		// The input must be what the convolution that this one transposes would make of the output.
		if slide(flow.Window{Size: size, Stride: stride, Dilation: 1}, out, same) != along {
			malformed("an output of %d for an input of %d with stride %d", out, along, stride)
		}
		full := stride*(along-1) + size
		off = max(0, full-out)
		return off, out - (full - off)
	}
	stride := xnnpack.Size{Height: int(o.Int32(transposeConvStrideH, 0)), Width: int(o.Int32(transposeConvStrideW, 0))}
	c.deconvolution(2, 1, 3, in, filter, stride, taken, limits)
}

// deconvolution plans a transposed convolution. Of a dimension of images taken says how many pixels are taken off the
// full output, and how many are added at its end.
func (c *call) deconvolution(input, weights, bias int, in, filter *value, stride xnnpack.Size,
	taken func(dimension, size, stride, along int) (off, adjustment int), limits xnnpack.Range) {
	v, bottom := taken(1, filter.shape[1], stride.Height, in.shape[1])
	h, right := taken(2, filter.shape[2], stride.Width, in.shape[2])
	w := c.weights(input, weights, bias, filter, filter.shape[0], 0)
	node := xnnpack.Deconvolution2D{
		Padding:    xnnpack.Padding{Top: v / 2, Bottom: v - v/2, Left: h / 2, Right: h - h/2},
		Adjustment: xnnpack.Size{Height: bottom, Width: right},
		Stride:     stride, Dilation: xnnpack.Size{Height: 1, Width: 1}, Groups: 1, Activation: limits,
		Output: c.out(0),
	}
	node.Input, node.Filter, node.Bias = c.operands(w, c.in(input))
	c.Add(flow.Deconvolution2D(node))
}

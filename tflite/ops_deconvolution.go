package tflite

import (
	"encoding/binary"

	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// stretch is how a transposed convolution places its kernel, along one dimension.
type stretch struct {
	out           int
	before, after int // taken off the ends of the full output
	adjustment    int // added to its end
}

// Convolution2DTransposeBias, MediaPipe's operator (its source: transpose_conv_bias.cc): input [N, H, W, C], filter
// [outputs, height, width, C], bias [outputs]. The options are TfLiteTransposeConvParams: padding (1 is SAME, 2 is
// VALID), stride width and stride height, each an int32. The output follows from the input; that of SAME padding is
// the input's size times the stride only if the kernel is large enough.
func planTransposeConvBias(c *call) {
	c.arity(3, 3)
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
	place := func(w window, in int) stretch {
		var off int
		if padding == 1 {
			off = max(0, w.size-(in-1)%w.stride-1)
		}
		full, err := checkedMul(w.stride, in-1)
		if err != nil || full > maxElements-w.size {
			malformed("a stride of %d on an input of %d", w.stride, in)
		}
		return stretch{out: full + w.size - off, before: off / 2, after: off - off/2}
	}
	y := c.window(filter.shape[1], strideH, 1)
	x := c.window(filter.shape[2], strideW, 1)
	c.deconvolution(0, 1, 2, in, filter, y, x, place(y, in.shape[1]), place(x, in.shape[2]), xnnpack.Range{})
}

// TRANSPOSE_CONV: the output's shape (a constant), filter [outputs, height, width, C], input [N, H, W, C], bias
// [outputs] or none.
func planTransposeConv(c *call) {
	c.arity(3, 4)
	shape := c.integers(0)
	filter, in := c.packed(1, 4), c.rank4(2)
	same, limits := c.samePadding(transposeConvPadding), c.activation(transposeConvActivation)
	o := c.op.options
	y := c.window(filter.shape[1], int(o.Int32(transposeConvStrideH, 0)), 1)
	x := c.window(filter.shape[2], int(o.Int32(transposeConvStrideW, 0)), 1)
	if len(shape) != 4 || shape[0] != in.shape[0] || shape[3] != filter.shape[0] || shape[1] <= 0 || shape[2] <= 0 {
		malformed("an output of shape %v for an input of %v and a filter of %v", shape, in.shape, filter.shape)
	}
	place := func(w window, in, out int) stretch {
		// The input must be what the convolution that this one transposes would make of the output.
		if c.slide(w, out, same) != in {
			malformed("an output of %d for an input of %d with stride %d", out, in, w.stride)
		}
		full := w.stride*(in-1) + w.size
		off := max(0, full-out)
		return stretch{out: out, before: off / 2, after: off - off/2, adjustment: out - (full - off)}
	}
	c.deconvolution(2, 1, 3, in, filter, y, x, place(y, in.shape[1], shape[1]),
		place(x, in.shape[2], shape[2]), limits)
}

func (c *call) deconvolution(input, weights, bias int, in, filter *value, y, x window, py, px stretch,
	limits xnnpack.Range) {
	if in.shape[3] != filter.shape[3] {
		malformed("%d input channels and a filter of shape %v", in.shape[3], filter.shape)
	}
	// XNNPACK has a record for each pixel of a stride, and a pointer for each pixel under the kernel at each position.
	c.pointers(y.stride, x.stride)
	c.pointers(in.shape[0], py.out, px.out, y.size, x.size)
	w := c.weights(input, weights, bias, filter, filter.shape[0], 0)
	c.define(0, in.shape[0], py.out, px.out, filter.shape[0])
	node := xnnpack.Deconvolution2D{
		Padding:    xnnpack.Padding{Top: py.before, Bottom: py.after, Left: px.before, Right: px.after},
		Adjustment: xnnpack.Size{Height: py.adjustment, Width: px.adjustment},
		Stride:     xnnpack.Size{Height: y.stride, Width: x.stride}, Dilation: xnnpack.Size{Height: 1, Width: 1},
		Groups: 1, Activation: limits,
	}
	node.Input, node.Filter, node.Bias = c.operands(w, c.in(input), c.like(c.op.inputs[input]))
	node.Output = c.out(0)
	c.add(flow.Deconvolution2D(node))
}

package tflite

import (
	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// windows is how a kernel or pool moves over images.
type windows struct {
	size, stride, dilation xnnpack.Size
	padding                xnnpack.Padding
	same                   bool // XNNPACK pads
	limits                 xnnpack.Range
}

// windows reads how a kernel or pool of a size moves over images of a shape, and what limits the results. SAME padding
// is XNNPACK's to distribute, but where windows leave out pixels at an end: XNNPACK of 2024 takes less than none for
// very much.
func (c *call) windows(slots convolutionSlots, height, width int, image []int) windows {
	o := c.op.options
	w := windows{
		size:     xnnpack.Size{Height: height, Width: width},
		stride:   xnnpack.Size{Height: int(o.Int32(slots.strideH, 0)), Width: int(o.Int32(slots.strideW, 0))},
		dilation: xnnpack.Size{Height: int(o.Int32(slots.dilationH, 1)), Width: int(o.Int32(slots.dilationW, 1))},
		same:     c.samePadding(slots.padding), limits: c.activation(slots.activation),
	}
	y, x := flow.Windows(w.size, w.stride, w.dilation)
	if v, h := missing(y, image[1]), missing(x, image[2]); w.same && (v < 0 || h < 0) {
		v, h = max(v, 0), max(h, 0)
		w.same, w.padding = false, xnnpack.Padding{Top: v / 2, Bottom: v - v/2, Left: h / 2, Right: h - h/2}
	}
	return w
}

// missing returns how many pixels windows with SAME padding are over beside those along an image, which are less than
// none if the windows leave out some.
func missing(w flow.Window, along int) int {
	places := slide(w, along, true)
	return int(int64(places-1)*int64(w.Stride) + w.Reach() - int64(along))
}

// slide returns how many positions a window has along an image.
func slide(w flow.Window, along int, same bool) (places int) {
	checked(func() { places = w.Slide(along, same) })
	return places
}

func (c *call) samePadding(slot int) bool {
	p := c.op.options.Byte(slot)
	if p != paddingSame && p != paddingValid {
		malformed("unknown padding %d", p)
	}
	return p == paddingSame
}

// CONV_2D: input [N, H, W, C], filter [outputs, height, width, C/groups], bias [outputs] or none.
func planConv2D(c *call) {
	in, filter := c.rank4(0), c.packed(1, 4)
	groups, dynamic := in.shape[3]/filter.shape[3], 0
	if groups == 1 {
		dynamic = 3
	}
	weights := c.weights(0, 1, 2, filter, filter.shape[0], dynamic)
	w := c.windows(conv2D, filter.shape[1], filter.shape[2], in.shape)
	node := xnnpack.Convolution2D{Stride: w.stride, Dilation: w.dilation, Groups: groups, Padding: w.padding,
		SamePadding: w.same, Activation: w.limits, Output: c.out(0)}
	node.Input, node.Filter, node.Bias = c.operands(weights, c.in(0))
	c.Add(flow.Convolution2D(node))
}

// DEPTHWISE_CONV_2D: input [N, H, W, C], filter [1, height, width, C*multiplier], bias [C*multiplier] or none.
func planDepthwiseConv2D(c *call) {
	in, filter := c.rank4(0), c.packed(1, 4)
	weights := c.weights(0, 1, 2, filter, filter.shape[3], 0)
	w := c.windows(depthwise2D, filter.shape[1], filter.shape[2], in.shape)
	node := xnnpack.DepthwiseConvolution2D{Stride: w.stride, Dilation: w.dilation,
		DepthMultiplier: filter.shape[3] / in.shape[3], Padding: w.padding, SamePadding: w.same, Activation: w.limits,
		Output: c.out(0)}
	node.Input, node.Filter, node.Bias = c.operands(weights, c.in(0))
	c.Add(flow.DepthwiseConvolution2D(node))
}

// FULLY_CONNECTED: input [..., C] of which all but C is one batch, filter [outputs, C], bias [outputs] or none. A
// filter that is computed is packed by no operator: it is multiplied with.
func planFullyConnected(c *call) {
	in, filter := c.data(0), c.resolve(1)
	computed := filter.state == dynamic
	if !computed {
		filter = c.packed(1, 2)
	} else if c.data(1); len(filter.shape) != 2 {
		malformed("input 1 has shape %v, not 2 dimensions", filter.shape)
	}
	outputs, channels := filter.shape[0], filter.shape[1]
	var w weights
	if !computed {
		w = c.weights(0, 1, 2, filter, outputs, 1)
	}
	o := c.op.options
	if f := o.Byte(fullyConnectedWeightsFormat); f != 0 {
		unsupported("weights in format %d", f)
	}
	limits := c.activation(fullyConnectedActivation)
	n, err := elements(in.shape)
	if err != nil || n%channels != 0 {
		malformed("an input of shape %v for %d input channels", in.shape, channels)
	}
	shape := []int{n / channels, outputs}
	flat := false
	if rank := len(in.shape); o.Bool(fullyConnectedKeepNumDims) {
		if rank == 0 || in.shape[rank-1] != channels {
			malformed("an input of shape %v for %d input channels", in.shape, channels)
		}
		shape = append(append([]int(nil), in.shape[:rank-1]...), outputs)
	} else {
		flat = rank != 2 || in.shape[1] != channels
	}
	c.define(0, shape...)
	if computed {
		c.multiplied(n/channels, in, filter, limits)
		return
	}
	matrix := c.in(0)
	if flat {
		matrix = flow.Reshaped(c, matrix, n/channels, channels)
	}
	matrix, kernel, bias := c.operands(w, matrix)
	c.Add(flow.FullyConnected(xnnpack.FullyConnected{
		Input: matrix, Filter: kernel, Bias: bias, Output: c.out(0), Activation: limits,
	}))
}

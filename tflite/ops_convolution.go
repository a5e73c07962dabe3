package tflite

import (
	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// window is how a kernel or pool moves over an image, along one dimension.
type window struct{ size, stride, dilation int }

// reach is how much of the input the window covers at once.
func (w window) reach() int { return (w.size-1)*w.dilation + 1 }

// window checks options that the file gives as any 32-bit numbers.
func (c *call) window(size, stride, dilation int) window {
	if size <= 0 || stride <= 0 || dilation <= 0 {
		malformed("a window of %d with stride %d and dilation %d", size, stride, dilation)
	}
	if _, err := checkedMul(size, dilation); err != nil || stride > maxElements {
		malformed("a window of %d with stride %d and dilation %d", size, stride, dilation)
	}
	return window{size, stride, dilation}
}

// slide returns how many positions the window has in an input of size in. With SAME padding the output is the input's
// size over the stride, rounded up, and what padding that takes is XNNPACK's to distribute: as TensorFlow, the odd
// one goes to the end.
func (c *call) slide(w window, in int, same bool) int {
	if same {
		return (in + w.stride - 1) / w.stride
	}
	if in < w.reach() {
		malformed("a window that reaches over %d of an input of %d", w.reach(), in)
	}
	return (in-w.reach())/w.stride + 1
}

// slides returns the output's height and width. XNNPACK keeps a pointer for each pixel under the window at each
// position, and computes the size of that without looking for an overflow.
func (c *call) slides(y, x window, image []int, same bool) (height, width int) {
	height, width = c.slide(y, image[1], same), c.slide(x, image[2], same)
	c.pointers(image[0], height, width, y.size, x.size)
	return height, width
}

func (c *call) pointers(factors ...int) {
	n := 1
	for _, f := range factors {
		var err error
		if n, err = checkedMul(n, f); err != nil {
			unsupported("windows over %v pixels: %v", factors, err)
		}
	}
}

// padding is what SAME padding adds where windows leave out pixels at an end: XNNPACK of 2024 takes less than none for
// very much. Elsewhere XNNPACK pads, if it is asked to.
func padding(y, x window, image []int, height, width int, same bool) (p xnnpack.Padding, byXNNPACK bool) {
	v, h := (height-1)*y.stride+y.reach()-image[1], (width-1)*x.stride+x.reach()-image[2]
	if !same || v >= 0 && h >= 0 {
		return p, same
	}
	v, h = max(v, 0), max(h, 0)
	return xnnpack.Padding{Top: v / 2, Bottom: v - v/2, Left: h / 2, Right: h - h/2}, false
}

func (c *call) samePadding(slot int) bool {
	p := c.op.options.Byte(slot)
	if p != paddingSame && p != paddingValid {
		malformed("unknown padding %d", p)
	}
	return p == paddingSame
}

// convolution is what the two kinds of convolution have in common.
type convolution struct {
	weights          weights
	stride, dilation xnnpack.Size
	padding          xnnpack.Padding
	same             bool // XNNPACK pads
	height, width    int  // of the output
	limits           xnnpack.Range
}

// convolution plans a convolution of input 0 with the filter, input 1, and perhaps a bias, input 2.
func (c *call) convolution(slots convolutionSlots, in, filter *value, outputs, dynamic int) (k convolution) {
	k.weights = c.weights(0, 1, 2, filter, outputs, dynamic)
	o := c.op.options
	y := c.window(filter.shape[1], int(o.Int32(slots.strideH, 0)), int(o.Int32(slots.dilationH, 1)))
	x := c.window(filter.shape[2], int(o.Int32(slots.strideW, 0)), int(o.Int32(slots.dilationW, 1)))
	k.stride = xnnpack.Size{Height: y.stride, Width: x.stride}
	k.dilation = xnnpack.Size{Height: y.dilation, Width: x.dilation}
	same := c.samePadding(slots.padding)
	k.limits = c.activation(slots.activation)
	k.height, k.width = c.slides(y, x, in.shape, same)
	k.padding, k.same = padding(y, x, in.shape, k.height, k.width, same)
	return k
}

// CONV_2D: input [N, H, W, C], filter [outputs, height, width, C/groups], bias [outputs] or none.
func planConv2D(c *call) {
	c.arity(2, 3)
	in := c.rank4(0)
	filter := c.packed(1, 4)
	channels, outputs, perGroup := in.shape[3], filter.shape[0], filter.shape[3]
	if channels%perGroup != 0 || outputs%(channels/perGroup) != 0 {
		malformed("%d input channels and a filter of shape %v", channels, filter.shape)
	}
	groups := channels / perGroup
	dynamic := 0
	if groups == 1 {
		dynamic = 3
	}
	k := c.convolution(conv2D, in, filter, outputs, dynamic)
	node := xnnpack.Convolution2D{Stride: k.stride, Dilation: k.dilation, Groups: groups, Padding: k.padding,
		SamePadding: k.same, Activation: k.limits}
	c.define(0, in.shape[0], k.height, k.width, outputs)
	node.Input, node.Filter, node.Bias = c.operands(k.weights, c.in(0), c.like(c.op.inputs[0]))
	node.Output = c.out(0)
	c.add(flow.Convolution2D(node))
}

// DEPTHWISE_CONV_2D: input [N, H, W, C], filter [1, height, width, C*multiplier], bias [C*multiplier] or none.
func planDepthwiseConv2D(c *call) {
	c.arity(2, 3)
	in := c.rank4(0)
	filter := c.packed(1, 4)
	channels, outputs := in.shape[3], filter.shape[3]
	if filter.shape[0] != 1 || outputs%channels != 0 {
		malformed("%d input channels and a filter of shape %v", channels, filter.shape)
	}
	k := c.convolution(depthwise2D, in, filter, outputs, 0)
	node := xnnpack.DepthwiseConvolution2D{
		Stride: k.stride, Dilation: k.dilation, DepthMultiplier: outputs / channels, Padding: k.padding,
		SamePadding: k.same, Activation: k.limits,
	}
	c.define(0, in.shape[0], k.height, k.width, outputs)
	node.Input, node.Filter, node.Bias = c.operands(k.weights, c.in(0), c.like(c.op.inputs[0]))
	node.Output = c.out(0)
	c.add(flow.DepthwiseConvolution2D(node))
}

// FULLY_CONNECTED: input [..., C] of which all but C is one batch, filter [outputs, C], bias [outputs] or none. A
// filter that is computed is packed by no operator: it is multiplied with.
func planFullyConnected(c *call) {
	c.arity(2, 3)
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
	matrix, like := c.in(0), c.like(c.op.inputs[0])
	if flat {
		matrix = c.reshaped(matrix, c.op.inputs[0], n/channels, channels)
		like.Shape = []int{n / channels, channels}
	}
	matrix, kernel, bias := c.operands(w, matrix, like)
	c.add(flow.FullyConnected(xnnpack.FullyConnected{
		Input: matrix, Filter: kernel, Bias: bias, Output: c.out(0), Activation: limits,
	}))
}

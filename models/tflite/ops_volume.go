package tflite

import (
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/models"
	"xpwc/xnnpack"
)

// CONV_3D: input [N, D, H, W, C], filter [depth, height, width, C, outputs], bias [outputs] or none. XNNPACK has
// convolutions of images. So each position in depth is an image, whose channels are those of all images that the kernel
// reaches from there.
func planConv3D(c *call) {
	in, filter := c.data(0), c.packed(1, 5)
	if len(in.shape) != 5 {
		malformed("input 0 has shape %v, not [batch, depth, height, width, channels]", in.shape)
	}
	kernel, channels := filter.shape, in.shape[4]
	if kernel[3] != channels || kernel[0] > mostJoined {
		unsupported("%d channels and a filter of shape %v", channels, kernel)
	}
	if in.dtype != typeFloat32 || filter.dtype != typeFloat32 {
		unsupported("values of type %v, and a filter of %v", in.dtype, filter.dtype)
	}
	stride, dilation := c.op.options.Int32(conv3DStrideD, 0), c.op.options.Int32(conv3DDilationD, 1)
	w := flow.Window{Size: kernel[0], Stride: int(stride), Dilation: int(dilation)}
	same := c.samePadding(conv3D.padding)
	depth, before := slide(w, in.shape[1], same), 0
	if same {
		before = max(0, missing(w, in.shape[1])) / 2
	}
	// A part for each place in the kernel is cut out of this, of stride images for each position.
	cut := slices.Clone(in.shape)
	cut[1] = depth * w.Stride
	after := max(0, int(w.Reach())-1+cut[1]-before-in.shape[1])
	image := []int{in.shape[0] * depth, in.shape[2], in.shape[3], channels}
	flat := c.plan.derive(filter.constant.derived(filter.constant.name+", of images", func(k *constant) {
		k.fileShape, k.order = kernel, []int{4, 1, 2, 0, 3}
		k.shape = []int{kernel[4], kernel[1], kernel[2], kernel[0] * channels}
	}))
	images := &value{state: static, shape: flat.shape, dtype: flat.dtype, constant: flat}
	weights := c.weights(0, 1, 2, images, kernel[4], 0)
	k := c.windows(conv3D, kernel[1], kernel[2], image)
	id, parts := c.in(0), flow.IDs{}
	if before+after > 0 {
		id = flow.Padded(c, id, []int{0, before, 0, 0, 0}, []int{0, after, 0, 0, 0})
	}
	for place := range kernel[0] {
		part := flow.Sliced(c, id, []int{0, place * w.Dilation, 0, 0, 0}, cut)
		if w.Stride > 1 {
			positions := slices.Concat(cut[:1], []int{depth, w.Stride}, cut[2:])
			all := flow.Reshaped(c, part, positions...)
			positions[2] = 1
			part = flow.Sliced(c, all, make([]int, len(positions)), positions)
		}
		parts = append(parts, flow.Reshaped(c, part, image...))
	}
	joined := c.Inside(id)
	flow.Join(c, 3, parts, joined)
	node := xnnpack.Convolution2D{Stride: k.stride, Dilation: k.dilation, Groups: 1, Padding: k.padding,
		SamePadding: k.same, Activation: k.limits, Output: c.Inside(c.out(0))}
	node.Input, node.Filter, node.Bias = c.operands(weights, joined)
	c.Add(flow.Convolution2D(node))
	of := c.plan.shape(node.Output)
	c.shaped(node.Output, c.out(0), slices.Concat([]int{in.shape[0], depth}, of[1:]))
}

// reorder computes single precision with its dimensions in another order.
func (c *constant) reorder(dst, stored []byte) {
	plain := *c
	plain.order, plain.shape = nil, c.fileShape
	var shape, strides []int
	for _, d := range c.order {
		stride, _ := elements(c.fileShape[d+1:])
		shape, strides = append(shape, c.fileShape[d]), append(strides, stride)
	}
	operators.Strided(operators.Array{Element: models.Float32, Shape: shape, Data: dst},
		operators.Array{Element: models.Float32, Shape: c.fileShape, Data: plain.bytesOf(stored)}, 0, strides)
}

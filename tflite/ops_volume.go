package tflite

import (
	"slices"

	"xpwc/internal/compute"
	"xpwc/internal/flow"
	"xpwc/models"
	"xpwc/xnnpack"
)

// CONV_3D: input [N, D, H, W, C], filter [depth, height, width, C, outputs], bias [outputs] or none. XNNPACK has
// convolutions of images. So each position in depth is an image, whose channels are those of all images that the kernel
// reaches from there.
func planConv3D(c *call) {
	c.arity(2, 3)
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
	o := c.op.options
	w := c.window(kernel[0], int(o.Int32(conv3DStrideD, 0)), int(o.Int32(conv3DDilationD, 1)))
	same := c.samePadding(conv3D.padding)
	depth := c.slide(w, in.shape[1], same)
	before := 0
	if same {
		before = max(0, (depth-1)*w.stride+w.reach()-in.shape[1]) / 2
	}
	// A part for each place in the kernel is cut out of this, of stride images for each position.
	padded, cut := slices.Clone(in.shape), slices.Clone(in.shape)
	cut[1] = depth * w.stride
	padded[1] = max(before+in.shape[1], w.reach()-1+cut[1])
	image := []int{in.shape[0] * depth, in.shape[2], in.shape[3], channels}
	joined := slices.Concat(image[:3], []int{kernel[0] * channels})
	for _, shape := range [][]int{padded, joined} {
		if _, err := elements(shape); err != nil {
			unsupported("windows in depth: %v", err)
		}
	}
	flat := c.plan.derive(filter.constant, func(k *constant) *constant {
		return k.as(k.name+", of images", func(k *constant) {
			k.from, k.order = kernel, []int{4, 1, 2, 0, 3}
			k.shape = []int{kernel[4], kernel[1], kernel[2], joined[3]}
		})
	})
	k := c.convolution(conv3D, &value{shape: joined}, &value{state: static, shape: flat.shape, dtype: flat.dtype,
		constant: flat}, kernel[4], 0)
	c.define(0, in.shape[0], depth, k.height, k.width, kernel[4])
	node := xnnpack.Convolution2D{Stride: k.stride, Dilation: k.dilation, Groups: 1, Padding: k.padding,
		SamePadding: k.same, Activation: k.limits}
	t, id, parts := c.op.inputs[0], c.in(0), []xnnpack.ValueID{}
	if padded[1] > in.shape[1] {
		whole := c.inside(c.like(t, padded...))
		c.pad(id, whole, []int{0, before, 0, 0, 0}, []int{0, padded[1] - before - in.shape[1], 0, 0, 0})
		id = whole
	}
	for place := range kernel[0] {
		part := c.inside(c.like(t, cut...))
		c.slice(id, part, []int{0, place * w.dilation, 0, 0, 0}, cut)
		if w.stride > 1 {
			positions := slices.Concat(cut[:1], []int{depth, w.stride}, cut[2:])
			all := c.reshaped(part, t, positions...)
			positions[2] = 1
			part = c.inside(c.like(t, positions...))
			c.slice(all, part, make([]int, len(positions)), positions)
		}
		parts = append(parts, c.reshaped(part, t, image...))
	}
	like := c.like(t, joined...)
	node.Input = c.inside(like)
	c.concatenate(3, parts, slices.Repeat([][]int{image}, len(parts)), node.Input, like)
	to := c.op.outputs[0]
	_, node.Filter, node.Bias = c.operands(k.weights, node.Input, like)
	node.Output = c.inside(c.like(to, image[0], k.height, k.width, kernel[4]))
	c.add(flow.Convolution2D(node))
	c.shaped(node.Output, c.out(0), c.plan.values[to].shape)
}

// reorder computes single precision with its dimensions in another order.
func (c *constant) reorder(dst, stored []byte) error {
	plain := *c
	plain.order, plain.shape = nil, c.from
	src, err := plain.bytesOf(stored)
	if err != nil {
		return err
	}
	var shape, strides []int
	for _, d := range c.order {
		stride, _ := elements(c.from[d+1:])
		shape, strides = append(shape, c.from[d]), append(strides, stride)
	}
	return compute.Strided(compute.Array{Element: models.Float32, Shape: shape, Data: dst},
		compute.Array{Element: models.Float32, Shape: c.from, Data: src}, 0, strides)
}

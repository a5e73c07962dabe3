package tflite

import (
	"encoding/binary"
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// planPool plans MAX_POOL_2D and AVERAGE_POOL_2D, which with SAME padding averages over the pixels that exist.
func planPool(average bool) func(*call) {
	return func(c *call) {
		in, o := c.rank4(0), c.op.options
		w := c.windows(pool2D, int(o.Int32(poolFilterHeight, 0)), int(o.Int32(poolFilterWidth, 0)), in.shape)
		unit := xnnpack.Size{Height: 1, Width: 1}
		src, dst := c.inputID(0), c.outputID(0)
		if w.size == unit && w.stride != unit {
			src = c.everySo(src, in.shape, w.stride)
		}
		switch {
		case w.size == unit && w.limits == (xnnpack.Range{}):
			c.Add(flow.Copy(xnnpack.Copy{Input: src, Output: dst}))
		case w.size == unit: // XNNPACK has no pools of one pixel
			c.unaryNode(xnnpack.Unary{Op: xnnpack.Clamp, Limits: w.limits}, src, dst)
		case average:
			c.Add(flow.AveragePooling2D(xnnpack.AveragePooling2D{Input: src, Output: dst, Padding: w.padding,
				Pooling: w.size, Stride: w.stride, SamePadding: w.samePadding, Activation: w.limits}))
		default:
			c.Add(flow.MaxPooling2D(xnnpack.MaxPooling2D{Input: src, Output: dst, Padding: w.padding,
				Pooling: w.size, Stride: w.stride, Dilation: unit, SamePadding: w.samePadding, Activation: w.limits}))
		}
		c.keepsScale(c.inputID(0))
	}
}

// everySo returns the pixels of images of a shape that are a stride apart, from the first one on: of each square of the
// stride's size its first pixel.
func (c *call) everySo(id xnnpack.ValueID, shape []int, stride xnnpack.Size) xnnpack.ValueID {
	n, ch := shape[0], shape[3]
	h, w := (shape[1]-1)/stride.Height+1, (shape[2]-1)/stride.Width+1
	padded := flow.Padded(c, id, make([]int, 4), []int{0, h*stride.Height - shape[1], w*stride.Width - shape[2], 0})
	squares := flow.Reshaped(c, padded, n, h, stride.Height, w, stride.Width, ch)
	first := flow.Sliced(c, squares, make([]int, 6), []int{n, h, 1, w, 1, ch})
	return flow.Reshaped(c, first, n, h, w, ch)
}

// RESIZE_BILINEAR to a constant [height, width]. With neither align_corners nor half_pixel_centers the corners of the
// top left pixels coincide, which XNNPACK calls TensorFlow's legacy mode.
func planResizeBilinear(c *call) {
	in, size := c.rank4(0), c.integers(1)
	align, half := c.op.options.Bool(resizeAlignCorners), c.op.options.Bool(resizeHalfPixelCenters)
	if align && half {
		malformed("both align_corners and half_pixel_centers")
	}
	if len(size) != 2 {
		malformed("the new size %v", size)
	}
	if size[0] >= 1<<24 || size[1] >= 1<<24 || in.shape[1] >= 1<<24 || in.shape[2] >= 1<<24 {
		unsupported("a height or width that single precision cannot count: %v to %v", in.shape, size)
	}
	c.Add(flow.StaticResizeBilinear2D(xnnpack.StaticResizeBilinear2D{
		Input: c.inputID(0), Output: c.outputID(0), NewSize: xnnpack.Size{Height: size[0], Width: size[1]},
		AlignCorners: align, LegacyMode: !align && !half,
	}))
	c.keepsScale(c.inputID(0))
}

// RESIZE_NEAREST_NEIGHBOR. To a multiple of the size it is the same with half_pixel_centers and without: each pixel
// several times. Any other is computed in Go.
func planResizeNearest(c *call) {
	in, size := c.rank4(0), c.integers(1)
	if len(size) != 2 || slices.Min(size) <= 0 {
		malformed("the new size %v", size)
	}
	n, h, w, ch := in.shape[0], in.shape[1], in.shape[2], in.shape[3]
	shape := []int{n, size[0], size[1], ch}
	checked(func() { fault.Value(elements(shape)) }) // before Go lists the pixels
	times := []int{1, 1, size[0] / h, 1, size[1] / w, 1}
	align, half := c.op.options.Bool(nearestAlignCorners), c.op.options.Bool(nearestHalfPixelCenters)
	if !c.inGo && (size[0]%h != 0 || size[1]%w != 0 || slices.Max(times) > mostJoined ||
		align && slices.Max(times) > 1 || in.dtype == typeFloat32) {
		unsupported("%v to %v", in.shape, size)
	}
	if c.inGo {
		c.host(operators.Take(1, nearest(h, size[0], align, half), nearest(w, size[1], align, half)), 0)
		return
	}
	c.shaped(c.tiled(flow.Reshaped(c, c.inputID(0), n, h, 1, w, 1, ch), times), c.outputID(0), shape)
}

// nearest returns the pixel of a row of some length that is nearest to each of a row of another length. It computes in
// single precision, as TensorFlow Lite does: in double precision another one may be nearer.
func nearest(src, dst int, align, half bool) []int {
	scale, offset := float32(src)/float32(dst), float32(0)
	if align && dst > 1 {
		scale = float32(src-1) / float32(dst-1)
	}
	if half {
		offset = 0.5
	}
	out := make([]int, dst)
	for i := range out {
		place := (float32(i) + offset) * scale
		if align {
			out[i] = int(math.Round(float64(place)))
		} else {
			out[i] = int(math.Floor(float64(place)))
		}
		out[i] = max(0, min(out[i], src-1))
	}
	return out
}

// DEPTH_TO_SPACE: each pixel's channels become a square of block_size pixels.
func planDepthToSpace(c *call) {
	c.rank4(0)
	block := int(c.op.options.Int32(depthToSpaceBlockSize, 0))
	c.blocksOf(block, flow.DepthToSpace2D(xnnpack.DepthToSpace2D{Input: c.inputID(0), Output: c.outputID(0),
		BlockSize: block}))
}

// SPACE_TO_DEPTH: a square of block_size pixels becomes the channels of one.
func planSpaceToDepth(c *call) {
	c.rank4(0)
	block := int(c.op.options.Int32(spaceToDepthBlockSize, 0))
	c.blocksOf(block, flow.SpaceToDepth2D(xnnpack.SpaceToDepth2D{Input: c.inputID(0), Output: c.outputID(0),
		BlockSize: block}))
}

// blocksOf plans a node that moves blocks of pixels, and a copy where a block is one pixel.
func (c *call) blocksOf(block int, node flow.Operation) {
	if block == 1 {
		c.copies()
	} else {
		c.Add(node)
	}
	c.keepsScale(c.inputID(0))
}

// blocks reads what SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND have in common: images, the height and width of a block,
// and how much is added to or taken off the four sides. Each side is less than 2^24. Rows are images of one column.
func (c *call) blocks() (images, block, sides []int) {
	in, block, sides := c.operand(0), slices.Clone(c.integers(1)), slices.Clone(c.integers(2))
	if len(in.shape) != 4 && len(in.shape) != 3 {
		unsupported("an input of %d dimensions", len(in.shape))
	}
	images = slices.Clone(in.shape)
	if len(images) == 3 {
		images = slices.Insert(images, 2, 1)
		block, sides = append(block, 1), append(sides, 0, 0)
	}
	if len(block) != 2 || block[0] <= 0 || block[1] <= 0 || len(sides) != 4 || slices.Min(sides) < 0 ||
		slices.Max(append(sides, block...)) >= 1<<24 {
		malformed("blocks of %v with %v at the sides", block, sides)
	}
	return images, block, sides
}

// SPACE_TO_BATCH_ND of images: each pixel of a block goes into an image of its own.
func planSpaceToBatch(c *call) {
	src, block, sides := c.blocks()
	n, ch := src[0], src[3]
	height, width := src[1]+sides[0]+sides[1], src[2]+sides[2]+sides[3]
	if height%block[0] != 0 || width%block[1] != 0 {
		malformed("blocks of %v for %d by %d pixels", block, height, width)
	}
	h, w := height/block[0], width/block[1]
	id := c.inputID(0)
	switch whole := len(c.plan.shapeOf(id)) == 4 && slices.Max(sides) == 0; {
	case c.inGo && whole:
		c.host(operators.SpaceToBatch(block[0], block[1]), 0)
		return
	case c.inGo:
		unsupported("around rows, or with zeros at the sides, in Go")
	case whole:
		c.copiedFaster(c.operand(0), src)
	}
	if len(c.plan.shapeOf(id)) == 3 {
		id = flow.Reshaped(c, id, src...)
	}
	if slices.Max(sides) > 0 {
		id = flow.Padded(c, id, []int{0, sides[0], sides[2], 0}, []int{0, sides[1], sides[3], 0})
	}
	id = flow.Reshaped(c, id, n, h, block[0], w, block[1], ch)
	c.shaped(flow.Transposed(c, id, 2, 4, 0, 1, 3, 5), c.outputID(0), c.asRows(n*block[0]*block[1], h, w, ch))
}

// asRows returns a shape of images as the operator has it: without the width where operand 0 has rows.
func (c *call) asRows(images, height, width, channels int) []int {
	if len(c.resolve(0).shape) == 3 {
		return []int{images, height, channels}
	}
	return []int{images, height, width, channels}
}

// BATCH_TO_SPACE_ND of images: the inverse of SPACE_TO_BATCH_ND.
func planBatchToSpace(c *call) {
	src, block, sides := c.blocks()
	square := int64(block[0]) * int64(block[1])
	if int64(src[0])%square != 0 {
		malformed("blocks of %v for %d images", block, src[0])
	}
	n, h, w, ch := src[0]/int(square), src[1], src[2], src[3]
	whole := []int{n, h * block[0], w * block[1], ch}
	cut := []int{n, whole[1] - sides[0] - sides[1], whole[2] - sides[2] - sides[3], ch}
	switch entire := len(c.resolve(0).shape) == 4 && slices.Max(sides) == 0; {
	case c.inGo && entire:
		c.host(operators.BatchToSpace(block[0], block[1]), 0)
		return
	case entire:
		c.copiedFaster(c.operand(0), src)
	}
	id := flow.Reshaped(c, c.inputID(0), block[0], block[1], n, h, w, ch)
	id = flow.Transposed(c, id, 2, 3, 0, 4, 1, 5)
	if slices.Max(sides) > 0 {
		id = flow.Sliced(c, flow.Reshaped(c, id, whole...), []int{0, sides[0], sides[2], 0}, cut)
	}
	c.shaped(id, c.outputID(0), c.asRows(cut[0], cut[1], cut[2], cut[3]))
}

// windows is how a kernel or pool moves over images.
type windows struct {
	size, stride, dilation xnnpack.Size
	padding                xnnpack.Padding
	samePadding            bool // XNNPACK pads
	limits                 xnnpack.Range
}

// windows reads how a kernel or pool of a size moves over images of a shape, and what limits the results. SAME padding
// is XNNPACK's to distribute, but where windows leave out pixels at an end: XNNPACK of 2024 takes less than none for
// very much.
func (c *call) windows(slots convolutionSlots, height, width int, image []int) windows {
	o := c.op.options
	w := windows{
		size:        xnnpack.Size{Height: height, Width: width},
		stride:      xnnpack.Size{Height: int(o.Int32(slots.strideH, 0)), Width: int(o.Int32(slots.strideW, 0))},
		dilation:    xnnpack.Size{Height: int(o.Int32(slots.dilationH, 1)), Width: int(o.Int32(slots.dilationW, 1))},
		samePadding: c.samePadding(slots.padding), limits: c.activation(slots.activation),
	}
	y, x := flow.Windows(w.size, w.stride, w.dilation)
	if v, h := missing(y, image[1]), missing(x, image[2]); w.samePadding && (v < 0 || h < 0) {
		v, h = max(v, 0), max(h, 0)
		w.samePadding, w.padding = false, xnnpack.Padding{Top: v / 2, Bottom: v - v/2, Left: h / 2, Right: h - h/2}
	}
	return w
}

// missing returns how many pixels windows with SAME padding reach beyond an image, a negative number if
// the windows leave out some.
func missing(w flow.Window, along int) int {
	places := slide(w, along, true)
	return int(int64(places-1)*int64(w.Stride) + w.Reach() - int64(along))
}

// slide returns how many positions a window has along an image.
func slide(w flow.Window, along int, samePadding bool) (places int) {
	checked(func() { places = w.Slide(along, samePadding) })
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
		SamePadding: w.samePadding, Activation: w.limits, Output: c.outputID(0)}
	node.Input, node.Filter, node.Bias = c.operands(weights, c.inputID(0))
	c.Add(flow.Convolution2D(node))
}

// DEPTHWISE_CONV_2D: input [N, H, W, C], filter [1, height, width, C*multiplier], bias [C*multiplier] or none.
func planDepthwiseConv2D(c *call) {
	in, filter := c.rank4(0), c.packed(1, 4)
	weights := c.weights(0, 1, 2, filter, filter.shape[3], 0)
	w := c.windows(depthwise2D, filter.shape[1], filter.shape[2], in.shape)
	node := xnnpack.DepthwiseConvolution2D{Stride: w.stride, Dilation: w.dilation,
		DepthMultiplier: filter.shape[3] / in.shape[3], Padding: w.padding, SamePadding: w.samePadding,
		Activation: w.limits, Output: c.outputID(0)}
	node.Input, node.Filter, node.Bias = c.operands(weights, c.inputID(0))
	c.Add(flow.DepthwiseConvolution2D(node))
}

// FULLY_CONNECTED: input [..., C] of which all but C is one batch, filter [outputs, C], bias [outputs] or none. A
// filter that is computed is packed by no operator: it is multiplied with.
func planFullyConnected(c *call) {
	in, filter := c.operand(0), c.resolve(1)
	computed := filter.state == dynamic
	if !computed {
		filter = c.packed(1, 2)
	} else if c.operand(1); len(filter.shape) != 2 {
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
	matrix := c.inputID(0)
	if flat {
		matrix = flow.Reshaped(c, matrix, n/channels, channels)
	}
	matrix, kernel, bias := c.operands(w, matrix)
	c.Add(flow.FullyConnected(xnnpack.FullyConnected{
		Input: matrix, Filter: kernel, Bias: bias, Output: c.outputID(0), Activation: limits,
	}))
}

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
	cropped := func(_, size, stride, along int) (off, _ int) {
		if stride <= 0 {
			malformed("a stride of %d", stride)
		}
		if padding == 1 {
			off = max(0, size-(along-1)%stride-1)
		}
		return off, 0
	}
	c.deconvolution(0, 1, 2, in, filter, xnnpack.Size{Height: strideH, Width: strideW}, cropped, xnnpack.Range{})
}

// TRANSPOSE_CONV: the output's shape (a constant), filter [outputs, height, width, C], input [N, H, W, C], bias
// [outputs] or none.
func planTransposeConv(c *call) {
	shape, filter, in := c.integers(0), c.packed(1, 4), c.rank4(2)
	samePadding, limits := c.samePadding(transposeConvPadding), c.activation(transposeConvActivation)
	o := c.op.options
	if len(shape) != 4 || shape[0] != in.shape[0] || shape[3] != filter.shape[0] || shape[1] <= 0 || shape[2] <= 0 {
		malformed("an output of shape %v for an input of %v and a filter of %v", shape, in.shape, filter.shape)
	}
	stride := xnnpack.Size{Height: int(o.Int32(transposeConvStrideH, 0)), Width: int(o.Int32(transposeConvStrideW, 0))}
	c.deconvolution(2, 1, 3, in, filter, stride, cropping(shape, samePadding), limits)
}

// cropping returns what a transposed convolution to a shape cuts off and adds, see [call.deconvolution].
func cropping(shape []int, samePadding bool) func(dimension, size, stride, along int) (off, adjustment int) {
	return func(dimension, size, stride, along int) (off, adjustment int) {
		out := shape[dimension]
		// The input must be what the convolution that this one transposes would make of the output.
		if slide(flow.Window{Size: size, Stride: stride, Dilation: 1}, out, samePadding) != along {
			malformed("an output of %d for an input of %d with stride %d", out, along, stride)
		}
		full := stride*(along-1) + size
		off = max(0, full-out)
		return off, out - (full - off)
	}
}

// deconvolution plans a transposed convolution. For a dimension of images cropped returns how many pixels are cut off
// the full output, and how many are added at its end.
func (c *call) deconvolution(input, weights, bias int, in, filter *value, stride xnnpack.Size,
	cropped func(dimension, size, stride, along int) (off, adjustment int), limits xnnpack.Range) {
	v, bottom := cropped(1, filter.shape[1], stride.Height, in.shape[1])
	h, right := cropped(2, filter.shape[2], stride.Width, in.shape[2])
	w := c.weights(input, weights, bias, filter, filter.shape[0], 0)
	node := enlarging(stride, [2]int{v, h}, xnnpack.Size{Height: bottom, Width: right}, limits)
	node.Output = c.outputID(0)
	node.Input, node.Filter, node.Bias = c.operands(w, c.inputID(input))
	c.Add(flow.Deconvolution2D(node))
}

// enlarging returns a transposed convolution without operands that cuts rows and columns off, half of them at the end
// and one more if they are odd, and adds others there.
func enlarging(stride xnnpack.Size, off [2]int, adjustment xnnpack.Size, limits xnnpack.Range) xnnpack.Deconvolution2D {
	v, h := off[0], off[1]
	return xnnpack.Deconvolution2D{
		Padding:    xnnpack.Padding{Top: v / 2, Bottom: v - v/2, Left: h / 2, Right: h - h/2},
		Adjustment: adjustment, Stride: stride, Dilation: xnnpack.Size{Height: 1, Width: 1}, Groups: 1,
		Activation: limits,
	}
}

// CONV_3D: input [N, D, H, W, C], filter [depth, height, width, C, outputs], bias [outputs] or none. XNNPACK has
// convolutions of images. So each position in depth is an image, whose channels are the channels of all images
// that the kernel reaches from there.
func planConv3D(c *call) {
	in, filter := c.operand(0), c.packed(1, 5)
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
	samePadding := c.samePadding(conv3D.padding)
	depth, front := slide(w, in.shape[1], samePadding), 0
	if samePadding {
		front = max(0, missing(w, in.shape[1])) / 2
	}
	// A part for each place in the kernel is cut out of this, of stride images for each position.
	cut := slices.Clone(in.shape)
	cut[1] = depth * w.Stride
	back := max(0, int(w.Reach())-1+cut[1]-front-in.shape[1])
	image := []int{in.shape[0] * depth, in.shape[2], in.shape[3], channels}
	flat := c.plan.derive(filter.constant.derived(filter.constant.name+", of images", func(k *constant) {
		k.fileShape, k.order = kernel, []int{4, 1, 2, 0, 3}
		k.shape = []int{kernel[4], kernel[1], kernel[2], kernel[0] * channels}
	}))
	images := &value{state: static, shape: flat.shape, dtype: flat.dtype, constant: flat}
	weights := c.weights(0, 1, 2, images, kernel[4], 0)
	k := c.windows(conv3D, kernel[1], kernel[2], image)
	id, parts := c.inputID(0), flow.IDs{}
	if front+back > 0 {
		id = flow.Padded(c, id, []int{0, front, 0, 0, 0}, []int{0, back, 0, 0, 0})
	}
	for place := range kernel[0] {
		part := flow.Sliced(c, id, []int{0, place * w.Dilation, 0, 0, 0}, cut)
		if w.Stride > 1 {
			positions := slices.Concat(cut[:1], []int{depth, w.Stride}, cut[2:])
			planes := flow.Reshaped(c, part, positions...)
			positions[2] = 1
			part = flow.Sliced(c, planes, make([]int, len(positions)), positions)
		}
		parts = append(parts, flow.Reshaped(c, part, image...))
	}
	joined := c.Inside(id)
	flow.Join(c, 3, parts, joined)
	node := xnnpack.Convolution2D{Stride: k.stride, Dilation: k.dilation, Groups: 1, Padding: k.padding,
		SamePadding: k.samePadding, Activation: k.limits, Output: c.Inside(c.outputID(0))}
	node.Input, node.Filter, node.Bias = c.operands(weights, joined)
	c.Add(flow.Convolution2D(node))
	outputShape := c.plan.shapeOf(node.Output)
	c.shaped(node.Output, c.outputID(0), slices.Concat([]int{in.shape[0], depth}, outputShape[1:]))
}

// CONV_3D_TRANSPOSE: the output's shape (a constant), filter [depth, height, width, outputs, C], input [N, D, H, W, C],
// bias [outputs] or none. XNNPACK has transposed convolutions of images. So images of zeros are put between the input's
// images, as the stride asks, and each position in depth is an image with the channels of all images that reach it.
func planConv3DTranspose(c *call) {
	shape, filter, in := c.integers(0), c.packed(1, 5), c.operand(2)
	kernel, o := filter.shape, c.op.options
	if len(shape) != 5 || len(in.shape) != 5 || slices.Min(shape) <= 0 || shape[0] != in.shape[0] ||
		shape[4] != kernel[3] || in.shape[4] != kernel[4] {
		malformed("an output of shape %v for an input of %v and a filter of %v", shape, in.shape, kernel)
	}
	if in.dtype != typeFloat32 || filter.dtype != typeFloat32 || kernel[0] > mostJoined {
		unsupported("values of type %v, and a filter of %v and shape %v", in.dtype, filter.dtype, kernel)
	}
	for _, slot := range []int{conv3DDilationD, conv3D.dilationH, conv3D.dilationW} {
		if d := o.Int32(slot, 1); d != 1 {
			unsupported("a dilation of %d", d)
		}
	}
	cropped, limits := cropping(shape, c.samePadding(conv3D.padding)), c.activation(conv3D.activation)
	strides := [3]int{int(o.Int32(conv3DStrideD, 0)), int(o.Int32(conv3D.strideH, 0)), int(o.Int32(conv3D.strideW, 0))}
	var off, added [3]int
	for d, stride := range strides {
		off[d], added[d] = cropped(d+1, kernel[d], stride, in.shape[d+1])
	}
	flat := c.plan.derive(filter.constant.derived(filter.constant.name+", of images", func(k *constant) {
		k.fileShape, k.order = kernel, []int{3, 1, 2, 0, 4}
		k.shape = []int{kernel[3], kernel[1], kernel[2], kernel[0] * kernel[4]}
	}))
	images := &value{state: static, shape: flat.shape, dtype: flat.dtype, constant: flat}
	weights := c.weights(2, 1, 3, images, kernel[3], 0)
	id := c.spread(c.inputID(2), in.shape, strides[0])
	front, back := kernel[0]-1-off[0]/2, kernel[0]-1-off[0]+off[0]/2+added[0]
	if front+back > 0 {
		id = flow.Padded(c, id, []int{0, front, 0, 0, 0}, []int{0, back, 0, 0, 0})
	}
	cut, parts := slices.Clone(in.shape), flow.IDs{}
	cut[1] = shape[1]
	for place := kernel[0] - 1; place >= 0; place-- {
		part := flow.Sliced(c, id, []int{0, place, 0, 0, 0}, cut)
		parts = append(parts, flow.Reshaped(c, part, cut[0]*cut[1], cut[2], cut[3], cut[4]))
	}
	joined := c.Inside(id)
	flow.Join(c, 3, parts, joined)
	node := enlarging(xnnpack.Size{Height: strides[1], Width: strides[2]}, [2]int{off[1], off[2]},
		xnnpack.Size{Height: added[1], Width: added[2]}, limits)
	node.Output = c.Inside(c.outputID(0))
	node.Input, node.Filter, node.Bias = c.operands(weights, joined)
	c.Add(flow.Deconvolution2D(node))
	c.shaped(node.Output, c.outputID(0), shape)
}

// spread puts images of zeros between the images of a value of shape [N, D, H, W, C], which are a stride apart then.
func (c *call) spread(id flow.ID, shape []int, stride int) flow.ID {
	if stride == 1 {
		return id
	}
	n, depth, image := shape[0], shape[1], shape[2]*shape[3]*shape[4]
	padded := flow.Padded(c, flow.Reshaped(c, id, n*depth, 1, image), []int{0, 0, 0}, []int{0, stride - 1, 0})
	spread := slices.Clone(shape)
	spread[1] = depth * stride
	whole := flow.Reshaped(c, padded, spread...)
	spread[1] -= stride - 1
	return flow.Sliced(c, whole, make([]int, len(spread)), spread)
}

// BATCH_MATMUL of two computed values or constants: [..., m, k] by [..., k, n]. With adj_x or adj_y the last two
// dimensions of the first or the second are swapped.
func planBatchMatMul(c *call) {
	a, b := c.operand(0), c.operand(1)
	if a.dtype != b.dtype {
		unsupported("inputs of types %v and %v", c.declared(0), c.declared(1))
	}
	turnA, turnB := c.op.options.Bool(adjointX), c.op.options.Bool(adjointY)
	in := c.inputID(0)
	if rank := len(a.shape); turnA {
		if rank < 2 {
			malformed("shapes %v and %v", a.shape, b.shape)
		}
		permutation := operators.Every(0, rank, 1)
		permutation[rank-2], permutation[rank-1] = rank-1, rank-2
		in = flow.Transposed(c, in, permutation...)
	}
	c.Add(flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: in, B: c.inputID(1), Output: c.outputID(0),
		TransposeB: turnB}))
}

// multiplied plans the product of operand 0, as a matrix of some rows, by the transpose of operand 1, which is
// computed, and perhaps a bias, operand 2. All are in single precision, or bytes that are computed with so.
func (c *call) multiplied(rows int, in, filter *value, limits xnnpack.Range) {
	outputs, channels := filter.shape[0], filter.shape[1]
	c.sameTypes(in)
	if filter.dtype != in.dtype {
		unsupported("computed weights of type %v for an input of type %v", c.declared(1), c.declared(0))
	}
	c.wide = c.wide || in.dtype.isBytes()
	dst := c.outputID(0)
	matrix := flow.Reshaped(c, c.inputID(0), rows, channels)
	product := c.Inside(dst)
	c.Add(flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: matrix, B: c.inputID(1), Output: product,
		TransposeB: true}))
	if c.tensor(2) != absent {
		if v := c.operand(2); !slices.Equal(v.shape, []int{outputs}) {
			malformed("a bias of shape %v for %d output channels", v.shape, outputs)
		}
		product = flow.Combine(c, xnnpack.Add, product, c.inputID(2))
	}
	if limits != (xnnpack.Range{}) {
		product = flow.Apply(c, xnnpack.Unary{Op: xnnpack.Clamp, Limits: limits}, product)
	}
	c.shaped(product, dst, c.plan.shapeOf(dst))
}

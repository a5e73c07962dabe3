package tflite

import (
	"math"
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// planPool plans MAX_POOL_2D and AVERAGE_POOL_2D, which with SAME padding averages over the pixels that exist.
func planPool(average bool) func(*call) {
	return func(c *call) {
		in, o := c.rank4(0), c.op.options
		w := c.windows(pool2D, int(o.Int32(poolFilterHeight, 0)), int(o.Int32(poolFilterWidth, 0)), in.shape)
		one := xnnpack.Size{Height: 1, Width: 1}
		from, to := c.in(0), c.out(0)
		if w.size == one && w.stride != one {
			from = c.everySo(from, in.shape, w.stride)
		}
		switch {
		case w.size == one && w.limits == (xnnpack.Range{}):
			c.Add(flow.Copy(xnnpack.Copy{Input: from, Output: to}))
		case w.size == one: // XNNPACK has no pools of one pixel
			c.unary(xnnpack.Unary{Op: xnnpack.Clamp, Limits: w.limits}, from, to)
		case average:
			c.Add(flow.AveragePooling2D(xnnpack.AveragePooling2D{Input: from, Output: to, Padding: w.padding,
				Pooling: w.size, Stride: w.stride, SamePadding: w.same, Activation: w.limits}))
		default:
			c.Add(flow.MaxPooling2D(xnnpack.MaxPooling2D{Input: from, Output: to, Padding: w.padding,
				Pooling: w.size, Stride: w.stride, Dilation: one, SamePadding: w.same, Activation: w.limits}))
		}
		c.keepsScale(c.in(0))
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
		Input: c.in(0), Output: c.out(0), NewSize: xnnpack.Size{Height: size[0], Width: size[1]},
		AlignCorners: align, LegacyMode: !align && !half,
	}))
	c.keepsScale(c.in(0))
}

// RESIZE_NEAREST_NEIGHBOR. To a multiple of the size it is the same with half_pixel_centers and without: each pixel
// several times. Any other is computed in Go.
func planResizeNearest(c *call) {
	in, size := c.rank4(0), c.integers(1)
	if len(size) != 2 || slices.Min(size) <= 0 {
		malformed("the new size %v", size)
	}
	n, h, w, ch := in.shape[0], in.shape[1], in.shape[2], in.shape[3]
	times := []int{1, 1, size[0] / h, 1, size[1] / w, 1}
	align, half := c.op.options.Bool(nearestAlignCorners), c.op.options.Bool(nearestHalfPixelCenters)
	if !c.inGo && (size[0]%h != 0 || size[1]%w != 0 || slices.Max(times) > mostJoined ||
		align && slices.Max(times) > 1) {
		unsupported("%v to %v", in.shape, size)
	}
	if c.inGo {
		c.host(operators.Take(1, nearest(h, size[0], align, half), nearest(w, size[1], align, half)), 0)
		return
	}
	shape := []int{n, size[0], size[1], ch}
	c.shaped(c.tiled(flow.Reshaped(c, c.in(0), n, h, 1, w, 1, ch), times), c.out(0), shape)
}

// nearest returns the pixel of a row of some length that is nearest to each of a row of another length. It computes in
// single precision, as TensorFlow Lite does: in double precision another one may be nearer.
func nearest(from, to int, align, half bool) []int {
	scale, offset := float32(from)/float32(to), float32(0)
	if align && to > 1 {
		scale = float32(from-1) / float32(to-1)
	}
	if half {
		offset = 0.5
	}
	out := make([]int, to)
	for i := range out {
		at := (float32(i) + offset) * scale
		if align {
			out[i] = int(math.Round(float64(at)))
		} else {
			out[i] = int(math.Floor(float64(at)))
		}
		out[i] = max(0, min(out[i], from-1))
	}
	return out
}

// copies plans that output 0 is operand 0.
func (c *call) copies() {
	c.Add(flow.Copy(xnnpack.Copy{Input: c.in(0), Output: c.out(0)}))
}

// DEPTH_TO_SPACE: each pixel's channels become a square of block_size pixels.
func planDepthToSpace(c *call) {
	c.rank4(0)
	block := int(c.op.options.Int32(depthToSpaceBlockSize, 0))
	c.blocksOf(block, flow.DepthToSpace2D(xnnpack.DepthToSpace2D{Input: c.in(0), Output: c.out(0), BlockSize: block}))
}

// SPACE_TO_DEPTH: a square of block_size pixels becomes the channels of one.
func planSpaceToDepth(c *call) {
	c.rank4(0)
	block := int(c.op.options.Int32(spaceToDepthBlockSize, 0))
	c.blocksOf(block, flow.SpaceToDepth2D(xnnpack.SpaceToDepth2D{Input: c.in(0), Output: c.out(0), BlockSize: block}))
}

// blocksOf plans a node that moves blocks of pixels, of which those of one pixel are copied.
func (c *call) blocksOf(block int, node flow.Operation) {
	if block == 1 {
		c.copies()
	} else {
		c.Add(node)
	}
	c.keepsScale(c.in(0))
}

// blocks reads what SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND have in common: images, the height and width of a block,
// and how much is added to or taken off the four sides. Each side is less than 2^24. Rows are images of one column.
func (c *call) blocks() (images, block, sides []int) {
	in, block, sides := c.data(0), slices.Clone(c.integers(1)), slices.Clone(c.integers(2))
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
	from, block, sides := c.blocks()
	n, ch := from[0], from[3]
	height, width := from[1]+sides[0]+sides[1], from[2]+sides[2]+sides[3]
	if height%block[0] != 0 || width%block[1] != 0 {
		malformed("blocks of %v for %d by %d pixels", block, height, width)
	}
	h, w := height/block[0], width/block[1]
	id := c.in(0)
	if len(c.plan.shape(id)) == 3 {
		id = flow.Reshaped(c, id, from...)
	}
	if slices.Max(sides) > 0 {
		id = flow.Padded(c, id, []int{0, sides[0], sides[2], 0}, []int{0, sides[1], sides[3], 0})
	}
	id = flow.Reshaped(c, id, n, h, block[0], w, block[1], ch)
	c.shaped(flow.Transposed(c, id, 2, 4, 0, 1, 3, 5), c.out(0), c.asRows(n*block[0]*block[1], h, w, ch))
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
	from, block, sides := c.blocks()
	square := int64(block[0]) * int64(block[1])
	if int64(from[0])%square != 0 {
		malformed("blocks of %v for %d images", block, from[0])
	}
	n, h, w, ch := from[0]/int(square), from[1], from[2], from[3]
	whole := []int{n, h * block[0], w * block[1], ch}
	cut := []int{n, whole[1] - sides[0] - sides[1], whole[2] - sides[2] - sides[3], ch}
	id := flow.Reshaped(c, c.in(0), block[0], block[1], n, h, w, ch)
	id = flow.Transposed(c, id, 2, 3, 0, 4, 1, 5)
	if slices.Max(sides) > 0 {
		id = flow.Sliced(c, flow.Reshaped(c, id, whole...), []int{0, sides[0], sides[2], 0}, cut)
	}
	c.shaped(id, c.out(0), c.asRows(cut[0], cut[1], cut[2], cut[3]))
}

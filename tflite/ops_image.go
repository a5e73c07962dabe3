package tflite

import (
	"slices"

	"xpwc/xnnpack"
)

// planPool plans MAX_POOL_2D and AVERAGE_POOL_2D, which with SAME padding averages over the pixels that exist.
func planPool(average bool) func(*call) func(*emitter) error {
	return func(c *call) func(*emitter) error {
		if !c.arity(1, 1) {
			return nil
		}
		in := c.rank4(0)
		o := c.op.options
		y := c.window(int(o.Int32(poolFilterHeight, 0)), int(o.Int32(poolStrideH, 0)), 1)
		x := c.window(int(o.Int32(poolFilterWidth, 0)), int(o.Int32(poolStrideW, 0)), 1)
		same, limits := c.samePadding(poolPadding), c.activation(poolActivation)
		if c.err != nil {
			return nil
		}
		height, width := c.slides(y, x, in.shape, same)
		c.define(0, in.shape[0], height, width, in.shape[3])
		c.keepsScale(0)
		pool, stride := xnnpack.Size{Height: y.size, Width: x.size}, xnnpack.Size{Height: y.stride, Width: x.stride}
		one := xnnpack.Size{Height: 1, Width: 1}
		if pool == one && stride != one {
			c.unsupported("pools of one pixel with a stride")
		}
		return func(e *emitter) error {
			in, out := e.input(c, 0), e.output(c, 0)
			switch {
			case pool == one && limits == (xnnpack.Range{}):
				return e.s.Copy(xnnpack.Copy{Input: in, Output: out})
			case pool == one: // XNNPACK has no pools of one pixel
				return e.unary(xnnpack.Unary{Op: xnnpack.Clamp, Limits: limits}, in, out)
			case average:
				return e.s.AveragePooling2D(xnnpack.AveragePooling2D{
					Input: in, Output: out, Pooling: pool, Stride: stride, SamePadding: same, Activation: limits,
				})
			default:
				return e.s.MaxPooling2D(xnnpack.MaxPooling2D{
					Input: in, Output: out, Pooling: pool, Stride: stride, Dilation: one, SamePadding: same,
					Activation: limits,
				})
			}
		}
	}
}

// RESIZE_BILINEAR to a constant [height, width]. With neither align_corners nor half_pixel_centers the corners of the
// top left pixels coincide, which XNNPACK calls TensorFlow's legacy mode.
func planResizeBilinear(c *call) func(*emitter) error {
	if !c.arity(2, 2) {
		return nil
	}
	in, size := c.rank4(0), c.integers(1)
	align, half := c.op.options.Bool(resizeAlignCorners), c.op.options.Bool(resizeHalfPixelCenters)
	if align && half {
		c.malformed("both align_corners and half_pixel_centers")
	}
	if c.err != nil {
		return nil
	}
	if len(size) != 2 {
		c.malformed("the new size %v", size)
		return nil
	}
	if size[0] >= 1<<24 || size[1] >= 1<<24 || in.shape[1] >= 1<<24 || in.shape[2] >= 1<<24 {
		c.unsupported("a height or width that single precision cannot count: %v to %v", in.shape, size)
	}
	c.define(0, in.shape[0], size[0], size[1], in.shape[3])
	c.keepsScale(0)
	return func(e *emitter) error {
		return e.s.StaticResizeBilinear2D(xnnpack.StaticResizeBilinear2D{
			Input: e.input(c, 0), Output: e.output(c, 0), NewSize: xnnpack.Size{Height: size[0], Width: size[1]},
			AlignCorners: align, LegacyMode: !align && !half,
		})
	}
}

// RESIZE_NEAREST_NEIGHBOR to a multiple of the size, which is the same with half_pixel_centers and without: each pixel
// several times.
func planResizeNearest(c *call) func(*emitter) error {
	if !c.arity(2, 2) {
		return nil
	}
	in, size := c.rank4(0), c.integers(1)
	if c.err != nil {
		return nil
	}
	if len(size) != 2 || slices.Min(size) <= 0 {
		c.malformed("the new size %v", size)
		return nil
	}
	n, h, w, ch := in.shape[0], in.shape[1], in.shape[2], in.shape[3]
	times := []int{1, 1, size[0] / h, 1, size[1] / w, 1}
	if size[0]%h != 0 || size[1]%w != 0 || slices.Max(times) > mostJoined ||
		c.op.options.Bool(nearestAlignCorners) && slices.Max(times) > 1 {
		c.unsupported("%v to %v, or corners that are aligned: the size must be a multiple", in.shape, size)
		return nil
	}
	shape := []int{n, size[0], size[1], ch}
	c.define(0, shape...)
	c.keepsScale(0)
	return func(e *emitter) error {
		t := c.op.inputs[0]
		pixels := []int{n, h, 1, w, 1, ch}
		return e.reshape(e.tiled(e.reshaped(e.input(c, 0), t, pixels...), t, pixels, times), e.output(c, 0), shape)
	}
}

// DEPTH_TO_SPACE: each pixel's channels become a square of block_size pixels.
func planDepthToSpace(c *call) func(*emitter) error {
	if !c.arity(1, 1) {
		return nil
	}
	in := c.rank4(0)
	if c.err != nil {
		return nil
	}
	block := int(c.op.options.Int32(depthToSpaceBlockSize, 0))
	square, err := checkedMul(block, block)
	if err != nil || block <= 0 || in.shape[3]%square != 0 {
		c.malformed("blocks of %d for %d channels", block, in.shape[3])
		return nil
	}
	if block == 1 {
		c.define(0, in.shape...)
		c.keepsScale(0)
		return func(e *emitter) error {
			return e.s.Copy(xnnpack.Copy{Input: e.input(c, 0), Output: e.output(c, 0)})
		}
	}
	c.define(0, in.shape[0], in.shape[1]*block, in.shape[2]*block, in.shape[3]/square)
	c.keepsScale(0)
	return func(e *emitter) error {
		return e.s.DepthToSpace2D(xnnpack.DepthToSpace2D{Input: e.input(c, 0), Output: e.output(c, 0),
			BlockSize: block})
	}
}

// SPACE_TO_DEPTH: a square of block_size pixels becomes the channels of one.
func planSpaceToDepth(c *call) func(*emitter) error {
	if !c.arity(1, 1) {
		return nil
	}
	in := c.rank4(0)
	if c.err != nil {
		return nil
	}
	block := int(c.op.options.Int32(spaceToDepthBlockSize, 0))
	square, err := checkedMul(block, block)
	if err != nil || block <= 0 || in.shape[1]%block != 0 || in.shape[2]%block != 0 {
		c.malformed("blocks of %d for an input of shape %v", block, in.shape)
		return nil
	}
	channels, err := checkedMul(in.shape[3], square)
	if err != nil {
		c.malformed("blocks of %d: %v", block, err)
		return nil
	}
	c.define(0, in.shape[0], in.shape[1]/block, in.shape[2]/block, channels)
	c.keepsScale(0)
	return func(e *emitter) error {
		if block == 1 {
			return e.s.Copy(xnnpack.Copy{Input: e.input(c, 0), Output: e.output(c, 0)})
		}
		return e.s.SpaceToDepth2D(xnnpack.SpaceToDepth2D{Input: e.input(c, 0), Output: e.output(c, 0),
			BlockSize: block})
	}
}

// blocks reads what SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND have in common: an image, the height and width of a block,
// and how much is added to or taken off the four sides. Each side is less than 2^24.
func (c *call) blocks() (in *value, block, sides []int) {
	if !c.arity(3, 3) {
		return nil, nil, nil
	}
	in, block, sides = c.data(0), c.integers(1), c.integers(2)
	if c.err == nil && len(in.shape) != 4 {
		c.unsupported("an input of %d dimensions", len(in.shape))
	}
	if c.err != nil {
		return nil, nil, nil
	}
	if len(block) != 2 || block[0] <= 0 || block[1] <= 0 || len(sides) != 4 || slices.Min(sides) < 0 ||
		slices.Max(append(sides, block...)) >= 1<<24 {
		c.malformed("blocks of %v with %v at the sides", block, sides)
	}
	return in, block, sides
}

// SPACE_TO_BATCH_ND of images: each pixel of a block goes into an image of its own.
func planSpaceToBatch(c *call) func(*emitter) error {
	in, block, sides := c.blocks()
	if c.err != nil {
		return nil
	}
	n, ch := in.shape[0], in.shape[3]
	height, width := in.shape[1]+sides[0]+sides[1], in.shape[2]+sides[2]+sides[3]
	if height%block[0] != 0 || width%block[1] != 0 {
		c.malformed("blocks of %v for %d by %d pixels", block, height, width)
		return nil
	}
	padded := []int{n, height, width, ch}
	h, w := height/block[0], width/block[1]
	images, err := checkedMul(n*block[0], block[1])
	if err != nil {
		c.malformed("blocks of %v: %v", block, err)
		return nil
	}
	if _, err := elements(padded); err != nil {
		c.malformed("%v at the sides: %v", sides, err)
		return nil
	}
	c.define(0, images, h, w, ch)
	c.keepsScale(0)
	return func(e *emitter) error {
		t, id := c.op.inputs[0], e.input(c, 0)
		if slices.Max(sides) > 0 {
			to := e.define(e.like(t, padded...))
			e.pad(id, to, []int{0, sides[0], sides[2], 0}, []int{0, sides[1], sides[3], 0})
			id = to
		}
		id = e.reshaped(id, t, n, h, block[0], w, block[1], ch)
		id = e.transposed(id, t, []int{n, h, block[0], w, block[1], ch}, []int{2, 4, 0, 1, 3, 5})
		return e.reshape(id, e.output(c, 0), []int{images, h, w, ch})
	}
}

// BATCH_TO_SPACE_ND of images: the inverse of SPACE_TO_BATCH_ND.
func planBatchToSpace(c *call) func(*emitter) error {
	in, block, sides := c.blocks()
	if c.err != nil {
		return nil
	}
	square, err := checkedMul(block[0], block[1])
	if err != nil || in.shape[0]%square != 0 {
		c.malformed("blocks of %v for %d images", block, in.shape[0])
		return nil
	}
	n, h, w, ch := in.shape[0]/square, in.shape[1], in.shape[2], in.shape[3]
	whole := []int{n, h * block[0], w * block[1], ch}
	shape := []int{n, whole[1] - sides[0] - sides[1], whole[2] - sides[2] - sides[3], ch}
	c.define(0, shape...)
	c.keepsScale(0)
	return func(e *emitter) error {
		t := c.op.inputs[0]
		id := e.reshaped(e.input(c, 0), t, block[0], block[1], n, h, w, ch)
		id = e.transposed(id, t, []int{block[0], block[1], n, h, w, ch}, []int{2, 3, 0, 4, 1, 5})
		if slices.Max(sides) == 0 {
			return e.reshape(id, e.output(c, 0), whole)
		}
		return e.slice(e.reshaped(id, t, whole...), e.output(c, 0), []int{0, sides[0], sides[2], 0}, shape)
	}
}

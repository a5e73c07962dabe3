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
		c.float32s(in)
		o := c.op.options
		y := c.window(int(o.Int32(poolFilterHeight, 0)), int(o.Int32(poolStrideH, 0)), 1)
		x := c.window(int(o.Int32(poolFilterWidth, 0)), int(o.Int32(poolStrideW, 0)), 1)
		same, limits := c.samePadding(poolPadding), c.activation(poolActivation)
		if c.err != nil {
			return nil
		}
		height, width := c.slides(y, x, in.shape, same)
		c.define(0, in.shape[0], height, width, in.shape[3])
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

// MEAN over constant axes.
func planMean(c *call) func(*emitter) error {
	if !c.arity(2, 2) {
		return nil
	}
	in, axes := c.data(0), c.integers(1)
	c.float32s(in)
	if c.err != nil {
		return nil
	}
	reduced := make([]bool, len(in.shape))
	for _, a := range axes {
		if a < 0 {
			a += len(in.shape)
		}
		if a < 0 || a >= len(in.shape) {
			c.malformed("axes %v of shape %v", axes, in.shape)
			return nil
		}
		reduced[a] = true
	}
	keep := c.op.options.Bool(reducerKeepDims)
	var over, shape []int
	for i, d := range in.shape {
		switch {
		case !reduced[i]:
			shape = append(shape, d)
		case keep:
			shape = append(shape, 1)
		}
		if reduced[i] {
			over = append(over, i)
		}
	}
	c.define(0, shape...)
	return func(e *emitter) error {
		if len(over) == 0 {
			return e.s.Copy(xnnpack.Copy{Input: e.input(c, 0), Output: e.output(c, 0)})
		}
		return e.s.StaticReduce(xnnpack.StaticReduce{
			Op: xnnpack.ReduceMean, Axes: over, Input: e.input(c, 0), Output: e.output(c, 0), KeepDims: keep,
		})
	}
}

// PAD with zeros, and PADV2 with a constant: paddings [rank, 2] before and after each dimension.
func planPad(c *call) func(*emitter) error {
	if !c.arity(2, 3) {
		return nil
	}
	in, paddings := c.data(0), c.integers(1)
	c.float32s(in)
	var fill float32
	if c.op.code == opPadV2 {
		fill = c.scalar(2)
	}
	if c.err != nil {
		return nil
	}
	rank := len(in.shape)
	if len(paddings) != 2*rank || slices.Min(append(paddings, 0)) < 0 {
		c.malformed("paddings %v of shape %v", paddings, in.shape)
		return nil
	}
	pre, post, shape := make([]int, rank), make([]int, rank), make([]int, rank)
	for i, d := range in.shape {
		pre[i], post[i] = paddings[2*i], paddings[2*i+1]
		shape[i] = d + pre[i] + post[i]
	}
	c.define(0, shape...)
	return func(e *emitter) error {
		return e.s.StaticConstantPad(xnnpack.StaticConstantPad{
			Input: e.input(c, 0), Output: e.output(c, 0), Pre: pre, Post: post, Value: fill,
		})
	}
}

// RESHAPE to the shape that the second input or else the options give, where one dimension may be -1: what is left.
func planReshape(c *call) func(*emitter) error {
	if !c.arity(1, 2) {
		return nil
	}
	in := c.data(0)
	var shape []int
	if n := c.tensor(1); n != absent && c.plan.graph.tensors[n].data.Size != 0 {
		shape = c.integers(1)
	} else {
		shape = ints(c.op.options.Int32s(reshapeNewShape))
	}
	c.sameTypes(in)
	if c.err != nil {
		return nil
	}
	if len(shape) == 1 && shape[0] == 0 { // how old converters write a scalar
		shape = nil
	}
	total, _ := elements(in.shape)
	known, free := 1, absent
	for i, d := range shape {
		if d == -1 && free == absent {
			free = i
			continue
		}
		var err error
		if known, err = checkedMul(known, d); err != nil || d <= 0 {
			c.malformed("the new shape %v", shape)
			return nil
		}
	}
	if free != absent && total%known == 0 {
		shape[free], known = total/known, total
	}
	if known != total {
		c.malformed("shape %v cannot become %v", in.shape, shape)
		return nil
	}
	c.define(0, shape...)
	return func(e *emitter) error {
		return e.s.StaticReshape(xnnpack.StaticReshape{Input: e.input(c, 0), Output: e.output(c, 0), Shape: shape})
	}
}

// CONCATENATION along an axis.
func planConcatenation(c *call) func(*emitter) error {
	const most = 64 // far more than models have, and few enough to compose
	if !c.arity(1, most) {
		return nil
	}
	first := c.data(0)
	c.float32s(first)
	if a := c.activation(concatenationActivation); a != (xnnpack.Range{}) {
		c.unsupported("a fused activation")
	}
	if c.err != nil {
		return nil
	}
	axis, rank := int(c.op.options.Int32(concatenationAxis, 0)), len(first.shape)
	if axis < 0 {
		axis += rank
	}
	if axis < 0 || axis >= rank {
		c.malformed("axis %d of shape %v", axis, first.shape)
		return nil
	}
	shape := slices.Clone(first.shape)
	shapes := [][]int{first.shape}
	for i := 1; i < len(c.op.inputs); i++ {
		v := c.data(i)
		if c.err != nil {
			return nil
		}
		if v.dtype != first.dtype || len(v.shape) != rank {
			c.malformed("inputs of %v%v and %v%v", first.dtype, first.shape, v.dtype, v.shape)
			return nil
		}
		for d := range rank {
			if d != axis && v.shape[d] != shape[d] {
				c.malformed("inputs of shapes %v and %v along axis %d", first.shape, v.shape, axis)
				return nil
			}
		}
		shape[axis] += v.shape[axis]
		shapes = append(shapes, v.shape)
	}
	c.define(0, shape...)
	return func(e *emitter) error {
		out := e.output(c, 0)
		inputs := make([]xnnpack.ValueID, len(c.op.inputs))
		for i := range inputs {
			inputs[i] = e.input(c, i)
		}
		return e.concatenate(axis, inputs, shapes, out)
	}
}

// RESIZE_BILINEAR to a constant [height, width]. With neither align_corners nor half_pixel_centers the corners of the
// top left pixels coincide, which XNNPACK calls TensorFlow's legacy mode.
func planResizeBilinear(c *call) func(*emitter) error {
	if !c.arity(2, 2) {
		return nil
	}
	in, size := c.rank4(0), c.integers(1)
	c.float32s(in)
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
	return func(e *emitter) error {
		return e.s.StaticResizeBilinear2D(xnnpack.StaticResizeBilinear2D{
			Input: e.input(c, 0), Output: e.output(c, 0), NewSize: xnnpack.Size{Height: size[0], Width: size[1]},
			AlignCorners: align, LegacyMode: !align && !half,
		})
	}
}

// DEPTH_TO_SPACE: each pixel's channels become a square of block_size pixels.
func planDepthToSpace(c *call) func(*emitter) error {
	if !c.arity(1, 1) {
		return nil
	}
	in := c.rank4(0)
	c.float32s(in)
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
		return func(e *emitter) error {
			return e.s.Copy(xnnpack.Copy{Input: e.input(c, 0), Output: e.output(c, 0)})
		}
	}
	c.define(0, in.shape[0], in.shape[1]*block, in.shape[2]*block, in.shape[3]/square)
	return func(e *emitter) error {
		return e.s.DepthToSpace2D(xnnpack.DepthToSpace2D{Input: e.input(c, 0), Output: e.output(c, 0),
			BlockSize: block})
	}
}

// concatenate joins any number of values; a node of XNNPACK joins five at most, so what is joined so far goes into
// the next one.
func (e *emitter) concatenate(axis int, inputs []xnnpack.ValueID, shapes [][]int, out xnnpack.ValueID) error {
	const most = 5
	if len(inputs) == 1 {
		return e.s.Copy(xnnpack.Copy{Input: inputs[0], Output: out})
	}
	for len(inputs) > most {
		joined := slices.Clone(shapes[0])
		for _, s := range shapes[1:most] {
			joined[axis] += s[axis]
		}
		id := e.define(xnnpack.Tensor{Name: "joined", Type: xnnpack.Float32, Shape: joined})
		if err := e.s.Concatenate(xnnpack.Concatenate{Axis: axis, Inputs: inputs[:most], Output: id}); err != nil {
			return err
		}
		inputs = append([]xnnpack.ValueID{id}, inputs[most:]...)
		shapes = append([][]int{joined}, shapes[most:]...)
	}
	return e.s.Concatenate(xnnpack.Concatenate{Axis: axis, Inputs: inputs, Output: out})
}

package tflite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// paddings returns operand 1, a constant [rank, 2]: how many elements are before and after each dimension.
func (c *call) paddings(rank int) (pre, post []int) {
	paddings := c.integers(1)
	if len(paddings) != 2*rank || slices.Min(append(paddings, 0)) < 0 {
		malformed("paddings %v of %d dimensions", paddings, rank)
	}
	for i := 0; i < len(paddings); i += 2 {
		pre, post = append(pre, paddings[i]), append(post, paddings[i+1])
	}
	return pre, post
}

// PAD with zeros, and PADV2 with a constant.
func planPad(c *call) {
	in := c.operand(0)
	pre, post := c.paddings(len(in.shape))
	if c.inGo {
		operands := []int{0}
		if len(c.op.inputs) == 3 {
			operands = append(operands, 2)
			if v := c.operand(2); v.dtype != in.dtype || len(v.shape) > 0 {
				malformed("an element of %v%v for %v", v.dtype, v.shape, in.dtype)
			}
		}
		c.host(operators.Pad(pre, post), operands...)
		return
	}
	var fill float32
	if c.op.code == "PADV2" {
		if fill = float32(c.constantNumber(2)); c.resolve(2).dtype != typeFloat32 {
			unsupported("padding with %v", c.declared(2))
		}
	}
	c.Add(flow.StaticConstantPad(xnnpack.StaticConstantPad{Input: c.inputID(0), Output: c.outputID(0), Pre: pre,
		Post: post, Value: fill}))
}

// RESHAPE to the shape that the second input or else the options give, where one dimension may be -1: what is left.
func planReshape(c *call) {
	in := c.operand(0)
	var shape []int
	n := c.tensor(1)
	if n != absent && (c.plan.values[n].state != undefined || c.plan.graph.tensors[n].data.Size != 0) {
		shape = c.integers(1)
	} else {
		shape = ints(c.op.options.Int32s(reshapeNewShape))
	}
	c.sameTypes(in)
	shape = c.newShape(in.shape, shape)
	c.reshape(shape)
}

// newShape returns the shape of which one dimension may be -1, for as many elements as an old shape has.
func (c *call) newShape(old, shape []int) []int {
	if len(shape) == 1 && shape[0] == 0 { // how old converters write a scalar
		return c.newShape(old, nil)
	}
	shape = slices.Clone(shape)
	for i, d := range shape {
		if d == 0 {
			malformed("the new shape %v", shape)
		}
		shape[i] = max(d, 0) // in a node 0 is the dimension that is free
	}
	checked(func() { shape = flow.StaticReshape(xnnpack.StaticReshape{Shape: shape}).Shape([][]int{old}) })
	return shape
}

// reshape plans an operator that gives operand 0 another shape.
func (c *call) reshape(shape []int) {
	c.shaped(c.inputID(0), c.outputID(0), shape)
}

// EXPAND_DIMS: a new dimension at a constant place.
func planExpandDims(c *call) {
	in := c.operand(0)
	axis := c.axis(1, len(in.shape)+1)
	c.reshape(slices.Insert(slices.Clone(in.shape), axis, 1))
}

// SQUEEZE drops some dimensions of length 1, or all.
func planSqueeze(c *call) {
	in, dims := c.operand(0), ints(c.op.options.Int32s(squeezeDims))
	for i, d := range dims {
		if dims[i] = axisIndex(d, len(in.shape)); in.shape[dims[i]] != 1 {
			malformed("dimensions %v of shape %v", dims, in.shape)
		}
	}
	var shape []int
	for i, d := range in.shape {
		if d != 1 || len(dims) > 0 && !slices.Contains(dims, i) {
			shape = append(shape, d)
		}
	}
	c.reshape(shape)
}

// TRANSPOSE with a constant permutation.
func planTranspose(c *call) {
	in := c.operand(0)
	permutation := c.axes(1, len(in.shape))
	if len(in.shape) == 0 {
		c.reshape(nil)
		return
	}
	c.Add(flow.StaticTranspose(xnnpack.StaticTranspose{Permutation: permutation, Input: c.inputID(0),
		Output: c.outputID(0)}))
}

// part plans an operator whose output 0 is a part of operand 0, perhaps in another shape.
func (c *call) part(offsets, sizes, shape []int) {
	c.shaped(flow.Sliced(c, c.inputID(0), offsets, sizes), c.outputID(0), shape)
}

// SLICE: begin and size are constant, and a size of -1 is what is left.
func planSlice(c *call) {
	in, begin, size := c.operand(0), c.integers(1), c.integers(2)
	sizes, ok := sliceSizes(in.shape, begin, size)
	if !ok {
		malformed("a slice of %v from %v of shape %v", size, begin, in.shape)
	}
	if slices.Contains(sizes, 0) {
		c.vacate(0, sizes)
		return
	}
	if c.inGo {
		c.host(operators.Slice(begin, sizes), 0)
		return
	}
	c.copiedFaster(in, sizes)
	c.part(begin, sizes, sizes)
}

// copiedFaster has Go move much of single precision: XNNPACK's nodes move element by element where Go copies rows. A
// small move is not worth a stage of its own.
func (c *call) copiedFaster(in *value, shape []int) {
	const much = 1 << 15
	if n, err := elements(shape); err == nil && n >= much && in.dtype == typeFloat32 {
		unsupported("of %v elements as nodes", n)
	}
}

// vacate gives output i a shape without elements. Nothing takes it but CONCATENATION, and RESHAPE as a scalar's shape.
func (c *call) vacate(i int, shape []int) {
	if t := c.outputTensor(i); t != nil {
		c.plan.values[c.op.outputs[i]] = value{state: empty, shape: shape, dtype: t.element()}
		c.defined = append(c.defined, i)
	}
}

// sliceSizes returns the sizes of a slice of a shape, if it is in it.
func sliceSizes(shape, begin, size []int) ([]int, bool) {
	if len(begin) != len(shape) || len(size) != len(shape) {
		return nil, false
	}
	sizes := slices.Clone(size)
	for i, d := range shape {
		if sizes[i] == -1 {
			sizes[i] = d - begin[i]
		}
		if begin[i] < 0 || sizes[i] < 0 || begin[i] > d-sizes[i] {
			return nil, false
		}
	}
	return sizes, true
}

// stridedSlice is what STRIDED_SLICE takes of a shape.
type stridedSlice struct {
	begin, size, stride []int
	shape               []int // without the dimensions that are dropped
}

// stridedSlice reads operands 1 to 3 and the masks.
func (c *call) stridedSlice(shape []int) (s stridedSlice) {
	begin, end, stride := c.integers(1), c.integers(2), c.integers(3)
	o := c.op.options
	mask := func(slot, i int) bool { return o.Int32(slot, 0)>>i&1 != 0 }
	if o.Bool(sliceOffset) {
		unsupported("an offset in a slice")
	}
	n, unread := len(begin), len(shape) // dimensions that no number is about
	for i := range n {
		if !mask(sliceNewAxisMask, i) && !mask(sliceEllipsisMask, i) {
			unread--
		}
	}
	if n > 31 || unread < 0 || len(end) != n || len(stride) != n {
		malformed("a slice from %v to %v by %v of shape %v", begin, end, stride, shape)
	}
	add := func(start, size, step int, dropped bool) {
		s.begin, s.size, s.stride = append(s.begin, start), append(s.size, size), append(s.stride, step)
		if !dropped {
			s.shape = append(s.shape, size)
		}
	}
	rest := func() {
		for ; unread > 0; unread-- {
			add(0, shape[len(s.begin)], 1, false)
		}
	}
	for i := range n {
		switch {
		case mask(sliceEllipsisMask, i):
			rest()
			continue
		case mask(sliceNewAxisMask, i):
			s.shape = append(s.shape, 1)
			continue
		}
		d, step, dropped := shape[len(s.begin)], stride[i], mask(sliceShrinkAxisMask, i)
		start, limit := 0, d
		if step < 0 {
			start, limit = d-1, -1
		}
		clamped := func(n int) int {
			if n < 0 {
				n += d
			}
			if step < 0 {
				return min(max(n, -1), d-1)
			}
			return min(max(n, 0), d)
		}
		if !mask(sliceBeginMask, i) {
			start = clamped(begin[i])
		}
		switch {
		case dropped:
			limit, step = start+1, 1
		case !mask(sliceEndMask, i):
			limit = clamped(end[i])
		}
		if size := limit - start; step != 0 && size*step <= 0 && !dropped {
			add(0, 0, 1, false)
			continue
		}
		if step == 0 || start < 0 || start >= d {
			malformed("a slice from %v to %v by %v of shape %v", begin, end, stride, shape)
		}
		add(start, (limit-start+step-step/abs(step))/step, step, dropped)
	}
	rest()
	return s
}

func abs(n int) int { return max(n, -n) }

// STRIDED_SLICE. XNNPACK has strides of 1.
func planStridedSlice(c *call) {
	in := c.operand(0)
	s := c.stridedSlice(in.shape)
	if slices.Contains(s.size, 0) {
		c.vacate(0, s.shape)
		return
	}
	if c.inGo {
		var places [][]int
		for d, n := range s.size {
			places = append(places, operators.Every(s.begin[d], n, s.stride[d]))
		}
		c.define(0, s.shape...)
		c.host(operators.Take(0, places...), 0)
		return
	}
	for i, n := range s.stride {
		if n != 1 && s.size[i] != 1 {
			unsupported("a slice by %v", s.stride)
		}
	}
	c.copiedFaster(in, s.size)
	c.part(s.begin, s.size, s.shape)
}

// GATHER of known rows of a computed value, where each follows the one before.
func planGatherPart(c *call) {
	in, rows, indices := c.operand(0), c.integers(1), c.resolve(1)
	rank := len(in.shape)
	axis := axisIndex(int(c.op.options.Int32(gatherAxis, 0)), rank)
	consecutive := c.op.options.Int32(gatherBatchDims, 0) == 0 && in.state == dynamic
	for i, n := range rows {
		consecutive = consecutive && n == rows[0]+i && n >= 0 && n < in.shape[axis]
	}
	if !consecutive {
		unsupported("rows %v along axis %d of shape %v", rows, axis, in.shape)
	}
	c.sameTypes(in)
	offsets, sizes := make([]int, rank), slices.Clone(in.shape)
	offsets[axis], sizes[axis] = rows[0], len(rows)
	c.part(offsets, sizes, slices.Concat(in.shape[:axis], indices.shape, in.shape[axis+1:]))
}

// parts plans an operator whose outputs are the parts of an operand along an axis, each in one of two shapes.
func (c *call) parts(input, axis int, lengths []int, dropped bool) {
	in := c.operand(input)
	axis = axisIndex(axis, len(in.shape))
	if len(c.op.outputs) != len(lengths) {
		malformed("%d outputs along axis %d of shape %v", len(c.op.outputs), axis, in.shape)
	}
	offsets, sizes := make([]int, len(in.shape)), slices.Clone(in.shape)
	for i, n := range lengths {
		sizes[axis] = n
		switch {
		case n == 0:
			c.vacate(i, slices.Clone(sizes))
		case n < 0:
			malformed("parts of %v along axis %d of shape %v", lengths, axis, in.shape)
		case dropped:
			part := flow.Sliced(c, c.inputID(input), offsets, sizes)
			c.shaped(part, c.outputID(i), slices.Delete(slices.Clone(sizes), axis, axis+1))
		default:
			c.Add(flow.StaticSlice(xnnpack.StaticSlice{Offsets: slices.Clone(offsets), Sizes: slices.Clone(sizes),
				Input: c.inputID(input), Output: c.outputID(i)}))
		}
		offsets[axis] += n
	}
	if offsets[axis] != in.shape[axis] {
		malformed("parts of %v along axis %d of shape %v", lengths, axis, in.shape)
	}
}

// SPLIT into equal parts: the axis, the value.
func planSplit(c *call) {
	in, n := c.operand(1), len(c.op.outputs)
	axis := c.axis(0, len(in.shape))
	if n == 0 || in.shape[axis]%n != 0 {
		malformed("%d parts along axis %d of shape %v", n, axis, in.shape)
	}
	c.parts(1, axis, slices.Repeat([]int{in.shape[axis] / n}, n), false)
}

// SPLIT_V: the value, the lengths of its parts, the axis. A length of -1 is what the others leave.
func planSplitV(c *call) {
	in, lengths := c.operand(0), c.integers(1)
	axis := c.axis(2, len(in.shape))
	if rest := slices.Index(lengths, -1); rest >= 0 {
		lengths[rest] = in.shape[axis]
		for i, n := range lengths {
			if i != rest {
				lengths[rest] -= n
			}
		}
	}
	c.parts(0, axis, lengths, false)
}

// UNPACK: the parts of one element along an axis, without it.
func planUnpack(c *call) {
	axis := int(c.op.options.Int32(unpackAxis, 0))
	c.parts(0, axis, slices.Repeat([]int{1}, len(c.op.outputs)), true)
}

// CONCATENATION along an axis.
func planConcatenation(c *call) {
	first := c.operandList()[0]
	if a := c.activation(concatenationActivation); a != (xnnpack.Range{}) {
		unsupported("a fused activation")
	}
	axis := axisIndex(int(c.op.options.Int32(concatenationAxis, 0)), len(first.shape))
	var inputs flow.IDs
	for i := range c.op.inputs {
		inputs = append(inputs, c.inputID(i))
	}
	flow.Join(c, axis, inputs, c.outputID(0))
}

// PACK: values of one shape, joined along a new dimension.
func planPack(c *call) {
	first := c.operandList()[0]
	axis := axisIndex(int(c.op.options.Int32(packAxis, 0)), len(first.shape)+1)
	single := slices.Insert(slices.Clone(first.shape), axis, 1)
	var inputs flow.IDs
	for i := range c.op.inputs {
		inputs = append(inputs, flow.Reshaped(c, c.inputID(i), single...))
	}
	flow.Join(c, axis, inputs, c.outputID(0))
}

// TILE: the input several times along each dimension.
func planTile(c *call) {
	in, times := c.operand(0), c.integers(1)
	if len(times) != len(in.shape) {
		malformed("%v times an input of shape %v", times, in.shape)
	}
	if c.inGo {
		c.host(operators.Tile(times), 0)
		return
	}
	if in.dtype == typeFloat32 {
		unsupported("of single precision as nodes") // which multiply by ones
	}
	c.tile(in.shape, times)
}

// tile plans that the output is operand 0, in a shape, several times along each dimension.
func (c *call) tile(start, times []int) {
	shape := slices.Clone(start)
	for i, n := range times {
		if n > mostJoined {
			unsupported("%v times", times)
		}
		shape[i] *= n // a number that is not positive is none of a shape
	}
	c.moves(shape...)
	id := c.inputID(0)
	if rank := len(c.plan.shapeOf(id)); rank < len(start) {
		id = flow.Reshaped(c, id, start...)
	}
	c.shaped(c.tiled(id, times), c.outputID(0), shape)
}

// tiled returns a value that is repeated along each dimension.
func (c *call) tiled(id flow.ID, times []int) flow.ID {
	shape := c.plan.shapeOf(id)
	if src, factors := tiling(shape, times); len(src) <= maxDims &&
		c.plan.describe(int(c.exampleOf(id))).Type == xnnpack.Float32 {
		whole := flow.Combine(c, xnnpack.Multiply, flow.Reshaped(c, id, src...), c.ones(factors))
		out := slices.Clone(shape)
		for i, n := range times {
			out[i] *= n
		}
		return flow.Reshaped(c, whole, out...)
	}
	for axis, n := range slices.Backward(times) {
		if n > 1 {
			copies := slices.Repeat(flow.IDs{id}, n)
			id = c.Inside(id)
			flow.Join(c, axis, copies, id)
		}
	}
	return id
}

// maxDims is how many dimensions XNNPACK multiplies (XNN_MAX_TENSOR_DIMS).
const maxDims = 6

// tiling returns the shapes of a value and of ones whose product is the value, repeated along each dimension.
func tiling(shape, times []int) (src, ones []int) {
	for i, n := range times {
		switch last := len(src) - 1; {
		case n > 1:
			src, ones = append(src, 1, shape[i]), append(ones, n, 1)
		case last >= 0 && ones[last] == 1:
			src[last] *= shape[i]
		default:
			src, ones = append(src, shape[i]), append(ones, 1)
		}
	}
	return src, ones
}

// ones returns a constant of ones.
func (c *call) ones(shape []int) flow.ID {
	n, _ := elements(shape)
	one := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1))
	return c.constant(c.plan.derive(&constant{name: fmt.Sprint("ones ", shape), stored: typeFloat32,
		dtype: typeFloat32, size: 4 * n, data: bytes.Repeat(one, n), shape: shape}))
}

// REVERSE_V2 along constant axes.
func planReverse(c *call) {
	in := c.operand(0)
	c.host(operators.Reverse(c.axes(1, len(in.shape))), 0)
}

// REVERSE_SEQUENCE.
func planReverseSequence(c *call) {
	axis, batch := int(c.op.options.Int32(reverseSequenceAxis, 0)), int(c.op.options.Int32(reverseSequenceBatch, 0))
	c.operand(0)
	c.integerIndices(1)
	c.host(operators.ReverseSequences(axis, batch), 0, 1)
}

// MATRIX_DIAG.
func planMatrixDiag(c *call) {
	c.sameTypes(c.operand(0))
	c.host(operators.Diagonals(), 0)
	if c.plan.quantized(c.op.inputs[0]) {
		c.wide = true // a byte of zero is no zero
	}
}

// MATRIX_SET_DIAG.
func planMatrixSetDiag(c *call) {
	in, diagonals := c.operand(0), c.operand(1)
	if in.dtype != diagonals.dtype {
		malformed("diagonals of type %v in %v", c.declared(1), c.declared(0))
	}
	c.sameTypes(in)
	c.host(operators.SetDiagonals(), 0, 1)
}

// MIRROR_PAD: paddings [rank, 2]. The mode is 1 if the elements at the edge are repeated.
func planMirrorPad(c *call) {
	in := c.operand(0)
	mode := c.op.options.Byte(mirrorPadMode)
	if mode > 1 {
		malformed("mode %d", mode)
	}
	pre, post := c.paddings(len(in.shape))
	c.host(operators.MirrorPad(pre, post, mode == 1), 0)
}

// BROADCAST_TO a known shape.
func planBroadcastTo(c *call) {
	in, shape := c.operand(0), c.integers(1)
	if c.inGo {
		c.host(operators.Expand(shape), 0)
		return
	}
	if whole := c.broadcast(in.shape, shape); !slices.Equal(whole, shape) {
		malformed("shape %v for %v", shape, in.shape)
	}
	start := append(slices.Repeat([]int{1}, len(shape)-len(in.shape)), in.shape...)
	times := slices.Clone(shape)
	for i, n := range start {
		times[i] /= n
	}
	c.tile(start, times)
}

// BROADCAST_ARGS: the shape that two known shapes are broadcast to.
func planBroadcastArgs(c *call) {
	shape := c.broadcast(c.integers(0), c.integers(1))
	if len(shape) == 0 {
		c.vacate(0, []int{0})
		return
	}
	c.host(operators.Integers(shape, []int{len(shape)}))
}

// FILL of a known shape with a number.
func planFill(c *call) {
	shape, v := c.integers(0), c.operand(1)
	c.sameTypes(v)
	if n, _ := elements(v.shape); n != 1 {
		malformed("a value of shape %v", v.shape)
	}
	c.host(operators.AsStrided(shape, make([]int, len(shape)), 0), 1)
}

// GATHER along an axis.
func planGather(c *call) {
	axis, batch := int(c.op.options.Int32(gatherAxis, 0)), int(c.op.options.Int32(gatherBatchDims, 0))
	if batch < 0 {
		batch += len(c.resolve(1).shape)
	}
	c.gather(0, 1, axisIndex(axis, len(c.resolve(0).shape)), batch)
}

// EMBEDDING_LOOKUP.
func planEmbedding(c *call) { c.gather(1, 0, 0, 0) }

// gather plans that the output has slices of the operand table.
func (c *call) gather(table, indices, axis, batch int) {
	src, rows := c.resolve(table), c.operand(indices)
	c.integerIndices(indices)
	op := operators.Gather(axis, batch)
	if k := src.constant; k != nil && k.scatter == nil && axis == 0 {
		var shape []int
		checked(func() { shape = op([][]int{src.shape, rows.shape}).Shapes[0] })
		c.define(0, shape...)
		if dst := c.plan.values[c.op.outputs[0]].dtype; k.dtype.isBytes() && dst == typeFloat32 {
			k.scaled()
			k = k.dequantized()
		}
		if k.widened() && k.dtype == typeFloat32 {
			c.do(func(r *run) { k.lookUp(r, r.in[indices]) })
			return
		}
	}
	c.sameTypes(c.operand(table))
	c.host(op, table, indices)
}

// lookUp fills an output with rows of the constant, and converts no others.
func (c *constant) lookUp(r *run, rows operators.Array) {
	stored := c.storedIn(r.file)
	bits := narrowBits[c.stored]
	if bits == 0 {
		bits = 8 * c.stored.Size()
	}
	size := c.size / c.shape[0]
	n := size / c.dtype.Size()
	for i := range len(r.out[0].Data) / size {
		first := rows.Index(i, c.shape[0]) * n
		dst, src := r.out[0].Data[i*size:][:size], stored[first*bits/8:(first*bits+n*bits+7)/8]
		switch {
		case c.stored == typeFloat16:
			fault.Check(xnnpack.WidenF16(dst, slices.Clone(src))) // the copy is aligned
		case bits < 8:
			c.dequantize(dst, unpacked(src, bits)[first*bits%8/bits:], first)
		default:
			c.dequantize(dst, src, first)
		}
	}
}

// GATHER_ND.
func planGatherND(c *call) {
	c.sameTypes(c.operand(0))
	c.operand(1)
	c.integerIndices(1)
	c.host(operators.GatherSlices(), 0, 1)
}

// SCATTER_ND to a known shape.
func planScatterND(c *call) {
	shape := c.integers(2)
	c.operand(0)
	c.integerIndices(0)
	c.sameTypes(c.operand(1))
	c.host(operators.ScatterSlices(shape), 0, 1)
}

// DYNAMIC_UPDATE_SLICE.
func planDynamicUpdateSlice(c *call) {
	in, update := c.operand(0), c.operand(1)
	c.operand(2)
	c.integerIndices(2)
	c.sameTypes(in)
	if update.dtype != in.dtype {
		malformed("an update of %v of %v", c.declared(1), c.declared(0))
	}
	c.host(operators.Update(), 0, 1, 2)
}

// ONE_HOT: the depth is known.
func planOneHot(c *call) {
	in, depth, on, off := c.operand(0), c.oneInteger(1), c.operand(2), c.operand(3)
	c.integerIndices(0)
	axis := axisIndex(int(c.op.options.Int32(oneHotAxis, 0)), len(in.shape)+1)
	if on.dtype != off.dtype || len(on.shape)+len(off.shape) > 0 {
		malformed("%v%v or %v%v", on.dtype, on.shape, off.dtype, off.shape)
	}
	c.sameTypes(on)
	c.host(operators.OneHot(axis, depth), 0, 2, 3)
}

// SHAPE, RANK and ZEROS_LIKE depend on a shape alone.
func planShape(list func(shape []int) (numbers, filled []int)) func(*call) {
	return func(c *call) { c.host(operators.Integers(list(c.resolve(0).shape))) }
}

func dimensions(shape []int) (numbers, filled []int) { return shape, []int{len(shape)} }
func shapeRank(shape []int) (numbers, filled []int)  { return []int{len(shape)}, nil }
func noNumbers(shape []int) (numbers, filled []int)  { return nil, shape }

// RANGE of known numbers.
func planRange(c *call) {
	start, limit, step := c.constantNumber(0), c.constantNumber(1), c.constantNumber(2)
	n := (limit - start) / step
	if !(n > 0 && n <= maxElements) {
		malformed("from %v to %v by %v", start, limit, step)
	}
	c.host(operators.Count(start, step, int(math.Ceil(n))))
}

// NON_MAX_SUPPRESSION_V4: boxes, scores, how many stay at most, the overlap, the least score. V5 has sigma, too. The
// outputs are indices, in V5 their scores, and how many there are.
func planSuppression(c *call) {
	operands, types := []int{0, 1, 3, 4}, []elementType{typeInt32, typeInt32}
	soft := c.op.code == "NON_MAX_SUPPRESSION_V5"
	if soft {
		operands, types = append(operands, 5), slices.Insert(types, 1, typeFloat32)
	}
	count := c.oneInteger(2)
	for k, i := range operands {
		if v := c.operand(i); k > 1 && (v.dtype != typeFloat32 || len(v.shape) > 0) {
			malformed("input %d of %v%v", i, v.dtype, v.shape)
		} else if v.dtype != typeFloat32 {
			unsupported("boxes and scores of type %v", v.dtype)
		}
	}
	if len(c.op.outputs) != len(types) {
		malformed("%d outputs", len(c.op.outputs))
	}
	for i, n := range c.op.outputs {
		if t := &c.plan.graph.tensors[n]; t.dtype != types[i] {
			malformed("output %q of type %v", t.name, t.dtype)
		}
	}
	c.host(operators.Suppress(count, soft), operands...)
}

package tflite

import (
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// dimension returns the dimension of so many that a number stands for; a negative one counts from the end.
func dimension(n, rank int) int {
	d := n
	if d < 0 {
		d += rank
	}
	if d < 0 || d >= rank {
		malformed("dimension %d of %d", n, rank)
	}
	return d
}

// axes returns the dimensions whose numbers operand i, a constant, has.
func (c *call) axes(i, rank int) []int {
	axes := slices.Clone(c.integers(i))
	for k, a := range axes {
		axes[k] = dimension(a, rank)
	}
	return axes
}

// axis returns the dimension whose number operand i, a constant, is.
func (c *call) axis(i, rank int) int { return dimension(c.oneInteger(i), rank) }

// REVERSE_V2 along constant axes.
func planReverse(c *call) {
	in := c.data(0)
	c.host(operators.Reverse(c.axes(1, len(in.shape))), 0)
}

// REVERSE_SEQUENCE.
func planReverseSequence(c *call) {
	axis, batch := int(c.op.options.Int32(reverseSequenceAxis, 0)), int(c.op.options.Int32(reverseSequenceBatch, 0))
	c.data(0)
	c.index(1)
	c.host(operators.ReverseSequences(axis, batch), 0, 1)
}

// MATRIX_DIAG.
func planMatrixDiag(c *call) {
	c.sameTypes(c.data(0))
	c.host(operators.Diagonals(), 0)
	if c.plan.quantized(c.op.inputs[0]) {
		c.wide = true // a byte of zero is no zero
	}
}

// MATRIX_SET_DIAG.
func planMatrixSetDiag(c *call) {
	in, diagonals := c.data(0), c.data(1)
	if in.dtype != diagonals.dtype {
		malformed("diagonals of type %v in %v", c.declared(1), c.declared(0))
	}
	c.sameTypes(in)
	c.host(operators.SetDiagonals(), 0, 1)
}

// MIRROR_PAD: paddings [rank, 2]. The mode is 1 if the elements at the edge are repeated.
func planMirrorPad(c *call) {
	in := c.data(0)
	mode := c.op.options.Byte(mirrorPadMode)
	if mode > 1 {
		malformed("mode %d", mode)
	}
	pre, post := c.paddings(len(in.shape))
	c.host(operators.MirrorPad(pre, post, mode == 1), 0)
}

// BROADCAST_TO a known shape.
func planBroadcastTo(c *call) {
	in, shape := c.data(0), c.integers(1)
	if c.inGo {
		c.host(operators.Expand(shape), 0)
		return
	}
	if whole := c.broadcast(in.shape, shape); !slices.Equal(whole, shape) {
		malformed("shape %v for %v", shape, in.shape)
	}
	from := append(slices.Repeat([]int{1}, len(shape)-len(in.shape)), in.shape...)
	times := slices.Clone(shape)
	for i, n := range from {
		times[i] /= n
	}
	c.tile(from, times)
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
	shape, v := c.integers(0), c.data(1)
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
	c.gather(0, 1, dimension(axis, len(c.resolve(0).shape)), batch)
}

// EMBEDDING_LOOKUP.
func planEmbedding(c *call) { c.gather(1, 0, 0, 0) }

// gather plans that the output has slices of the operand table.
func (c *call) gather(table, indices, axis, batch int) {
	src, rows := c.resolve(table), c.data(indices)
	c.index(indices)
	op := operators.Gather(axis, batch)
	if k := src.constant; k != nil && k.scatter == nil && k.stored != typeInt4 && axis == 0 {
		var shape []int
		checked(func() { shape = op([][]int{src.shape, rows.shape}).Shapes[0] })
		c.define(0, shape...)
		if dst := c.plan.values[c.op.outputs[0]].dtype; k.dtype.isBytes() && dst == typeFloat32 {
			k.scaled()
			k = k.dequantized()
		}
		if k.widened() {
			c.do(func(r *run) { k.lookUp(r, r.in[indices]) })
			return
		}
	}
	c.sameTypes(c.data(table))
	c.host(op, table, indices)
}

// index checks that an operand has integers.
func (c *call) index(i int) {
	if t := c.declared(i); t != typeInt32 && t != typeInt64 {
		unsupported("indices of type %v", t)
	}
}

// lookUp fills an output with rows of the constant, and converts no others.
func (c *constant) lookUp(r *run, rows operators.Array) {
	stored := c.data
	if stored == nil {
		stored = c.source.In(r.file)
	}
	width, size := len(stored)/c.shape[0], c.size/c.shape[0]
	for i := range len(r.out[0].Data) / size {
		row := rows.Index(i, c.shape[0])
		dst, src := r.out[0].Data[i*size:][:size], stored[row*width:][:width]
		if c.stored != typeFloat16 {
			c.dequantize(dst, src, row*size/4)
		} else {
			fault.Check(xnnpack.WidenF16(dst, slices.Clone(src))) // the copy is aligned
		}
	}
}

// GATHER_ND.
func planGatherND(c *call) {
	c.sameTypes(c.data(0))
	c.data(1)
	c.index(1)
	c.host(operators.GatherSlices(), 0, 1)
}

// SCATTER_ND to a known shape.
func planScatterND(c *call) {
	shape := c.integers(2)
	c.data(0)
	c.index(0)
	c.sameTypes(c.data(1))
	c.host(operators.ScatterSlices(shape), 0, 1)
}

// DYNAMIC_UPDATE_SLICE.
func planDynamicUpdateSlice(c *call) {
	in, update := c.data(0), c.data(1)
	c.data(2)
	c.index(2)
	c.sameTypes(in)
	if update.dtype != in.dtype {
		malformed("an update of %v of %v", c.declared(1), c.declared(0))
	}
	c.host(operators.Update(), 0, 1, 2)
}

// ONE_HOT: the depth is known.
func planOneHot(c *call) {
	in, depth, on, off := c.data(0), c.oneInteger(1), c.data(2), c.data(3)
	c.index(0)
	axis := dimension(int(c.op.options.Int32(oneHotAxis, 0)), len(in.shape)+1)
	if on.dtype != off.dtype || len(on.shape)+len(off.shape) > 0 {
		malformed("%v%v or %v%v", on.dtype, on.shape, off.dtype, off.shape)
	}
	c.sameTypes(on)
	c.host(operators.OneHot(axis, depth), 0, 2, 3)
}

// SHAPE, RANK and ZEROS_LIKE depend on a shape alone.
func planShape(list func(shape []int) (numbers, result []int)) func(*call) {
	return func(c *call) { c.host(operators.Integers(list(c.resolve(0).shape))) }
}

func dimensions(shape []int) (numbers, result []int) { return shape, []int{len(shape)} }
func rank(shape []int) (numbers, result []int)       { return []int{len(shape)}, nil }
func zeros(shape []int) (numbers, result []int)      { return nil, shape }

// RANGE of known numbers.
func planRange(c *call) {
	start, limit, step := c.number(0), c.number(1), c.number(2)
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
		if v := c.data(i); k > 1 && (v.dtype != typeFloat32 || len(v.shape) > 0) {
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

package tflite

import (
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// do has Go compute the operator.
func (c *call) do(f func(*run)) { c.compute = f }

// take plans in Go that output 0, in some dimensions that have the elements of its own, is made of elements of operand
// 0, see [operators.Take].
func (c *call) take(dims []int, places [][]int) {
	c.do(func(r *run) {
		r.out[0].Shape = dims
		operators.Take(r.out[0], r.in[0], places, nil)
	})
}

// dimension returns the one of so many dimensions that a number is of; a negative one counts from the end.
func dimension(n, rank int) int {
	at := n
	if at < 0 {
		at += rank
	}
	if at < 0 || at >= rank {
		malformed("dimension %d of %d", n, rank)
	}
	return at
}

// axes returns the dimensions that operand i, a constant, has the numbers of.
func (c *call) axes(i, rank int) []int {
	axes := slices.Clone(c.integers(i))
	for k, a := range axes {
		axes[k] = dimension(a, rank)
	}
	return axes
}

// axis is axes of one number.
func (c *call) axis(i, rank int) int { return dimension(c.oneInteger(i), rank) }

// REVERSE_V2 along constant axes.
func planReverse(c *call) {
	in, axes := c.data(0), c.axes(1, len(c.resolve(0).shape))
	places := operators.Everywhere(in.shape)
	for _, a := range axes {
		places[a] = operators.Every(in.shape[a]-1, in.shape[a], -1)
	}
	c.moves(in.shape...)
	c.take(in.shape, places)
}

// REVERSE_SEQUENCE: the first elements along an axis, as many as each batch says, in the other order.
func planReverseSequence(c *call) {
	in, lengths := c.data(0), c.data(1)
	axis, batch := int(c.op.options.Int32(reverseSequenceAxis, 0)), int(c.op.options.Int32(reverseSequenceBatch, 0))
	rank := len(in.shape)
	if axis < 0 || axis >= rank || batch < 0 || batch >= rank || axis == batch ||
		!slices.Equal(lengths.shape, []int{in.shape[batch]}) {
		malformed("%v lengths along axis %d, for each of axis %d, of shape %v", lengths.shape, axis, batch, in.shape)
	}
	c.index(1)
	c.moves(in.shape...)
	c.do(func(r *run) { operators.ReverseSequences(r.out[0], r.in[0], r.in[1], axis, batch) })
}

// MATRIX_DIAG: matrices with rows of numbers as their diagonals, and zeros. MATRIX_SET_DIAG: with those of others.
func planMatrixDiag(c *call) {
	last := 0
	if c.op.code == "MATRIX_SET_DIAG" {
		last = 1
	}
	in, diagonal := c.data(0), c.data(last)
	shape, rank := in.shape, len(diagonal.shape)
	if last == 0 && rank > 0 {
		shape = append(slices.Clone(shape), shape[rank-1])
	}
	if rank == 0 || len(shape) != rank+1 || in.dtype != diagonal.dtype ||
		!slices.Equal(diagonal.shape, append(slices.Clone(shape[:rank-1]), min(shape[rank-1], shape[rank]))) {
		malformed("diagonals of shape %v in shape %v", diagonal.shape, in.shape)
	}
	c.sameTypes(in)
	c.moves(shape...)
	c.keepsScale(c.in(last))
	if last == 0 && c.plan.quantized(c.op.inputs[0]) {
		c.wide = true // a byte of zero is no zero
	}
	c.do(func(r *run) {
		if clear(r.out[0].Data); last > 0 {
			copy(r.out[0].Data, r.in[0].Data)
		}
		operators.SetDiagonals(r.out[0], r.in[last])
	})
}

// MIRROR_PAD: what is before and after each dimension is its mirror image, with the elements at the edge or without.
func planMirrorPad(c *call) {
	in, paddings := c.data(0), c.integers(1)
	edge := int(c.op.options.Byte(mirrorPadMode)) // 1 repeats it
	if edge > 1 || len(paddings) != 2*len(in.shape) {
		malformed("paddings %v of shape %v, mode %d", paddings, in.shape, edge)
	}
	var shape []int
	var places [][]int
	for d, n := range in.shape {
		before, after := paddings[2*d], paddings[2*d+1]
		if most := n - 1 + edge; before < 0 || after < 0 || before > most || after > most {
			malformed("paddings %v of shape %v", paddings, in.shape)
		}
		shape = append(shape, before+n+after)
		places = append(places, slices.Concat(operators.Every(before-edge, before, -1), operators.Every(0, n, 1),
			operators.Every(n-2+edge, after, -1)))
	}
	c.moves(shape...)
	c.take(shape, places)
}

// BROADCAST_TO a known shape.
func planBroadcastTo(c *call) {
	in, shape := c.data(0), c.integers(1)
	if len(shape) < len(in.shape) {
		malformed("shape %v for %v", shape, in.shape)
	}
	from := append(slices.Repeat([]int{1}, len(shape)-len(in.shape)), in.shape...)
	times := slices.Clone(from)
	for i, n := range shape {
		switch {
		case from[i] == n:
			times[i] = 1
		case from[i] == 1:
			times[i] = n
		default:
			malformed("shape %v for %v", shape, in.shape)
		}
	}
	c.tile(from, times)
}

// BROADCAST_ARGS: the shape that two known shapes are broadcast to.
func planBroadcastArgs(c *call) {
	a, b := c.integers(0), c.integers(1)
	shape, ok := operators.Broadcast(a, b)
	if !ok {
		malformed("shapes %v and %v", a, b)
	}
	if len(shape) == 0 {
		c.vacate(0, []int{0})
		return
	}
	c.define(0, len(shape))
	c.do(func(r *run) {
		for i, n := range shape {
			r.out[0].Put(i, float64(n))
		}
	})
}

// FILL of a known shape with a number.
func planFill(c *call) {
	shape, v := c.integers(0), c.data(1)
	c.sameTypes(v)
	c.define(0, shape...)
	if n, _ := elements(v.shape); n != 1 {
		malformed("a value of shape %v", v.shape)
	}
	c.keepsScale(c.in(1))
	c.do(func(r *run) { operators.Strided(r.out[0], r.in[1], 0, make([]int, len(shape))) })
}

// GATHER along an axis, and EMBEDDING_LOOKUP, which has its operands the other way round.
func planGather(c *call) {
	table, at := 0, 1
	if c.op.code == "EMBEDDING_LOOKUP" {
		table, at = 1, 0
	}
	from, rows := c.resolve(table), c.data(at)
	axis, batch := 0, 0
	if c.op.code == "GATHER" {
		axis, batch = int(c.op.options.Int32(gatherAxis, 0)), int(c.op.options.Int32(gatherBatchDims, 0))
	}
	if batch < 0 {
		batch += len(rows.shape)
	}
	axis = dimension(axis, len(from.shape))
	if batch < 0 || batch > axis || batch > len(rows.shape) ||
		!slices.Equal(from.shape[:batch], rows.shape[:batch]) {
		malformed("axis %d of shape %v, %d batches, indices of shape %v", axis, from.shape, batch, rows.shape)
	}
	c.index(at)
	c.define(0, slices.Concat(from.shape[:axis], rows.shape[batch:], from.shape[axis+1:])...)
	if k := from.constant; k != nil && k.scatter == nil && k.stored != typeInt4 && axis == 0 {
		if to := c.plan.values[c.op.outputs[0]].dtype; k.dtype.isBytes() && to == typeFloat32 {
			k.scaled()
			k = k.dequantized()
		}
		if k.widened() {
			c.do(func(r *run) { k.lookUp(r, r.in[at]) })
			return
		}
	}
	from = c.data(table)
	c.sameTypes(from)
	c.keepsScale(c.in(table))
	c.do(func(r *run) { operators.Gather(r.out[0], r.in[table], r.in[at], axis, batch) })
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
	from, at := c.data(0), c.data(1)
	depth := c.depth(at, from.shape)
	c.sameTypes(from)
	c.index(1)
	c.moves(slices.Concat(at.shape[:len(at.shape)-1], from.shape[depth:])...)
	c.do(func(r *run) { operators.GatherSlices(r.out[0], r.in[0], r.in[1]) })
}

// depth returns of how many dimensions of a shape indices have an index each.
func (c *call) depth(indices *value, shape []int) int {
	rank := len(indices.shape)
	if rank == 0 || indices.shape[rank-1] > len(shape) {
		malformed("indices of shape %v for shape %v", indices.shape, shape)
	}
	return indices.shape[rank-1]
}

// SCATTER_ND to a known shape.
func planScatterND(c *call) {
	at, updates, shape := c.data(0), c.data(1), c.integers(2)
	depth := c.depth(at, shape)
	if !slices.Equal(updates.shape, slices.Concat(at.shape[:len(at.shape)-1], shape[depth:])) {
		malformed("updates of shape %v at %v of %v", updates.shape, at.shape, shape)
	}
	c.sameTypes(updates)
	c.index(0)
	c.define(0, shape...)
	c.do(func(r *run) { operators.ScatterSlices(r.out[0], r.in[0], r.in[1]) })
}

// DYNAMIC_UPDATE_SLICE: operand 0 with operand 1 in it, where operand 2 says or as near as it fits.
func planDynamicUpdateSlice(c *call) {
	in, update, at := c.data(0), c.data(1), c.data(2)
	c.index(2)
	c.sameTypes(in)
	fits := len(update.shape) == len(in.shape) && slices.Equal(at.shape, []int{len(in.shape)})
	for d := range in.shape {
		fits = fits && update.shape[d] <= in.shape[d]
	}
	if !fits || update.dtype != in.dtype {
		malformed("an update of %v%v at %v of %v%v", update.dtype, update.shape, at.shape, in.dtype, in.shape)
	}
	c.moves(in.shape...)
	c.keepsScale(c.in(1))
	c.do(func(r *run) { operators.Update(r.out[0], r.in[0], r.in[1], r.in[2]) })
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
	c.define(0, slices.Insert(slices.Clone(in.shape), axis, depth)...)
	c.do(func(r *run) { operators.OneHot(r.out[0], r.in[0], r.in[2], r.in[3], axis) })
}

// SHAPE, RANK and ZEROS_LIKE depend on a shape alone.
func planOfShape(list func(shape []int) (numbers, of []int)) func(*call) {
	return func(c *call) {
		numbers, shape := list(c.resolve(0).shape)
		c.define(0, shape...)
		c.do(func(r *run) {
			for i, n := range numbers {
				r.out[0].Put(i, float64(n))
			}
		})
	}
}

func dimensions(shape []int) (numbers, of []int) { return shape, []int{len(shape)} }
func rank(shape []int) (numbers, of []int)       { return []int{len(shape)}, nil }
func zeros(shape []int) (numbers, of []int)      { return nil, shape }

// RANGE of known numbers.
func planRange(c *call) {
	from, to, step := c.number(0), c.number(1), c.number(2)
	n := (to - from) / step
	if !(n > 0 && n <= maxElements) {
		malformed("from %v to %v by %v", from, to, step)
	}
	c.define(0, int(math.Ceil(n)))
	c.do(func(r *run) { operators.Count(r.out[0], from, step) })
}

package tflite

import (
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// part plans an operator whose output 0 is a part of operand 0, perhaps in another shape.
func (c *call) part(offsets, sizes, shape []int) {
	c.shaped(flow.Sliced(c, c.in(0), offsets, sizes), c.out(0), shape)
}

// SLICE: begin and size are constant, and a size of -1 is what is left.
func planSlice(c *call) {
	in, begin, size := c.data(0), c.integers(1), c.integers(2)
	sizes, ok := sliceSizes(in.shape, begin, size)
	if !ok {
		malformed("a slice of %v from %v of shape %v", size, begin, in.shape)
	}
	if slices.Contains(sizes, 0) {
		c.vacate(0, sizes)
		return
	}
	c.part(begin, sizes, sizes)
}

// vacate gives output i a shape without elements. Nothing takes it but CONCATENATION, and RESHAPE as a scalar's shape.
func (c *call) vacate(i int, shape []int) {
	if t := c.output(i); t != nil {
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
	n, left := len(begin), len(shape) // dimensions that no number is about
	for i := range n {
		if !mask(sliceNewAxisMask, i) && !mask(sliceEllipsisMask, i) {
			left--
		}
	}
	if n > 31 || left < 0 || len(end) != n || len(stride) != n {
		malformed("a slice from %v to %v by %v of shape %v", begin, end, stride, shape)
	}
	add := func(from, size, step int, dropped bool) {
		s.begin, s.size, s.stride = append(s.begin, from), append(s.size, size), append(s.stride, step)
		if !dropped {
			s.shape = append(s.shape, size)
		}
	}
	rest := func() {
		for ; left > 0; left-- {
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
		from, to := 0, d
		if step < 0 {
			from, to = d-1, -1
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
			from = clamped(begin[i])
		}
		switch {
		case dropped:
			to, step = from+1, 1
		case !mask(sliceEndMask, i):
			to = clamped(end[i])
		}
		if size := to - from; step != 0 && size*step <= 0 && !dropped {
			add(0, 0, 1, false)
			continue
		}
		if step == 0 || from < 0 || from >= d {
			malformed("a slice from %v to %v by %v of shape %v", begin, end, stride, shape)
		}
		add(from, (to-from+step-step/abs(step))/step, step, dropped)
	}
	rest()
	return s
}

func abs(n int) int { return max(n, -n) }

// STRIDED_SLICE. XNNPACK has strides of 1.
func planStridedSlice(c *call) {
	in := c.data(0)
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
	c.part(s.begin, s.size, s.shape)
}

// GATHER of known rows of what is computed, where each follows the one before.
func planGatherPart(c *call) {
	in, rows, at := c.data(0), c.integers(1), c.resolve(1)
	rank := len(in.shape)
	axis := dimension(int(c.op.options.Int32(gatherAxis, 0)), rank)
	known := c.op.options.Int32(gatherBatchDims, 0) == 0 && in.state == dynamic
	for i, n := range rows {
		known = known && n == rows[0]+i && n >= 0 && n < in.shape[axis]
	}
	if !known {
		unsupported("rows %v along axis %d of shape %v", rows, axis, in.shape)
	}
	c.sameTypes(in)
	offsets, sizes := make([]int, rank), slices.Clone(in.shape)
	offsets[axis], sizes[axis] = rows[0], len(rows)
	c.part(offsets, sizes, slices.Concat(in.shape[:axis], at.shape, in.shape[axis+1:]))
}

// parts plans an operator whose outputs are the parts of an operand along an axis, each in one of two shapes.
func (c *call) parts(input, axis int, lengths []int, dropped bool) {
	in := c.data(input)
	axis = dimension(axis, len(in.shape))
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
			part := flow.Sliced(c, c.in(input), offsets, sizes)
			c.shaped(part, c.out(i), slices.Delete(slices.Clone(sizes), axis, axis+1))
		default:
			c.Add(flow.StaticSlice(xnnpack.StaticSlice{Offsets: slices.Clone(offsets), Sizes: slices.Clone(sizes),
				Input: c.in(input), Output: c.out(i)}))
		}
		offsets[axis] += n
	}
	if offsets[axis] != in.shape[axis] {
		malformed("parts of %v along axis %d of shape %v", lengths, axis, in.shape)
	}
}

// oneInteger returns operand i, a constant.
func (c *call) oneInteger(i int) int {
	n := c.integers(i)
	if len(n) != 1 {
		malformed("input %d has %d numbers, not 1", i, len(n))
	}
	return n[0]
}

// SPLIT into equal parts: the axis, the value.
func planSplit(c *call) {
	in, n := c.data(1), len(c.op.outputs)
	axis := c.axis(0, len(in.shape))
	if n == 0 || in.shape[axis]%n != 0 {
		malformed("%d parts along axis %d of shape %v", n, axis, in.shape)
	}
	c.parts(1, axis, slices.Repeat([]int{in.shape[axis] / n}, n), false)
}

// SPLIT_V: the value, the lengths of its parts, the axis. A length of -1 is what the others leave.
func planSplitV(c *call) {
	in, lengths := c.data(0), c.integers(1)
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

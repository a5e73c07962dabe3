package executorch

import (
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// reshaped is the same elements row by row in another shape, which is the output's.
func (c *invocation) reshaped() {
	x, y := c.tensor(0), c.tensor(c.last())
	in := c.operand(0)
	c.reshape(in, c.result(in), x, y)
}

// reshape plans that x's elements are y's.
func (c *invocation) reshape(in, out xnnpack.ValueID, x, y *tensor) {
	if slices.Equal(x.order, y.order) && slices.Equal(x.shape, y.shape) {
		c.permuted(in, out, []int{0})
		return
	}
	c.rows(x, y)
	c.Add(flow.StaticReshape(xnnpack.StaticReshape{Shape: c.shapeOf(x, y), Input: in, Output: out}))
}

// shapeOf returns what a reshape of x to y is given: where the first dimension may be smaller, it is what is left.
func (c *invocation) shapeOf(x, y *tensor) []int {
	shape := slices.Clone(y.shape)
	if !x.dynamic {
		return shape
	}
	at := 0
	for at < len(shape)-1 && shape[at] == 1 && x.shape[0] != 1 {
		at++ // a new dimension is before it
	}
	if rest, err := flow.Elements(x.shape[1:]...); err != nil && len(x.shape) > 1 || len(shape) == 0 ||
		product(shape[at+1:]) != rest {
		c.outside()
	}
	shape[at] = 0
	return shape
}

func product(dims []int) int { return xnnpack.Elements(dims) }

func (c *invocation) permute() { c.permuteBy(c.wholes(1)) }

// permuteBy has dimension i of the output be dimension dims[i] of the input.
func (c *invocation) permuteBy(dims []int) {
	x, y := c.tensor(0), c.tensor(c.last())
	in := c.operand(0)
	out := c.result(in)
	if len(dims) != len(x.order) || len(dims) != len(y.order) {
		malformed("%v for %d dimensions", dims, len(x.order))
	}
	order := make([]int, len(dims))
	for i, d := range y.order {
		order[i] = c.axis(x, dims[d])
	}
	if !flow.Permutation(order, len(dims)) {
		malformed("%v is no order of %d dimensions", dims, len(dims))
	}
	c.permuted(in, out, order)
}

// swap exchanges two dimensions.
func (c *invocation) swap() {
	x := c.tensor(0)
	dims := operators.Every(0, len(x.order), 1)
	a, b := 0, len(dims)-1
	if len(c.args) > 3 {
		a, b = c.whole(1), c.whole(2)
	} else if len(dims) > 2 {
		malformed("%d dimensions are transposed", len(dims))
	}
	a, b = counted(a, len(dims)), counted(b, len(dims))
	dims[a], dims[b] = dims[b], dims[a]
	c.permuteBy(dims)
}

// part plans a part of a tensor, as long along an axis of memory as it says.
func (c *invocation) part(in xnnpack.ValueID, x *tensor, axis, offset, length int, out xnnpack.ValueID) {
	if axis == 0 {
		c.fixed(x)
	}
	n := xnnpack.StaticSlice{Offsets: make([]int, len(x.shape)), Sizes: slices.Clone(x.shape), Input: in, Output: out}
	n.Offsets[axis], n.Sizes[axis] = offset, length
	if x.dynamic || offset < 0 || length <= 0 {
		c.outside()
	}
	c.Add(flow.StaticSlice(n))
}

// bound returns an index of a dimension of some length, where a negative one counts from the end.
func (c *invocation) bound(i, missing, length int) int {
	if c.absent(i) {
		return missing
	}
	n := c.whole(i)
	if n < 0 {
		n += length
	}
	return max(0, min(n, length))
}

// slice is x from one index along a dimension to another, of which negative ones count from the end.
func (c *invocation) slice() {
	x, y := c.tensor(0), c.tensor(c.last())
	c.alike(x, y)
	axis, begin, n, step := c.each(1)
	if step != 1 {
		c.given(0)
		c.host(operators.Take(axis, operators.Every(begin, n, step)), 0)
		return
	}
	in := c.operand(0)
	out := c.result(in)
	if n == x.shape[axis] {
		c.permuted(in, out, []int{0})
		return
	}
	c.part(in, x, axis, begin, n, out)
}

// each returns the indices that arguments from i on say: a dimension, the first index, the one after the last, and a
// step.
func (c *invocation) each(i int) (axis, begin, n, step int) {
	x := c.tensor(0)
	axis, step = c.axis(x, c.whole(i)), c.whole(i+3)
	if step < 1 {
		malformed("each %d of %v", step, x.shape)
	}
	length := x.shape[axis]
	begin = c.bound(i+1, 0, length)
	return axis, begin, max(0, (c.bound(i+2, length, length)-begin+step-1)/step), step
}

// selectAt plans x at one index of an axis of memory, which y does not have any more.
func (c *invocation) selectAt(in xnnpack.ValueID, x *tensor, axis, index, to int) {
	y := c.tensorAt(to)
	c.rows(x, y)
	out := c.resultAt(to, in)
	taken := c.Inside(in)
	c.part(in, x, axis, index, 1, taken)
	c.Add(flow.StaticReshape(xnnpack.StaticReshape{Shape: y.shape, Input: taken, Output: out}))
}

// selected is x at one index of a dimension.
func (c *invocation) selected() {
	x := c.tensor(0)
	axis := c.axis(x, c.whole(1))
	c.selectAt(c.operand(0), x, axis, counted(c.whole(2), x.shape[axis]), c.args[c.last()])
}

// split is x in parts along a dimension, as long as the list of outputs has them.
func (c *invocation) split() {
	x, parts := c.tensor(0), c.tensors(c.last())
	axis := c.axis(x, c.whole(2))
	in := c.operand(0)
	at := 0
	for _, to := range parts {
		y := c.tensorAt(to)
		c.alike(x, y)
		out := c.resultAt(to, in)
		if len(y.shape) != len(x.shape) {
			malformed("parts of shape %v of %v", y.shape, x.shape)
		}
		c.part(in, x, axis, at, y.shape[axis], out)
		at += y.shape[axis]
	}
	if at != x.shape[axis] {
		malformed("parts of %d elements of %d", at, x.shape[axis])
	}
}

// unbind is x at each index of a dimension.
func (c *invocation) unbind() {
	x, parts := c.tensor(0), c.tensors(c.last())
	axis := c.axis(x, c.whole(1))
	in := c.operand(0)
	if len(parts) != x.shape[axis] {
		malformed("%d parts of %d", len(parts), x.shape[axis])
	}
	for i, to := range parts {
		c.selectAt(in, x, axis, i, to)
	}
}

// joined is tensors one after the other along a dimension.
func (c *invocation) joined() {
	y := c.tensor(c.last())
	axis := c.axis(y, c.whole(1))
	var inputs []xnnpack.ValueID
	for _, i := range c.tensors(0) {
		if x := c.tensorAt(i); len(x.shape) == 1 && x.shape[0] == 0 {
			continue // PyTorch lets an empty one be of any shape
		}
		c.alike(c.tensorAt(i), y)
		inputs = append(inputs, c.operandAt(i))
	}
	c.join(axis, inputs)
}

// join plans that what the operator computes are values along an axis.
func (c *invocation) join(axis int, inputs ids) {
	if len(inputs) == 0 {
		c.outside()
	}
	flow.Join(c, axis, inputs, c.result(inputs[0]))
}

// stacked is tensors of one shape along a new dimension.
func (c *invocation) stacked() {
	y := c.tensor(c.last())
	c.rows(y)
	dim := counted(c.whole(1), len(y.shape))
	shape := slices.Clone(y.shape)
	shape[dim] = 1
	var inputs []xnnpack.ValueID
	for _, i := range c.tensors(0) {
		x, in := c.tensorAt(i), c.operandAt(i)
		c.rows(x)
		c.fixed(x)
		inputs = append(inputs, flow.Reshaped(c, in, shape...))
	}
	c.join(dim, inputs)
}

// expand repeats dimensions of 1.
func (c *invocation) expand() {
	x, y := c.tensor(0), c.tensor(c.last())
	c.rows(x, y)
	in := c.operand(0)
	if slices.Equal(x.shape, y.shape) {
		c.permuted(in, c.result(in), []int{0})
		return
	}
	c.fixed(y)
	in = c.float(0)
	c.binary(xnnpack.Multiply, in, c.filled(y.shape, 1, in))
}

// pad adds elements around; the list has how many before and after, for the last dimension first.
func (c *invocation) pad() {
	x, y := c.tensor(0), c.tensor(c.last())
	c.alike(x, y)
	around := c.wholes(1)
	in, number := c.operand(0), c.number(2)
	n := xnnpack.StaticConstantPad{
		Pre: make([]int, len(x.shape)), Post: make([]int, len(x.shape)), Value: float32(number), Input: in}
	if c.plan.values[in].host && float64(n.Value) != number {
		c.outside() // the node has no such integer
	}
	if len(around)%2 != 0 || len(around) > 2*len(x.shape) {
		malformed("%d numbers for %d dimensions", len(around), len(x.shape))
	}
	for i := 0; i+1 < len(around); i += 2 {
		if around[i] < 0 || around[i+1] < 0 {
			c.outside()
		}
		at := c.axis(x, -1-i/2)
		n.Pre[at], n.Post[at] = around[i], around[i+1]
	}
	n.Output = c.result(in)
	c.Add(flow.StaticConstantPad(n))
}

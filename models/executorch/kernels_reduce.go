package executorch

import (
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// reducingCall reduces the dimensions of a list, all if it is empty or missing.
func reducingCall(op xnnpack.ReduceOperator) func(*invocation) {
	return func(c *invocation) { c.reduce(op, c.axes(1), c.whole(2) != 0) }
}

// reduce plans a reduction of the first argument to the last.
func (c *invocation) reduce(op xnnpack.ReduceOperator, axes []int, keep bool) {
	x, y := c.tensor(0), c.tensor(c.last())
	if keep {
		c.alike(x, y)
	} else {
		c.rows(y)
	}
	in := c.float(0)
	out := c.result(in)
	if !keep && len(axes) == len(x.shape) { // a number, which has the shape [1] here
		all := flow.Reduced(c, op, axes, in)
		c.Add(flow.StaticReshape(xnnpack.StaticReshape{Shape: scalar(), Input: all, Output: out}))
		return
	}
	c.Add(flow.StaticReduce(xnnpack.StaticReduce{Op: op, Axes: axes, KeepDims: keep, Input: in, Output: out}))
}

func ones(n int) []int { return operators.Every(1, n, 0) }

func (c *invocation) meanOfAll() {
	c.reduce(xnnpack.ReduceMean, operators.Every(0, len(c.tensor(0).shape), 1), false)
}

// softmax is along one dimension, which is brought to the end if it is not there.
func (c *invocation) softmax() {
	x, y := c.tensor(0), c.tensor(c.last())
	c.alike(x, y)
	in := c.float(0)
	out := c.result(in)
	axis, rank := c.axis(x, c.whole(1)), len(x.shape)
	if axis == rank-1 {
		c.Add(flow.Softmax(xnnpack.Softmax{Input: in, Output: out}))
		return
	}
	permutation := operators.Every(0, rank, 1)
	permutation[axis], permutation[rank-1] = rank-1, axis
	turned, computed := flow.Transposed(c, in, permutation...), c.Inside(in)
	c.Add(flow.Softmax(xnnpack.Softmax{Input: turned, Output: computed}))
	c.permuted(computed, out, permutation)
}

// layerNorm is x minus its mean, over the root of its variance plus a number, times weights, plus a bias: over the last
// dimensions, as many as the list has. Its other outputs, mean and root, are not computed here.
func (c *invocation) layerNorm() {
	x, y := c.tensor(0), c.tensor(5)
	c.rows(x, y)
	over := len(c.wholes(1))
	in := c.float(0)
	out := c.resultAt(c.args[5], in)
	if over < 1 || over > len(x.shape) {
		malformed("%d dimensions of %d", over, len(x.shape))
	}
	axes := operators.Every(len(x.shape)-over, over, 1)
	c.scaled(c.centred(in, axes, c.number(4)), c.optional(2), c.optional(3), out)
}

// moments returns a value minus its mean over some axes, and its variance over them, of which the sum of squares is
// divided by their number less some.
func (c *invocation) moments(x xnnpack.ValueID, axes []int, less float64) (centred, variance xnnpack.ValueID) {
	n := 1
	for _, d := range axes {
		n *= c.of(x).Shape[d]
	}
	centred = flow.Both(c, xnnpack.Subtract, x, flow.Reduced(c, xnnpack.ReduceMean, axes, x))
	squared := flow.Each(c, xnnpack.Unary{Op: xnnpack.Square}, centred)
	if less == 0 {
		return centred, flow.Reduced(c, xnnpack.ReduceMean, axes, squared)
	}
	sum := flow.Reduced(c, xnnpack.ReduceSum, axes, squared)
	return centred, flow.Both(c, xnnpack.Multiply, sum, c.Number(1/(float64(n)-less), x))
}

// centred returns a value minus its mean over some axes, over the root of its variance plus a number.
func (c *invocation) centred(x xnnpack.ValueID, axes []int, more float64) xnnpack.ValueID {
	centred, variance := c.moments(x, axes, 0)
	above := flow.Both(c, xnnpack.Add, variance, c.Number(more, x))
	return flow.Both(c, xnnpack.Multiply, centred, flow.Each(c, xnnpack.Unary{Op: xnnpack.ReciprocalSquareRoot}, above))
}

// scaled plans a value times a scale, plus a shift; both may be missing.
func (c *invocation) scaled(x, scale, shift, out xnnpack.ValueID) {
	const none = xnnpack.InvalidValue
	if scale != none && shift != none {
		x, scale = flow.Both(c, xnnpack.Multiply, x, scale), none
	}
	switch {
	case scale != none:
		c.Add(flow.Binary(xnnpack.Binary{Op: xnnpack.Multiply, A: x, B: scale, Output: out}))
	case shift != none:
		c.Add(flow.Binary(xnnpack.Binary{Op: xnnpack.Add, A: x, B: shift, Output: out}))
	default:
		c.permuted(x, out, []int{0})
	}
}

// optional returns an argument of floats, or no value if it is not given.
func (c *invocation) optional(i int) xnnpack.ValueID {
	if c.absent(i) {
		return xnnpack.InvalidValue
	}
	return c.float(i)
}

// channels returns argument i, a number for each channel, so that it goes with images of a rank.
func (c *invocation) channels(i, rank int) xnnpack.ValueID {
	x := c.optional(i)
	if x == xnnpack.InvalidValue {
		return x
	}
	return flow.Reshaped(c, x, append(slices.Clone(c.of(x).Shape), ones(rank-2)...)...)
}

// groupNorm normalises each group of channels by itself.
func (c *invocation) groupNorm() {
	x, y := c.tensor(0), c.tensor(8)
	c.rows(x, y)
	c.fixed(x)
	groups := c.whole(6)
	in := c.float(0)
	out := c.resultAt(c.args[8], in)
	if len(x.shape) < 2 || groups < 1 || x.shape[1]%groups != 0 {
		malformed("%d groups of %v", groups, x.shape)
	}
	each := []int{x.shape[0], groups, product(x.shape) / (x.shape[0] * groups)}
	normal := c.centred(flow.Reshaped(c, in, each...), []int{2}, c.number(7))
	c.scaled(flow.Reshaped(c, normal, x.shape...), c.channels(1, len(x.shape)), c.channels(2, len(x.shape)), out)
}

// instanceNorm normalises each channel over all of a batch.
func (c *invocation) instanceNorm() {
	x, y := c.tensor(0), c.tensor(6)
	c.rows(x, y)
	c.fixed(x)
	in := c.float(0)
	out := c.resultAt(c.args[6], in)
	if len(x.shape) < 2 {
		malformed("channels of %v", x.shape)
	}
	var axes []int
	for d := range x.shape {
		if d != 1 {
			axes = append(axes, d)
		}
	}
	normal := c.centred(in, axes, c.number(5))
	c.scaled(normal, c.channels(1, len(x.shape)), c.channels(2, len(x.shape)), out)
}

// variance is that over some dimensions.
func (c *invocation) variance() {
	x, y := c.tensor(0), c.tensor(c.last())
	c.rows(x, y)
	c.fixed(x)
	less := 1.0
	if !c.absent(2) {
		less = c.number(2)
	}
	in := c.float(0)
	_, variance := c.moments(in, c.axes(1), less)
	out := c.result(in)
	c.Add(flow.StaticReshape(xnnpack.StaticReshape{Shape: y.shape, Input: variance, Output: out}))
}

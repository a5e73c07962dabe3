package executorch

import (
	"slices"

	"xpwc/xnnpack"
)

var reducingKernels = map[string]func(*invocation){
	"aten::_softmax.out":          (*invocation).softmax,
	"aten::native_layer_norm.out": (*invocation).layerNorm,
	"aten::mean.out":              reducingCall(xnnpack.ReduceMean),
	"aten::sum.IntList_out":       reducingCall(xnnpack.ReduceSum),
	"aten::mean.dtype_out":        (*invocation).meanOfAll,
}

// reducingCall reduces the dimensions of a list, all if it is empty or missing.
func reducingCall(op xnnpack.ReduceOperator) func(*invocation) {
	return func(c *invocation) {
		var dims []int
		if !c.absent(1) {
			dims = c.wholes(1)
		}
		c.reduced(op, dims, c.whole(2) != 0)
	}
}

// reduced plans a reduction of the first argument to the last.
func (c *invocation) reduced(op xnnpack.ReduceOperator, dims []int, keep bool) {
	x, y := c.tensor(0), c.tensor(c.last())
	if keep {
		c.alike(x, y)
	} else {
		c.rows(y)
	}
	in := c.float(0)
	n := xnnpack.StaticReduce{Op: op, KeepDims: keep, Input: in, Output: c.result(in)}
	for _, d := range dims {
		n.Axes = append(n.Axes, c.axis(x, d))
	}
	if len(dims) == 0 {
		for i := range x.shape {
			n.Axes = append(n.Axes, i)
		}
	}
	if c.err == nil && !keep && len(n.Axes) == len(x.shape) { // a number, which has the shape [1] here
		n.KeepDims = true
		all := c.between(ones(len(x.shape)), in)
		out := n.Output
		n.Output = all
		c.node(reduce{n})
		c.node(reshape{xnnpack.StaticReshape{Shape: scalar(), Input: all, Output: out}})
		return
	}
	c.node(reduce{n})
}

func ones(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

func (c *invocation) meanOfAll() { c.reduced(xnnpack.ReduceMean, nil, false) }

// softmax is along one dimension, which is brought to the end if it is not there.
func (c *invocation) softmax() {
	x, y := c.tensor(0), c.tensor(c.last())
	c.alike(x, y)
	in := c.float(0)
	out := c.result(in)
	axis, rank := c.axis(x, c.whole(1)), len(x.shape)
	if c.err != nil {
		return
	}
	if axis == rank-1 {
		c.node(softmax{xnnpack.Softmax{Input: in, Output: out}})
		return
	}
	permutation := make([]int, rank)
	shape := slices.Clone(x.shape)
	for i := range permutation {
		permutation[i] = i
	}
	permutation[axis], permutation[rank-1] = rank-1, axis
	shape[axis], shape[rank-1] = shape[rank-1], shape[axis]
	turned, computed := c.between(shape, in), c.between(shape, in)
	c.permuted(in, turned, permutation)
	c.node(softmax{xnnpack.Softmax{Input: turned, Output: computed}})
	c.permuted(computed, out, permutation)
}

// layerNorm is x minus its mean, over the root of its variance plus a number, times weights, plus a bias: over the last
// dimensions, as many as the list has. Its other outputs, mean and root, are not computed here.
func (c *invocation) layerNorm() {
	if len(c.args) < 8 {
		c.fail(malformed("%d arguments", len(c.args)))
		return
	}
	x, y := c.tensor(0), c.tensor(5)
	c.rows(x, y)
	over := len(c.wholes(1))
	in := c.float(0)
	out := c.resultAt(c.args[5], in)
	if c.err == nil && (over < 1 || over > len(x.shape)) {
		c.fail(malformed("%d dimensions of %d", over, len(x.shape)))
	}
	if c.err != nil {
		return
	}
	axes := make([]int, over)
	each := slices.Clone(x.shape)
	for i := range axes {
		axes[i] = len(x.shape) - over + i
		each[axes[i]] = 1
	}
	mean := func(of xnnpack.ValueID) xnnpack.ValueID {
		to := c.between(each, in)
		c.node(reduce{xnnpack.StaticReduce{Op: xnnpack.ReduceMean, Axes: axes, KeepDims: true, Input: of, Output: to}})
		return to
	}
	binary := func(op xnnpack.BinaryOperator, a, b, to xnnpack.ValueID) xnnpack.ValueID {
		c.node(elementwise{xnnpack.Binary{Op: op, A: a, B: b, Output: to}})
		return to
	}
	centred := binary(xnnpack.Subtract, in, mean(in), c.between(x.shape, in))
	squared := c.between(x.shape, in)
	c.node(unary{xnnpack.Unary{Op: xnnpack.Square, Input: centred, Output: squared}})
	above := binary(xnnpack.Add, mean(squared), c.filled(scalar(), c.number(4), in), c.between(each, in))
	root := c.between(each, in)
	c.node(unary{xnnpack.Unary{Op: xnnpack.ReciprocalSquareRoot, Input: above, Output: root}})
	weighted, biased := !c.absent(2), !c.absent(3)
	result := func(last bool) xnnpack.ValueID {
		if last {
			return out
		}
		return c.between(x.shape, in)
	}
	sum := binary(xnnpack.Multiply, centred, root, result(!weighted && !biased))
	if weighted {
		sum = binary(xnnpack.Multiply, sum, c.float(2), result(!biased))
	}
	if biased {
		binary(xnnpack.Add, sum, c.float(3), out)
	}
}

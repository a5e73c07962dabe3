package tflite

import (
	"slices"

	"xpwc/internal/compute"
	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// BATCH_MATMUL of two computed values or constants: [..., m, k] by [..., k, n]. adj_x and adj_y say that the last two
// dimensions of the first and of the second are in the other order.
func planBatchMatMul(c *call) {
	c.arity(2, 2)
	a, b := c.data(0), c.data(1)
	if a.dtype != b.dtype {
		unsupported("inputs of types %v and %v", c.declared(0), c.declared(1))
	}
	ra, rb := len(a.shape), len(b.shape)
	if ra < 2 || rb < 2 {
		malformed("shapes %v and %v", a.shape, b.shape)
	}
	turnA, turnB := c.op.options.Bool(adjointX), c.op.options.Bool(adjointY)
	m, k := a.shape[ra-2], a.shape[ra-1]
	if turnA {
		m, k = k, m
	}
	n, inner := b.shape[rb-1], b.shape[rb-2]
	if turnB {
		n, inner = inner, n
	}
	batch := c.broadcast(a.shape[:ra-2], b.shape[:rb-2])
	if k != inner {
		malformed("shapes %v and %v do not go together", a.shape, b.shape)
	}
	c.define(0, append(batch, m, n)...)
	in := c.in(0)
	if turnA {
		permutation := compute.Every(0, ra, 1)
		permutation[ra-2], permutation[ra-1] = ra-1, ra-2
		in = c.transposed(in, c.op.inputs[0], a.shape, permutation)
	}
	c.add(flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: in, B: c.in(1), Output: c.out(0),
		TransposeB: turnB}))
}

// multiplied plans the product of operand 0, as a matrix of some rows, by the transpose of operand 1, which is
// computed, and perhaps a bias, operand 2. All are in single precision, or bytes that are computed with so.
func (c *call) multiplied(rows int, in, filter *value, limits xnnpack.Range) {
	outputs, channels := filter.shape[0], filter.shape[1]
	c.sameTypes(in)
	if filter.dtype != in.dtype {
		unsupported("computed weights of type %v for an input of type %v", c.declared(1), c.declared(0))
	}
	c.wide = c.wide || in.dtype.isBytes()
	biased := c.tensor(2) != absent
	if biased {
		if v := c.data(2); !slices.Equal(v.shape, []int{outputs}) {
			malformed("a bias of shape %v for %d output channels", v.shape, outputs)
		}
	}
	to := c.op.outputs[0]
	matrix := c.reshaped(c.in(0), c.op.inputs[0], rows, channels)
	product := c.inside(c.like(to, rows, outputs))
	c.add(flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: matrix, B: c.in(1), Output: product,
		TransposeB: true}))
	if biased {
		sum := c.inside(c.like(to, rows, outputs))
		c.binary(xnnpack.Add, product, c.in(2), sum, xnnpack.Range{})
		product = sum
	}
	if limits != (xnnpack.Range{}) {
		limited := c.inside(c.like(to, rows, outputs))
		c.unary(xnnpack.Unary{Op: xnnpack.Clamp, Limits: limits}, product, limited)
		product = limited
	}
	c.shaped(product, c.out(0), c.plan.values[to].shape)
}

package tflite

import (
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// BATCH_MATMUL of two computed values or constants: [..., m, k] by [..., k, n]. adj_x and adj_y say that the last two
// dimensions of the first and of the second are in the other order.
func planBatchMatMul(c *call) {
	a, b := c.data(0), c.data(1)
	if a.dtype != b.dtype {
		unsupported("inputs of types %v and %v", c.declared(0), c.declared(1))
	}
	turnA, turnB := c.op.options.Bool(adjointX), c.op.options.Bool(adjointY)
	in := c.in(0)
	if rank := len(a.shape); turnA {
		if rank < 2 {
			malformed("shapes %v and %v", a.shape, b.shape)
		}
		permutation := operators.Every(0, rank, 1)
		permutation[rank-2], permutation[rank-1] = rank-1, rank-2
		in = flow.Transposed(c, in, permutation...)
	}
	c.Add(flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: in, B: c.in(1), Output: c.out(0),
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
	to := c.out(0)
	matrix := flow.Reshaped(c, c.in(0), rows, channels)
	product := c.Inside(to)
	c.Add(flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: matrix, B: c.in(1), Output: product,
		TransposeB: true}))
	if c.tensor(2) != absent {
		if v := c.data(2); !slices.Equal(v.shape, []int{outputs}) {
			malformed("a bias of shape %v for %d output channels", v.shape, outputs)
		}
		product = flow.Both(c, xnnpack.Add, product, c.in(2))
	}
	if limits != (xnnpack.Range{}) {
		product = flow.Each(c, xnnpack.Unary{Op: xnnpack.Clamp, Limits: limits}, product)
	}
	c.shaped(product, to, c.plan.shape(to))
}

package tflite

import "xpwc/xnnpack"

// BATCH_MATMUL of two computed values or constants: [..., m, k] by [..., k, n]. adj_x and adj_y say that the last two
// dimensions of the first and of the second are in the other order.
func planBatchMatMul(c *call) func(*emitter) error {
	if !c.arity(2, 2) {
		return nil
	}
	a, b := c.data(0), c.data(1)
	if c.err == nil && a.dtype != b.dtype {
		c.unsupported("inputs of types %v and %v", c.declared(0), c.declared(1))
	}
	if c.err != nil {
		return nil
	}
	ra, rb := len(a.shape), len(b.shape)
	if ra < 2 || rb < 2 {
		c.malformed("shapes %v and %v", a.shape, b.shape)
		return nil
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
		c.malformed("shapes %v and %v do not go together", a.shape, b.shape)
	}
	c.define(0, append(batch, m, n)...)
	return func(e *emitter) error {
		in := e.input(c, 0)
		if turnA {
			permutation := make([]int, ra)
			for i := range permutation {
				permutation[i] = i
			}
			permutation[ra-2], permutation[ra-1] = ra-1, ra-2
			in = e.transposed(in, c.op.inputs[0], a.shape, permutation)
		}
		return e.s.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: in, B: e.input(c, 1), Output: e.output(c, 0),
			TransposeB: turnB})
	}
}

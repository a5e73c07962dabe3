package tflite

import "xpwc/xnnpack"

// GATHER of rows of a constant table.
func planGather(c *call) func(*emitter) error {
	if !c.arity(2, 2) {
		return nil
	}
	if c.op.options.Int32(gatherAxis, 0) != 0 || c.op.options.Int32(gatherBatchDims, 0) != 0 {
		c.unsupported("another axis than the first")
		return nil
	}
	return c.lookUp(0, 1)
}

// EMBEDDING_LOOKUP of rows of a constant table.
func planEmbeddingLookup(c *call) func(*emitter) error {
	if !c.arity(2, 2) {
		return nil
	}
	return c.lookUp(1, 0)
}

// lookUp plans the choice of rows of a constant table by computed integers, which XNNPACK has as a multiplication: a
// row of zeros with a one in it takes a row of the table as it is. An integer that is no row's number gives zeros.
func (c *call) lookUp(table, at int) func(*emitter) error {
	rows, v := c.data(at), c.resolve(table)
	if c.err != nil {
		return nil
	}
	switch {
	case !rows.whole:
		c.unsupported("rows of type %v", c.declared(at))
	case v.state != static, len(v.shape) == 0:
		c.unsupported("a table that is not constant, or of no dimensions")
	case v.whole, v.dtype != typeFloat32 && !v.dtype.isBytes():
		c.unsupported("a table of type %v", c.declared(table))
	}
	if c.err != nil {
		return nil
	}
	n, _ := elements(rows.shape)
	all := v.shape[0]
	if all >= 1<<24 {
		c.unsupported("%d rows, more than single precision can count", all)
		return nil
	}
	if _, err := checkedMul(n, all); err != nil {
		c.unsupported("%d of %d rows: %v", n, all, err)
		return nil
	}
	kernel := v.constant
	if v.dtype.isBytes() {
		if _, _, err := kernel.datatype(); err != nil && len(kernel.quant.scales) != 1 {
			c.err = err
			return nil
		}
		kernel = c.plan.derive(kernel, (*constant).dequantized)
	}
	width := kernel.size / 4 / all
	if len(v.shape) != 2 {
		kernel = c.plan.derive(kernel, func(k *constant) *constant {
			return k.as(k.name+", as rows", func(k *constant) { k.shape = []int{all, width} })
		})
	}
	c.define(0, append(append([]int(nil), rows.shape...), v.shape[1:]...)...)
	numbers := c.reads(c.plan.count(0, all))
	one := c.reads(c.plan.count(1, 1))
	c.use(&value{state: static, constant: kernel}, usePacked)
	node := xnnpack.FullyConnected{TransposeWeights: true}
	if c.err != nil {
		return nil
	}
	filter, err := kernel.describe()
	if err != nil {
		c.err = err
		return nil
	}
	id := node.Packing(filter, xnnpack.Tensor{}, xnnpack.Tensor{Type: xnnpack.Float32},
		xnnpack.Tensor{Type: xnnpack.Float32})
	c.uses[len(c.uses)-1].packing = &id
	return func(e *emitter) error {
		t := c.op.inputs[at]
		column := e.reshaped(e.input(c, at), t, n, 1)
		distance, hits := e.define(e.like(t, n, all)), e.define(e.like(t, n, all))
		e.binary(xnnpack.SquaredDifference, column, e.constant(numbers), distance, xnnpack.Range{})
		e.binary(xnnpack.Subtract, e.constant(one), distance, hits, xnnpack.Range{Min: 0, Max: 1})
		row := e.define(e.like(t, n, width))
		node := node
		node.Input, node.Filter, node.Bias, node.Output = hits, e.constant(kernel), xnnpack.InvalidValue, row
		if e.err == nil {
			e.err = e.s.FullyConnected(node)
		}
		return e.reshape(row, e.output(c, 0), append(append([]int(nil), rows.shape...), v.shape[1:]...))
	}
}

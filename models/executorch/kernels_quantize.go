package executorch

import (
	"slices"

	"xpwc/internal/operators"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Quantised tensors outside of delegates: their scales and zero points are arguments of each call.

// quantized plans the integers of numbers, whose scale and zero point are arguments 1 and 2.
func (c *invocation) quantized() {
	low, high := c.integer(3), c.integer(4)
	if c.arg(1).tensor != nil {
		c.hostResult(operators.Quantize([]int{1}, low, high), 0, 1, 2)
		return
	}
	c.hostResult(operators.Apply(operators.Quantizer(float32(c.number(1)), c.integer(2), low, high)), 0)
}

func (c *invocation) dequantized() {
	if c.arg(1).tensor != nil {
		c.hostResult(operators.Dequantize([]int{1}), 0, 1, 2)
		return
	}
	c.hostResult(operators.Apply(operators.Dequantizer(float32(c.number(1)), float64(c.integer(2)))), 0)
}

// quantizedByChannel has a scale and a zero point for each index along the dimension that is argument 3.
func (c *invocation) quantizedByChannel() {
	c.hostResult(operators.Quantize(c.channelShape(), c.integer(4), c.integer(5)), 0, 1, 2)
}

func (c *invocation) dequantizedByChannel() {
	shape := c.channelShape()
	c.hosted(operators.Dequantize(shape), ids{c.hostedOperand(0), c.hostedOperand(1), c.zeroPoints(2, shape)},
		c.hostedOperand(c.lastArg()))
}

func (c *invocation) channelShape() []int {
	x := c.tensor(0)
	shape, axis := ones(len(x.shape)), c.axis(x, c.integer(3))
	shape[axis] = x.shape[axis]
	return shape
}

// zeroPoints returns argument i, or zeros of a shape if it is missing.
func (c *invocation) zeroPoints(i int, shape []int) xnnpack.ValueID {
	if !c.absent(i) {
		return c.hostedOperand(i)
	}
	zeros := c.plan.internal(xnnpack.Tensor{Shape: shape, Name: "zero points"})
	c.plan.values[zeros].host, c.plan.values[zeros].dtype = true, Long
	c.hosted(operators.Count(0, 0, shape...), nil, zeros)
	return zeros
}

// quantizedByToken has a scale and a zero point for each row.
func (c *invocation) quantizedByToken() {
	c.hostResult(operators.Quantize(c.tokenShape(), c.integer(3), c.integer(4)), 0, 1, 2)
}

func (c *invocation) dequantizedByToken() {
	c.hostResult(operators.Dequantize(c.tokenShape()), 0, 1, 2)
}

func (c *invocation) tokenShape() []int {
	x := c.tensor(0)
	c.rows(x)
	shape := slices.Clone(x.shape)
	shape[len(shape)-1] = 1
	return shape
}

// chosenScale is a scale and a zero point for all numbers.
func (c *invocation) chosenScale() {
	c.hostTo([]int{5, 6}, operators.ChooseScales(false, c.integer(1), c.integer(2)), 0)
}

// chosenScales is a scale and a zero point in int8 for each row.
func (c *invocation) chosenScales() {
	c.hostTo([]int{2, 3}, operators.ChooseScales(true, -128, 127), 0)
}

// quantizedEmbedding plans rows of a table whose elements have so many bits.
func quantizedEmbedding(bits int) operatorRow {
	return operatorRow{inGo: func(c *invocation) {
		operands := []int{0, 1}
		if !c.absent(2) {
			operands = append(operands, 2)
		}
		if e := c.plan.values[c.hostedOperand(0)].element(); e.Size() != models.Uint8.Size() {
			c.refuse("a table of %v", e)
		}
		c.hostResult(operators.LookUp(bits), append(operands, 5)...)
	}}
}

// quantizedRowSizes is a row of the table for each index.
func quantizedRowSizes(bits int) func(*invocation) {
	return func(c *invocation) { c.setResult(append(c.sizes(5), c.rowSize()*8/bits)) }
}

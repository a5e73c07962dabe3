package tflite

import (
	"math"

	"xpwc/internal/operators"
)

// StableHLO's operators that litert-torch writes where TensorFlow Lite has none.

// dims returns dimensions, sizes or paddings that the options have as int64.
func (c *call) dims(slot int) []int {
	numbers := c.op.options.Int64s(slot)
	for _, n := range numbers {
		if n < math.MinInt32 || n > math.MaxInt32 {
			malformed("the number %d in the options", n)
		}
	}
	return ints(numbers)
}

// dim returns one dimension, at most a rank.
func (c *call) dim(slot int) int {
	n := c.op.options.Uint64(slot)
	if n > maxRank {
		malformed("dimension %d", n)
	}
	return int(n)
}

// STABLEHLO_GATHER: the operand and the starts of the windows.
func planGatherWindows(c *call) {
	c.sameTypes(c.operand(0))
	c.operand(1)
	c.integerIndices(1)
	w := operators.Windows{Inside: c.dims(gatherOffsetDims), Collapsed: c.dims(gatherCollapsed),
		Start: c.dims(gatherStartMap), Vector: c.dim(gatherVectorDim)}
	c.host(operators.GatherWindows(w, c.dims(gatherSizes)), 0, 1)
}

// STABLEHLO_SCATTER: the operand, the starts of the windows, and the windows. A subgraph combines what is there with an
// element: the only operator in it, or none if the element replaces what is there.
func planScatterWindows(c *call) {
	in := c.operand(0)
	c.sameTypes(in)
	c.operand(1)
	c.integerIndices(1)
	if c.operand(2).dtype != in.dtype {
		malformed("updates of type %v for %v", c.declared(2), c.declared(0))
	}
	w := operators.Windows{Inside: c.dims(scatterWindowDims), Collapsed: c.dims(scatterInserted),
		Start: c.dims(scatterOperandDims), Vector: c.dim(scatterVectorDim)}
	operation := c.combination()
	c.host(operators.ScatterWindows(w, operation), 0, 1, 2)
	if operation != nil && c.plan.quantized(c.op.inputs[0]) {
		c.wide = true // bytes are no numbers
	}
}

// combination returns the operation of the subgraph that a scatter calls; nil if that returns its second input.
func (c *call) combination() *operators.Operation {
	body := c.plan.graph.bodies[c.op.calls()[0]]
	if len(body.inputs) != 2 || len(body.outputs) != 1 {
		malformed("a computation of %d inputs and %d outputs", len(body.inputs), len(body.outputs))
	}
	if len(body.operators) == 0 && body.outputs[0] == body.inputs[1] {
		return nil
	}
	if len(body.operators) == 1 {
		if operation, ok := combinations[body.operators[0].code]; ok {
			return &operation
		}
	}
	unsupported("what it does with elements in the same place")
	return nil
}

var combinations = map[opcode]operators.Operation{
	"STABLEHLO_ADD": operators.Sum, "STABLEHLO_MULTIPLY": operators.Product,
	"STABLEHLO_MAXIMUM": operators.Maximum, "STABLEHLO_MINIMUM": operators.Minimum,
	"ADD": operators.Sum, "MUL": operators.Product, "MAXIMUM": operators.Maximum, "MINIMUM": operators.Minimum,
}

// STABLEHLO_PAD: the operand and the element that is put around its elements and between them.
func planPadInside(c *call) {
	in := c.operand(0)
	if v := c.operand(1); v.dtype != in.dtype {
		malformed("an element of %v for %v", c.declared(1), c.declared(0))
	}
	c.host(operators.PadInside(c.dims(stablehloPadLow), c.dims(stablehloPadHigh), c.dims(stablehloPadBetween)), 0, 1)
}

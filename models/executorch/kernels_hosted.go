package executorch

import (
	"math"
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// given returns an argument that Go computes with.
func (c *invocation) given(i int) xnnpack.ValueID {
	c.arg(i)
	return c.givenValue(c.args[i])
}

// givenValue returns a value of the method that Go computes with.
func (c *invocation) givenValue(value int) xnnpack.ValueID {
	id := c.operandAt(value)
	c.computable(c.tensorAt(value), id)
	return id
}

// host plans that Go computes the last argument from operands.
func (c *invocation) host(op operators.Operator, operands ...int) {
	c.hostTo([]int{c.last()}, op, operands...)
}

// hostTo plans that Go computes some arguments from operands.
func (c *invocation) hostTo(outputs []int, op operators.Operator, operands ...int) {
	var in, out ids
	for _, i := range operands {
		in = append(in, c.given(i))
	}
	for _, i := range outputs {
		out = append(out, c.given(i))
	}
	c.hosted(op, in, out...)
}

// hosted plans a step that Go computes. Outputs may have dimensions of 1 that the operator does not have, and the
// reverse. An output inside of the call gets its shape.
func (c *invocation) hosted(op operators.Operator, in ids, out ...xnnpack.ValueID) {
	var shapes [][]int
	for _, id := range in {
		shapes = append(shapes, c.of(id).Shape)
	}
	var kernel operators.Kernel
	checked(func() { kernel = op(shapes) })
	for i, id := range out {
		y, shape := &c.plan.values[id], kernel.Shapes[i]
		if elements(shape...); y.internal && y.tensor.Shape == nil {
			y.tensor.Shape = shape
		}
		if !slices.Equal(withoutOnes(shape), withoutOnes(y.tensor.Shape)) {
			malformed("it computes the shape %v, where its output has %v", shape, y.tensor.Shape)
		}
		for _, k := range kernel.Moves {
			if c.plan.values[in[k]].element() != y.element() {
				c.outside()
			}
		}
	}
	c.Add(flow.Hosted{Inputs: in, Results: out, Computed: c.of(out[0]).Shape, Compute: func(out, in []array) {
		for i, shape := range kernel.Shapes {
			out[i].Shape = shape
		}
		kernel.Run(out, in)
	}})
	for _, id := range out[1:] {
		c.plan.values[id].compute(c.of(id).Shape)
		c.computed(id)
	}
}

func withoutOnes(shape []int) []int {
	return slices.DeleteFunc(slices.Clone(shape), func(d int) bool { return d == 1 })
}

// hostedRow returns the row of an operator that Go computes from its first arguments.
func hostedRow(op operators.Operator, operands ...int) operatorRow {
	return operatorRow{inGo: func(c *invocation) { c.host(op, operands...) }}
}

// combined plans what Go computes of two operands, of which the second may be a number. A third argument that the second
// is multiplied by must be 1.
func combined(o operators.Operation) func(*invocation) {
	return func(c *invocation) {
		if c.arg(2).tensor == nil && c.number(2) != 1 {
			c.outside()
		}
		c.combine(o)
	}
}

func (c *invocation) combine(o operators.Operation) {
	x := c.given(0)
	switch c.arg(1).kind {
	case evalueDouble:
		c.host(operators.CombineNumber(o, operators.Number(declared[Double], c.number(1))), 0)
	case evalueInt, evalueBool:
		c.host(operators.CombineNumber(o, operators.Number(c.plan.values[x].element(), c.number(1))), 0)
	default:
		c.host(operators.Combine(o), 0, 1)
	}
}

// comparisonRow returns the row of a comparison.
func comparisonRow(o operators.Operation) operatorRow {
	return operatorRow{inGo: func(c *invocation) { c.combine(o) }}
}

// logicalRow returns the row of an operation on booleans. On integers it would be one on their bits.
func logicalRow(o operators.Operation) operatorRow {
	return operatorRow{inGo: func(c *invocation) {
		c.booleans()
		c.combine(o)
	}}
}

// booleans ends a call of anything else.
func (c *invocation) booleans() {
	if c.tensor(0).dtype != Bool {
		c.outside()
	}
}

func (c *invocation) not() {
	c.booleans()
	c.host(operators.Not(), 0)
}

// divided is a quotient that is rounded as the third argument asks for.
func (c *invocation) divided() {
	rounded := map[string]operators.Operation{"": operators.Quotient, "floor": operators.FloorQuotient,
		"trunc": operators.TruncatedQuotient}
	o, ok := rounded[c.arg(2).text]
	if !ok {
		c.outside()
	}
	c.combine(o)
}

// integerFunction plans what Go computes of an integer.
func integerFunction(f func(a int64) int64) func(*invocation) {
	return func(c *invocation) {
		c.integersOnly()
		c.host(operators.Map(f), 0)
	}
}

// integersOnly ends a call of anything but integers.
func (c *invocation) integersOnly() {
	for _, t := range []*tensor{c.tensor(0), c.tensor(c.last())} {
		if t.dtype == Float || t.dtype == Half || t.dtype == Double || t.dtype == BFloat16 {
			c.outside()
		}
	}
}

// clampIntegers limits integers to two numbers, each of which may be missing.
func (c *invocation) clampIntegers() {
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	if !c.absent(1) {
		low = int64(c.whole(1))
	}
	if !c.absent(2) {
		high = int64(c.whole(2))
	}
	integerFunction(func(a int64) int64 { return min(max(a, low), high) })(c)
}

// clampBetween limits numbers by the numbers of two tensors, each of which may be missing.
func (c *invocation) clampBetween() {
	operands := []int{0}
	for i := 1; i < 3; i++ {
		if !c.absent(i) {
			operands = append(operands, i)
		}
	}
	c.host(operators.Clamp(!c.absent(1), !c.absent(2)), operands...)
}

// reducedRow returns the row of what Go computes of all elements along some dimensions: one, a list, or all of them.
func reducedRow(o operators.Operation) operatorRow { return operatorRow{inGo: reducedBy(o)} }

func reducedBy(o operators.Operation) func(*invocation) {
	return func(c *invocation) { c.host(operators.Reduce(o, c.axes(1), false), 0) }
}

// extremeRow returns the row of the largest or smallest elements along a dimension, and their indices.
func extremeRow(o operators.Operation, index func(axis int) operators.Operator) operatorRow {
	return operatorRow{inGo: func(c *invocation) {
		x := c.tensor(0)
		axis := c.axis(x, c.whole(1))
		if c.tensor(3).dtype != x.dtype {
			malformed("elements of %v for %v", x.dtype, c.tensor(3).dtype)
		}
		c.hostTo([]int{3}, operators.Reduce(o, []int{axis}, false), 0)
		c.hostTo([]int{4}, index(axis), 0)
	}}
}

// indexRow returns the row of the index of the largest or smallest element: along a dimension, or of all in their order.
func indexRow(index func(axis int) operators.Operator) operatorRow {
	return operatorRow{inGo: func(c *invocation) {
		if c.absent(1) {
			c.host(operators.Flat(index(0)), 0)
		} else {
			c.host(index(c.axis(c.tensor(0), c.whole(1))), 0)
		}
	}}
}

// topK is the largest elements along the last dimension, and their indices.
func (c *invocation) topK() {
	x := c.tensor(0)
	if c.axis(x, c.whole(2)) != len(x.shape)-1 || c.whole(3) == 0 {
		c.outside()
	}
	if c.tensor(5).dtype != x.dtype {
		malformed("elements of %v for %v", x.dtype, c.tensor(5).dtype)
	}
	c.hostTo([]int{5, 6}, operators.TopK(c.whole(1)), 0)
}

func (c *invocation) cumulativeSum() {
	c.host(operators.CumulativeSum(c.axis(c.tensor(0), c.whole(1)), false, false), 0)
}

// maskedFill is a tensor with a number where a condition is true.
func (c *invocation) maskedFill() { c.host(operators.Fill(c.number(2)), 0, 1) }

func (c *invocation) logSoftmax() { c.host(operators.LogSoftmax(c.axis(c.tensor(0), c.whole(1))), 0) }

// arange counts from a number in steps.
func (c *invocation) arange() {
	c.host(operators.Count(c.number(0), c.number(2), c.tensor(c.last()).shape...))
}

// fullOf plans that argument i, a number, is everywhere.
func fullOf(i int) func(*invocation) {
	return func(c *invocation) { c.host(operators.Count(c.number(i), 0, c.tensor(c.last()).shape...)) }
}

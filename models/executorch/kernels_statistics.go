package executorch

import (
	"math"
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// batchNorm subtracts the mean of each channel, which is given, and divides by the root of its variance.
func (c *invocation) batchNorm() {
	x, y := c.tensor(0), c.tensor(7)
	c.rows(x, y)
	in := c.float(0)
	out := c.resultAt(c.args[7], in)
	rank := len(x.shape)
	if rank < 2 {
		malformed("channels of %v", x.shape)
	}
	above := flow.Combine(c, xnnpack.Add, c.channels(4, rank), c.Number(c.number(6), in))
	scale := flow.Apply(c, xnnpack.Unary{Op: xnnpack.ReciprocalSquareRoot}, above)
	if weights := c.channels(1, rank); weights != xnnpack.InvalidValue {
		scale = flow.Combine(c, xnnpack.Multiply, scale, weights)
	}
	c.scaled(flow.Combine(c, xnnpack.Subtract, in, c.channels(3, rank)), scale, c.channels(2, rank), out)
}

// variances is the variance over some dimensions, and the mean.
func (c *invocation) variances() {
	x := c.tensor(0)
	c.rows(x, c.tensor(4), c.tensor(5))
	in, axes := c.float(0), c.axes(1)
	_, variance := c.moments(in, axes, c.correction())
	for i, id := range []xnnpack.ValueID{variance, flow.Reduced(c, xnnpack.ReduceMean, axes, in)} {
		out := c.resultAt(c.args[4+i], in)
		shape := c.freed(out, c.tensor(4+i).shape)
		c.Add(flow.StaticReshape(xnnpack.StaticReshape{Shape: shape, Input: id, Output: out}))
	}
}

// distances is the distance of each row of one tensor from each row of another.
func (c *invocation) distances() {
	c.sameFloats(0, 1, c.lastArg())
	c.hostResult(operators.Distances(c.number(2)), 0, 1)
}

func (c *invocation) pairDistances() {
	c.sameFloats(0, c.lastArg())
	c.hostResult(operators.PairDistances(c.number(1)), 0)
}

// logit is log(x / (1 - x)), of x limited by a number if that is given.
func (c *invocation) logit() {
	low, high := math.Inf(-1), math.Inf(1)
	if !c.absent(1) {
		low = c.number(1)
		high = 1 - low
	}
	c.hostResult(operators.Apply(func(x float64) float64 {
		x = max(low, min(x, high))
		return math.Log(x / (1 - x))
	}), 0)
}

// bitsRow returns the row of an operation on the bits of integers.
func bitsRow(o operators.Operation) operatorRow {
	return operatorRow{inGo: func(c *invocation) {
		c.integersOnly()
		if t := c.arg(1).tensor; t != nil && isFloat(t.dtype) || c.arg(1).kind == evalueDouble {
			c.outside()
		}
		c.combine(o)
	}}
}

// bitNot inverts the bits of integers. Booleans have one.
func (c *invocation) bitNot() {
	if c.tensor(0).dtype == Bool {
		c.hostResult(operators.Negation(), 0)
	} else {
		integerFunction(operators.BitNot)(c)
	}
}

// wholeRow returns the row of a reduction of all elements to one.
func wholeRow(o operators.Operation) operatorRow {
	return operatorRow{inGo: func(c *invocation) {
		c.hostResult(operators.Reduce(o, operators.Every(0, len(c.tensor(0).shape), 1), false), 0)
	}}
}

// productAlong is the product along a dimension.
func (c *invocation) productAlong() {
	c.hostResult(operators.Reduce(operators.Product, []int{c.axis(c.tensor(0), c.integer(1))}, false), 0)
}

// gated is the first half along a dimension times the sigmoid of the second.
func (c *invocation) gated() {
	x := c.tensor(0)
	c.rows(x)
	in := c.float(0)
	axis := c.axis(x, c.integer(1))
	half := slices.Clone(x.shape)
	half[axis] /= 2
	if half[axis]*2 != x.shape[axis] {
		malformed("halves of %v", x.shape)
	}
	offsets := make([]int, len(half))
	first := flow.Sliced(c, in, offsets, half)
	offsets[axis] = half[axis]
	gate := flow.Apply(c, xnnpack.Unary{Op: xnnpack.Sigmoid}, flow.Sliced(c, in, offsets, half))
	c.binaryNode(xnnpack.Multiply, first, gate)
}

// reverseDifference is argument 1 less the first one times a number.
func (c *invocation) reverseDifference() {
	factor := c.number(2)
	c.combine(operators.Operation{Whole: func(a, b int64) int64 { return b - a*int64(factor) },
		Number: func(a, b float64) float64 { return b - a*factor }})
}

// linear is rows times a matrix, whose rows the output's columns come from, plus a bias.
func (c *invocation) linear() {
	x, w, y := c.tensor(0), c.tensor(1), c.tensor(c.lastArg())
	c.rows(x, w, y)
	a, b := c.float(0), c.float(1)
	if len(w.shape) != 2 || len(x.shape) < 1 || x.shape[len(x.shape)-1] != w.shape[1] {
		malformed("a matrix of %v for %v", w.shape, x.shape)
	}
	p := flow.Reshaped(c, a, 1, 0, w.shape[1])
	q := flow.Reshaped(c, b, 1, w.shape[0], w.shape[1])
	whole := c.Inside(a)
	c.Add(flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: p, B: q, TransposeB: true, Output: whole}))
	out := c.result(a)
	c.scaled(flow.Reshaped(c, whole, c.freed(out, y.shape)...), xnnpack.InvalidValue, c.optional(2), out)
}

// combinedNumbers plans what Go computes of two tensors, as floats.
func combinedNumbers(o operators.Operation) func(*invocation) {
	return func(c *invocation) {
		if t := c.tensor(c.lastArg()).dtype; !isReal(t) {
			c.refuse("a tensor of %v", t)
		}
		c.hostResult(operators.Combine(o), 0, 1)
	}
}

// constantRow returns the row of a number that is everywhere.
func constantRow(x float64) operatorRow {
	return operatorRow{
		nodes: func(c *invocation) { c.constantResult(x) },
		inGo:  func(c *invocation) { c.hostResult(operators.Count(x, 0, c.tensor(c.lastArg()).shape...)) },
	}
}

// numberFunctions are what Go computes of numbers that XNNPACK's nodes do not take, such as those of double precision.
var numberFunctions = map[xnnpack.UnaryOperator]func(float64) float64{
	xnnpack.Abs: math.Abs, xnnpack.BankersRounding: math.RoundToEven, xnnpack.Ceiling: math.Ceil,
	xnnpack.Cosine: math.Cos, xnnpack.Exp: math.Exp, xnnpack.Floor: math.Floor, xnnpack.Log: math.Log,
	xnnpack.Negate:               func(x float64) float64 { return -x },
	xnnpack.ReciprocalSquareRoot: func(x float64) float64 { return 1 / math.Sqrt(x) },
	xnnpack.Sigmoid:              func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	xnnpack.Sine:                 math.Sin, xnnpack.SquareRoot: math.Sqrt, xnnpack.Tanh: math.Tanh,
}

// apply plans what Go computes of each number. Only rounding gives integers, and of integers.
func (c *invocation) apply(op xnnpack.UnaryOperator, f func(float64) float64) {
	rounds := op == xnnpack.BankersRounding || op == xnnpack.Ceiling || op == xnnpack.Floor
	if t := c.tensor(c.lastArg()).dtype; !isReal(t) && (!rounds || c.tensor(0).dtype != t) {
		c.outside()
	}
	c.hostResult(operators.Apply(f), 0)
}

// wholeOrNumber plans what Go computes of integers, or of other numbers.
func wholeOrNumber(f operators.Function) func(*invocation) {
	return func(c *invocation) {
		if isReal(c.tensor(0).dtype) {
			c.hostResult(f.Compute(), 0)
		} else {
			integerFunction(f)(c)
		}
	}
}

// meanInGo is the mean over some dimensions of numbers that XNNPACK does not have.
func (c *invocation) meanInGo() {
	if t := c.tensor(c.lastArg()).dtype; !isReal(t) {
		c.refuse("a tensor of %v", t)
	}
	axes := operators.Every(0, len(c.tensor(0).shape), 1)
	if c.name == "aten::mean.out" {
		axes = c.axes(1)
	}
	c.hostResult(operators.Mean(axes, false), 0)
}

// selectedBy has elements of one tensor or another, both converted to the type of the output.
func (c *invocation) selectedBy() {
	y := c.hostedOperand(c.lastArg())
	in := ids{c.hostedOperand(0)}
	for i := 1; i < 3; i++ {
		id := c.hostedOperand(i)
		if c.plan.values[id].element() != c.plan.values[y].element() {
			converted := c.Inside(y)
			c.hosted(operators.Cast(), ids{id}, converted)
			id = converted
		}
		in = append(in, id)
	}
	c.hosted(operators.Select(false), in, y)
}

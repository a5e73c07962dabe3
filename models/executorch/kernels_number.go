package executorch

import (
	"math"
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// unaryRow returns the row of an operator that computes each element from one.
func unaryRow(f operators.Function) (row operatorRow) {
	if f.Node != nil {
		row.nodes = func(c *invocation) { c.unaryNode(*f.Node) }
	}
	number := f.Number
	if number == nil && f.Node != nil {
		number = numberFunctions[f.Node.Op]
	}
	switch {
	case number != nil && f.Whole != nil:
		if f.Number == nil {
			f.Number = number
		}
		row.inGo = wholeOrNumber(f)
	case number != nil && f.Number == nil:
		row.inGo = func(c *invocation) { c.apply(f.Node.Op, number) }
	case number != nil:
		row.inGo = hostedRow(f.Compute(), 0).inGo
	case f.Whole != nil:
		row.inGo = integerFunction(f)
	}
	return row
}

// unaryNode plans a node from the first argument to the last.
func (c *invocation) unaryNode(n xnnpack.Unary) {
	c.alike(c.tensor(0), c.tensor(c.lastArg()))
	n.Input = c.float(0)
	n.Output = c.result(n.Input)
	c.Add(flow.Unary(n))
}

// clamp limits to two numbers, each of which may be missing.
func (c *invocation) clamp() {
	low, high := c.limits()
	limits := xnnpack.Range{Min: float32(low), Max: float32(high)}
	if !(limits.Min < limits.Max) {
		c.outside()
	}
	c.unaryNode(xnnpack.Unary{Op: xnnpack.Clamp, Limits: limits})
}

// limits returns arguments 1 and 2, infinities where they are missing.
func (c *invocation) limits() (low, high float64) {
	low, high = math.Inf(-1), math.Inf(1)
	if !c.absent(1) {
		low = c.number(1)
	}
	if !c.absent(2) {
		high = c.number(2)
	}
	return low, high
}

func (c *invocation) elu() {
	if c.number(3) != 1 { // another scale of the input
		c.outside()
	}
	n := xnnpack.Unary{Op: xnnpack.ELU, Alpha: float32(c.number(1))}
	scale := c.number(2)
	if scale == 1 {
		c.unaryNode(n)
		return
	}
	c.alike(c.tensor(0), c.tensor(c.lastArg()))
	x := c.float(0)
	c.binaryNode(xnnpack.Multiply, flow.Apply(c, n, x), c.Number(scale, x))
}

func (c *invocation) leakyReLU() {
	c.unaryNode(xnnpack.Unary{Op: xnnpack.LeakyReLU, NegativeSlope: float32(c.number(1))})
}

func (c *invocation) gelu() {
	c.alike(c.tensor(0), c.tensor(c.lastArg()))
	x := c.float(0)
	out := c.result(x)
	if c.arg(1).text != "none" {
		flow.ApproximateGELU(c, x, out)
		return
	}
	c.inSinglePrecision(x, out, func(x, out xnnpack.ValueID) {
		c.Add(flow.Unary(xnnpack.Unary{Op: xnnpack.GELU, Input: x, Output: out}))
	})
}

// inSinglePrecision composes what computes an output from an input of the same type. Half precision, for which XNNPACK
// has no vector instructions there, is converted before and after it.
func (c *invocation) inSinglePrecision(x, out xnnpack.ValueID, compose func(x, out xnnpack.ValueID)) {
	if c.described(x).Type == xnnpack.Float32 {
		compose(x, out)
		return
	}
	wide, result := c.Inside(x), c.Inside(out)
	c.described(wide).Type, c.described(result).Type = xnnpack.Float32, xnnpack.Float32
	c.Add(flow.Convert(x, wide))
	compose(wide, result)
	c.Add(flow.Convert(result, out))
}

// binaryRow returns the row of an operator that computes each element from two.
func binaryRow(o operators.Operation) operatorRow {
	row := operatorRow{inGo: combined(o)}
	if o.Node != nil {
		row.nodes = func(c *invocation) {
			a := c.float(0)
			c.binaryNode(*o.Node, a, c.second(a))
		}
	}
	return row
}

// sum adds or subtracts the second operand times a number.
func (c *invocation) sum() {
	a := c.float(0)
	b := c.second(a)
	if len(c.args) > 3 && c.number(2) != 1 {
		b = flow.Combine(c, xnnpack.Multiply, b, c.Number(c.number(2), a))
	}
	op := xnnpack.Add
	if c.name == "aten::sub.out" || c.name == "aten::sub.Scalar_out" {
		op = xnnpack.Subtract
	}
	c.binaryNode(op, a, b)
}

func (c *invocation) reciprocal() {
	c.alike(c.tensor(0), c.tensor(c.lastArg()))
	a := c.float(0)
	c.binaryNode(xnnpack.Divide, c.Number(1, a), a)
}

// reciprocalInGo computes that of numbers that are no floats of XNNPACK's.
func (c *invocation) reciprocalInGo() {
	c.hostResult(operators.Apply(func(x float64) float64 { return 1 / x }), 0)
}

// power raises to a number.
func (c *invocation) power() {
	switch n := c.number(1); n {
	case 2:
		c.unaryNode(xnnpack.Unary{Op: xnnpack.Square})
	case 0.5:
		c.unaryNode(xnnpack.Unary{Op: xnnpack.SquareRoot})
	case -0.5:
		c.unaryNode(xnnpack.Unary{Op: xnnpack.ReciprocalSquareRoot})
	case 3:
		c.alike(c.tensor(0), c.tensor(c.lastArg()))
		a := c.float(0)
		c.binaryNode(xnnpack.Multiply, flow.Apply(c, xnnpack.Unary{Op: xnnpack.Square}, a), a)
	default:
		c.alike(c.tensor(0), c.tensor(c.lastArg()))
		a := c.float(0)
		c.binaryNode(xnnpack.Pow, a, c.Number(n, a))
	}
}

func (c *invocation) powerOfNumber() {
	c.alike(c.tensor(1), c.tensor(c.lastArg()))
	exponent := c.float(1)
	c.binaryNode(xnnpack.Pow, c.Number(c.number(0), exponent), exponent)
}

// powerOfNumberInGo raises a number to the numbers of a tensor.
func (c *invocation) powerOfNumberInGo() {
	c.hostResult(operators.CombineNumber(operators.Power.Reversed(), c.numberFor(c.hostedOperand(1), 0)), 1)
}

// constantResult makes what the call computes a constant of one number.
func (c *invocation) constantResult(number float64) {
	t := c.tensor(c.lastArg())
	if t.dtype != Float || t.dynamic {
		c.outside()
	}
	id := c.base + c.args[c.lastArg()]
	if v := &c.plan.values[id]; v.typed || v.constant != nil {
		c.outside()
	}
	filled := c.filledConstant(t.shape, number, c.plan.internal(xnnpack.Tensor{Type: xnnpack.Float32, Shape: scalar()}))
	v := &c.plan.values[id]
	v.typed, v.constant, v.tensor.Type = true, c.plan.values[filled].constant, xnnpack.Float32
	c.useValue(xnnpack.ValueID(id))
}

// full plans that argument i, a number, is everywhere.
func full(i int) func(*invocation) {
	return func(c *invocation) {
		if number := c.number(i); !c.symbolic[c.args[i]] {
			c.constantResult(number)
			return
		}
		c.outside() // it would need a constant for each shape
	}
}

// matrices is the product of two matrices, to which a third argument before them is added.
func (c *invocation) matrices() {
	added := c.name == "aten::addmm.out"
	first, beta, alpha := 0, 1.0, 1.0
	if added {
		first = 1
		if len(c.args) > 4 {
			beta, alpha = c.number(3), c.number(4)
		}
	}
	x, w, y := c.tensor(first), c.tensor(first+1), c.tensor(c.lastArg())
	c.rows(x, w, y)
	a, b := c.float(first), c.float(first+1)
	out := c.result(a)
	p := flow.Reshaped(c, a, append([]int{1}, c.freed(a, x.shape)...)...)
	q := flow.Reshaped(c, b, append([]int{1}, c.freed(b, w.shape)...)...)
	whole := c.Inside(a)
	c.Add(flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: p, B: q, Output: whole}))
	if !added {
		c.Add(flow.StaticReshape(xnnpack.StaticReshape{Shape: c.freed(out, y.shape), Input: whole, Output: out}))
		return
	}
	product, addend := flow.Reshaped(c, whole, c.freed(out, y.shape)...), c.float(0)
	if alpha != 1 {
		product = flow.Combine(c, xnnpack.Multiply, product, c.Number(alpha, a))
	}
	if beta != 1 {
		addend = flow.Combine(c, xnnpack.Multiply, addend, c.Number(beta, a))
	}
	c.Add(flow.Binary(xnnpack.Binary{Op: xnnpack.Add, A: product, B: addend, Output: out}))
}

// multiplied is the product of two batches of matrices.
func (c *invocation) multiplied() {
	c.rows(c.tensor(0), c.tensor(1), c.tensor(c.lastArg()))
	a, b := c.float(0), c.float(1)
	c.Add(flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: a, B: b, Output: c.result(a)}))
}

// reducingCall reduces the dimensions of a list, all if it is empty or missing.
func reducingCall(op xnnpack.ReduceOperator) func(*invocation) {
	return func(c *invocation) { c.reduce(op, c.axes(1), c.integer(2) != 0) }
}

// reduce plans a reduction of the first argument to the last.
func (c *invocation) reduce(op xnnpack.ReduceOperator, axes []int, keep bool) {
	x, y := c.tensor(0), c.tensor(c.lastArg())
	if keep {
		c.alike(x, y)
	} else {
		c.rows(y)
	}
	in := c.float(0)
	out := c.result(in)
	if !keep && len(axes) == len(x.shape) { // a number, which has the shape [1] here
		total := flow.Reduced(c, op, axes, in)
		c.Add(flow.StaticReshape(xnnpack.StaticReshape{Shape: scalar(), Input: total, Output: out}))
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
	x, y := c.tensor(0), c.tensor(c.lastArg())
	c.alike(x, y)
	in := c.float(0)
	out := c.result(in)
	axis, rank := c.axis(x, c.integer(1)), len(x.shape)
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
	rank := len(c.integers(1))
	in := c.float(0)
	out := c.resultAt(c.args[5], in)
	if rank < 1 || rank > len(x.shape) {
		malformed("%d dimensions of %d", rank, len(x.shape))
	}
	axes := operators.Every(len(x.shape)-rank, rank, 1)
	c.scaled(c.centred(in, axes, c.number(4)), c.optional(2), c.optional(3), out)
}

// moments returns a value minus its mean over some axes, and its variance over them, of which the sum of squares is
// divided by their number less some.
func (c *invocation) moments(x xnnpack.ValueID, axes []int, less float64) (centred, variance xnnpack.ValueID) {
	n := 1
	for _, d := range axes {
		n *= c.described(x).Shape[d]
	}
	centred = flow.Combine(c, xnnpack.Subtract, x, flow.Reduced(c, xnnpack.ReduceMean, axes, x))
	squared := flow.Apply(c, xnnpack.Unary{Op: xnnpack.Square}, centred)
	variance = flow.Reduced(c, xnnpack.ReduceMean, axes, squared)
	if less != 0 {
		variance = flow.Combine(c, xnnpack.Multiply, variance, c.Number(float64(n)/(float64(n)-less), x))
	}
	return centred, variance
}

// centred returns a value minus its mean over some axes, over the root of its variance plus a number.
func (c *invocation) centred(x xnnpack.ValueID, axes []int, epsilon float64) xnnpack.ValueID {
	centred, variance := c.moments(x, axes, 0)
	above := flow.Combine(c, xnnpack.Add, variance, c.Number(epsilon, x))
	inverse := flow.Apply(c, xnnpack.Unary{Op: xnnpack.ReciprocalSquareRoot}, above)
	return flow.Combine(c, xnnpack.Multiply, centred, inverse)
}

// scaled plans a value times a scale, plus a shift; both may be missing.
func (c *invocation) scaled(x, scale, shift, out xnnpack.ValueID) {
	const noValue = xnnpack.InvalidValue
	if scale != noValue && shift != noValue {
		x, scale = flow.Combine(c, xnnpack.Multiply, x, scale), noValue
	}
	switch {
	case scale != noValue:
		c.Add(flow.Binary(xnnpack.Binary{Op: xnnpack.Multiply, A: x, B: scale, Output: out}))
	case shift != noValue:
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
	return flow.Reshaped(c, x, append(slices.Clone(c.described(x).Shape), ones(rank-2)...)...)
}

// groupNorm normalises each group of channels by itself.
func (c *invocation) groupNorm() {
	x, y := c.tensor(0), c.tensor(8)
	c.rows(x, y)
	groups := c.integer(6)
	in := c.float(0)
	out := c.resultAt(c.args[8], in)
	if len(x.shape) < 2 || groups < 1 || x.shape[1]%groups != 0 {
		malformed("%d groups of %v", groups, x.shape)
	}
	groupShape := []int{x.shape[0], groups, product(x.shape) / (x.shape[0] * groups)}
	normal := c.centred(flow.Reshaped(c, in, groupShape...), []int{2}, c.number(7))
	c.scaled(flow.Reshaped(c, normal, x.shape...), c.channels(1, len(x.shape)), c.channels(2, len(x.shape)), out)
}

// instanceNorm normalises each channel over all of a batch.
func (c *invocation) instanceNorm() {
	x, y := c.tensor(0), c.tensor(6)
	c.rows(x, y)
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
	x, y := c.tensor(0), c.tensor(c.lastArg())
	c.rows(x, y)
	in := c.float(0)
	_, variance := c.moments(in, c.axes(1), c.correction())
	out := c.result(in)
	c.Add(flow.StaticReshape(xnnpack.StaticReshape{Shape: c.freed(out, y.shape), Input: variance, Output: out}))
}

// correction returns argument 2, what the number of elements is too large by; 1 if it is not given.
func (c *invocation) correction() float64 {
	if c.absent(2) {
		return 1
	}
	return c.number(2)
}

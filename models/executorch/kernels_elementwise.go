package executorch

import (
	"math"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// unaryRow returns the row of an operator that computes each element from one.
func unaryRow(f operators.Function) (row operatorRow) {
	if f.Node != nil {
		row.nodes = func(c *invocation) { c.unary(*f.Node) }
	}
	switch {
	case f.Number != nil:
		row.inGo = hostedRow(operators.Apply(f.Number), 0).inGo
	case f.Whole != nil:
		row.inGo = integerFunction(f.Whole)
	}
	return row
}

// unary plans a node from the first argument to the last.
func (c *invocation) unary(n xnnpack.Unary) {
	c.alike(c.tensor(0), c.tensor(c.last()))
	n.Input = c.float(0)
	n.Output = c.result(n.Input)
	c.Add(flow.Unary(n))
}

// clamp limits to two numbers, each of which may be missing.
func (c *invocation) clamp() {
	limits := xnnpack.Range{Min: float32(math.Inf(-1)), Max: float32(math.Inf(1))}
	if !c.absent(1) {
		limits.Min = float32(c.number(1))
	}
	if !c.absent(2) {
		limits.Max = float32(c.number(2))
	}
	if !(limits.Min < limits.Max) {
		c.outside()
	}
	c.unary(xnnpack.Unary{Op: xnnpack.Clamp, Limits: limits})
}

func (c *invocation) elu() {
	if c.number(3) != 1 { // another scale of the input
		c.outside()
	}
	n := xnnpack.Unary{Op: xnnpack.ELU, Alpha: float32(c.number(1))}
	scale := c.number(2)
	if scale == 1 {
		c.unary(n)
		return
	}
	c.alike(c.tensor(0), c.tensor(c.last()))
	x := c.float(0)
	c.binary(xnnpack.Multiply, flow.Each(c, n, x), c.Number(scale, x))
}

func (c *invocation) leakyReLU() {
	c.unary(xnnpack.Unary{Op: xnnpack.LeakyReLU, NegativeSlope: float32(c.number(1))})
}

func (c *invocation) gelu() {
	if c.arg(1).text == "none" {
		c.unary(xnnpack.Unary{Op: xnnpack.GELU})
		return
	}
	c.alike(c.tensor(0), c.tensor(c.last()))
	x := c.float(0)
	c.binary(xnnpack.Multiply, flow.GELUFactor(c, x), x)
}

// binaryRow returns the row of an operator that computes each element from two.
func binaryRow(o operators.Operation) operatorRow {
	row := operatorRow{inGo: combined(o)}
	if o.Node != nil {
		row.nodes = func(c *invocation) {
			a := c.float(0)
			c.binary(*o.Node, a, c.second(a))
		}
	}
	return row
}

// second returns the second operand, a tensor or a number.
func (c *invocation) second(like xnnpack.ValueID) xnnpack.ValueID {
	if c.arg(1).tensor == nil {
		return c.Number(c.number(1), like)
	}
	c.alike(c.tensor(0), c.tensor(1), c.tensor(c.last()))
	return c.float(1)
}

// binary plans a node to the last argument.
func (c *invocation) binary(op xnnpack.BinaryOperator, a, b xnnpack.ValueID) {
	if c.of(a).Type != c.of(b).Type {
		c.outside()
	}
	c.Add(flow.Binary(xnnpack.Binary{Op: op, A: a, B: b, Output: c.result(a)}))
}

// sum adds or subtracts the second operand times a number.
func (c *invocation) sum() {
	a := c.float(0)
	b := c.second(a)
	if len(c.args) > 3 && c.number(2) != 1 {
		b = flow.Both(c, xnnpack.Multiply, b, c.Number(c.number(2), a))
	}
	op := xnnpack.Add
	if c.name == "aten::sub.out" || c.name == "aten::sub.Scalar_out" {
		op = xnnpack.Subtract
	}
	c.binary(op, a, b)
}

func (c *invocation) reciprocal() {
	c.alike(c.tensor(0), c.tensor(c.last()))
	a := c.float(0)
	c.binary(xnnpack.Divide, c.Number(1, a), a)
}

// power raises to a number.
func (c *invocation) power() {
	switch n := c.number(1); n {
	case 2:
		c.unary(xnnpack.Unary{Op: xnnpack.Square})
	case 0.5:
		c.unary(xnnpack.Unary{Op: xnnpack.SquareRoot})
	case -0.5:
		c.unary(xnnpack.Unary{Op: xnnpack.ReciprocalSquareRoot})
	case 3:
		c.alike(c.tensor(0), c.tensor(c.last()))
		a := c.float(0)
		c.binary(xnnpack.Multiply, flow.Each(c, xnnpack.Unary{Op: xnnpack.Square}, a), a)
	default:
		c.alike(c.tensor(0), c.tensor(c.last()))
		a := c.float(0)
		c.binary(xnnpack.Pow, a, c.Number(n, a))
	}
}

func (c *invocation) powerOfNumber() {
	c.alike(c.tensor(1), c.tensor(c.last()))
	exponent := c.float(1)
	c.binary(xnnpack.Pow, c.Number(c.number(0), exponent), exponent)
}

// constantResult makes what the call computes a constant of one number.
func (c *invocation) constantResult(number float64) {
	t := c.tensor(c.last())
	c.fixed(t)
	if t.dtype != Float {
		c.outside()
	}
	id := c.base + c.args[c.last()]
	if v := &c.plan.values[id]; v.typed || v.constant != nil {
		c.outside()
	}
	filled := c.filled(t.shape, number, c.plan.internal(xnnpack.Tensor{Type: xnnpack.Float32, Shape: scalar()}))
	v := &c.plan.values[id]
	v.typed, v.constant, v.tensor.Type = true, c.plan.values[filled].constant, xnnpack.Float32
}

// full plans that argument i, a number, is everywhere.
func full(i int) func(*invocation) { return func(c *invocation) { c.constantResult(c.number(i)) } }

// matrices is the product of two matrices, to which a third argument before them is added.
func (c *invocation) matrices() {
	added := c.name == "aten::addmm.out"
	first := 0
	if added {
		first = 1
		if len(c.args) > 4 && (c.number(3) != 1 || c.number(4) != 1) { // other factors
			c.outside()
		}
	}
	x, w, y := c.tensor(first), c.tensor(first+1), c.tensor(c.last())
	c.rows(x, w, y)
	a, b := c.float(first), c.float(first+1)
	c.fixed(x)
	p, q := flow.Reshaped(c, a, append([]int{1}, x.shape...)...), flow.Reshaped(c, b, append([]int{1}, w.shape...)...)
	whole := c.Inside(a)
	c.Add(flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: p, B: q, Output: whole}))
	out := c.result(a)
	if !added {
		c.Add(flow.StaticReshape(xnnpack.StaticReshape{Shape: y.shape, Input: whole, Output: out}))
		return
	}
	product := flow.Reshaped(c, whole, y.shape...)
	c.Add(flow.Binary(xnnpack.Binary{Op: xnnpack.Add, A: product, B: c.float(0), Output: out}))
}

// multiplied is the product of two batches of matrices.
func (c *invocation) multiplied() {
	c.rows(c.tensor(0), c.tensor(1), c.tensor(c.last()))
	a, b := c.float(0), c.float(1)
	c.Add(flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: a, B: b, Output: c.result(a)}))
}

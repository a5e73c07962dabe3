package executorch

import (
	"math"

	"xpwc/internal/compute"
	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

func unaryCall(op xnnpack.UnaryOperator) func(*invocation) {
	return func(c *invocation) { c.unary(xnnpack.Unary{Op: op}) }
}

// unary plans a node from the first argument to the last.
func (c *invocation) unary(n xnnpack.Unary) {
	c.alike(c.tensor(0), c.tensor(c.last()))
	n.Input = c.float(0)
	n.Output = c.result(n.Input)
	c.node(flow.Unary(n))
}

// each plans a node from a value, and returns what it computes.
func (c *invocation) each(op xnnpack.UnaryOperator, x xnnpack.ValueID) xnnpack.ValueID {
	to := c.between(c.of(x).Shape, x)
	c.node(flow.Unary(xnnpack.Unary{Op: op, Input: x, Output: to}))
	return to
}

// both plans a node from two values, and returns what it computes.
func (c *invocation) both(op xnnpack.BinaryOperator, a, b xnnpack.ValueID) xnnpack.ValueID {
	shape, ok := compute.Broadcast(c.of(a).Shape, c.of(b).Shape)
	if !ok {
		malformed("shapes %v and %v", c.of(a).Shape, c.of(b).Shape)
	}
	to := c.between(shape, a)
	c.node(flow.Binary(xnnpack.Binary{Op: op, A: a, B: b, Output: to}))
	return to
}

// constant returns a number like the elements of a value.
func (c *invocation) constant(n float64, like xnnpack.ValueID) xnnpack.ValueID {
	return c.filled(scalar(), n, like)
}

func (c *invocation) relu() {
	c.unary(xnnpack.Unary{Op: xnnpack.Clamp, Limits: xnnpack.Range{Max: float32(math.Inf(1))}})
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
	n.Input = c.float(0)
	n.Output = c.between(c.of(n.Input).Shape, n.Input)
	c.node(flow.Unary(n))
	c.binary(xnnpack.Multiply, n.Output, c.constant(scale, n.Output))
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
	// x/2 * (1 + tanh(k/2 * (x + 0.044715*x³))) is x * sigmoid(x * (k + k*0.044715*x²)).
	k := 2 * math.Sqrt(2/math.Pi)
	cubic := c.both(xnnpack.Multiply, c.both(xnnpack.Multiply, x, x), c.constant(k*0.044715, x))
	inner := c.both(xnnpack.Multiply, c.both(xnnpack.Add, cubic, c.constant(k, x)), x)
	c.binary(xnnpack.Multiply, c.each(xnnpack.Sigmoid, inner), x)
}

func binaryCall(op xnnpack.BinaryOperator) func(*invocation) {
	return func(c *invocation) {
		a := c.float(0)
		c.binary(op, a, c.second(a))
	}
}

// second returns the second operand, a tensor or a number.
func (c *invocation) second(like xnnpack.ValueID) xnnpack.ValueID {
	if c.arg(1).tensor == nil {
		return c.constant(c.number(1), like)
	}
	c.alike(c.tensor(0), c.tensor(1), c.tensor(c.last()))
	return c.float(1)
}

// binary plans a node to the last argument.
func (c *invocation) binary(op xnnpack.BinaryOperator, a, b xnnpack.ValueID) {
	if c.of(a).Type != c.of(b).Type {
		c.outside()
	}
	c.node(flow.Binary(xnnpack.Binary{Op: op, A: a, B: b, Output: c.result(a)}))
}

// sum adds or subtracts the second operand times a number.
func (c *invocation) sum() {
	a := c.float(0)
	b := c.second(a)
	if len(c.args) > 3 && c.number(2) != 1 {
		b = c.both(xnnpack.Multiply, b, c.constant(c.number(2), a))
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
	c.binary(xnnpack.Divide, c.constant(1, a), a)
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
		c.binary(xnnpack.Multiply, c.each(xnnpack.Square, a), a)
	default:
		c.alike(c.tensor(0), c.tensor(c.last()))
		a := c.float(0)
		c.binary(xnnpack.Pow, a, c.constant(n, a))
	}
}

func (c *invocation) powerOfNumber() {
	c.alike(c.tensor(1), c.tensor(c.last()))
	exponent := c.float(1)
	c.binary(xnnpack.Pow, c.constant(c.number(0), exponent), exponent)
}

// constantResult makes what the call computes a constant of one number.
func (c *invocation) constantResult(number float64) {
	t := c.tensor(c.last())
	c.fixed(t)
	if t.dtype != Float {
		c.outside()
	}
	id := c.base + c.args[c.last()]
	if v := &c.plan.values[id]; v.known || v.constant != nil {
		c.outside()
	}
	filled := c.filled(t.shape, number, c.plan.internal(xnnpack.Tensor{Type: xnnpack.Float32, Shape: scalar()}))
	v := &c.plan.values[id]
	v.known, v.constant, v.tensor.Type = true, c.plan.values[filled].constant, xnnpack.Float32
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
	p, q := c.another(a, append([]int{1}, x.shape...)), c.another(b, append([]int{1}, w.shape...))
	whole := c.between(append([]int{1}, y.shape...), a)
	c.node(flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: p, B: q, Output: whole}))
	out := c.result(a)
	if !added {
		c.node(flow.StaticReshape(xnnpack.StaticReshape{Shape: y.shape, Input: whole, Output: out}))
		return
	}
	c.node(flow.Binary(xnnpack.Binary{Op: xnnpack.Add, A: c.another(whole, y.shape), B: c.float(0), Output: out}))
}

// multiplied is the product of two batches of matrices.
func (c *invocation) multiplied() {
	c.rows(c.tensor(0), c.tensor(1), c.tensor(c.last()))
	a, b := c.float(0), c.float(1)
	c.node(flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: a, B: b, Output: c.result(a)}))
}

package tflite

import (
	"fmt"
	"slices"

	"xpwc/xnnpack"
)

// Integers and booleans that depend on the inputs, such as the numbers of tokens, are computed in single precision: it
// has all integers below 2^24, and booleans are 0 and 1.

// count is a constant of n numbers from first on, each 1 more than the one before: a row of them,
// or a scalar. It is in no file.
func (p *plan) count(first float32, n int) *constant {
	var shape []int
	if n > 1 {
		shape = []int{1, n}
	}
	return p.derive(nil, func(*constant) *constant {
		return &constant{name: fmt.Sprintf("%d numbers from %v", n, first), content: sequence, first: first,
			stored: typeFloat32, dtype: typeFloat32, shape: shape, size: 4 * n}
	})
}

// reads has a node read a constant that is no operand.
func (c *call) reads(k *constant) *constant {
	if c.err == nil {
		c.uses = append(c.uses, usage{constant: k, how: useInference})
	}
	return k
}

// binary adds a node, unless one before failed.
func (e *emitter) binary(op xnnpack.BinaryOperator, a, b, out xnnpack.ValueID, limits xnnpack.Range) error {
	if e.err == nil {
		e.err = e.s.Binary(xnnpack.Binary{Op: op, A: a, B: b, Output: out, Activation: limits})
	}
	return e.err
}

// planComparison plans the comparisons of integers. A difference of integers is at least 1 if it is not 0, so that a
// number limited to the range from 0 to 1 is a boolean.
func planComparison(c *call) func(*emitter) error {
	if !c.arity(2, 2) {
		return nil
	}
	a, b := c.data(0), c.data(1)
	if c.err == nil && (!a.whole || !b.whole) {
		c.unsupported("values of types %v and %v", c.declared(0), c.declared(1))
	}
	if c.err != nil {
		return nil
	}
	c.define(0, c.broadcast(a.shape, b.shape)...)
	one := c.reads(c.plan.count(1, 1))
	unit := xnnpack.Range{Min: 0, Max: 1}
	return func(e *emitter) error {
		x, y, out := e.input(c, 0), e.input(c, 1), e.output(c, 0)
		inside := func(like int, op xnnpack.BinaryOperator, a, b xnnpack.ValueID) xnnpack.ValueID {
			id := e.define(e.like(like))
			e.binary(op, a, b, id, xnnpack.Range{})
			return id
		}
		switch c.op.code {
		case opLess:
			return e.binary(xnnpack.Subtract, y, x, out, unit)
		case opGreater:
			return e.binary(xnnpack.Subtract, x, y, out, unit)
		case opLessEqual: // (y+1) - x
			return e.binary(xnnpack.Subtract, inside(c.op.inputs[1], xnnpack.Add, y, e.constant(one)), x, out, unit)
		case opGreaterEqual:
			return e.binary(xnnpack.Subtract, inside(c.op.inputs[0], xnnpack.Add, x, e.constant(one)), y, out, unit)
		}
		squares := inside(c.op.outputs[0], xnnpack.SquaredDifference, x, y)
		if c.op.code == opNotEqual {
			return e.unary(xnnpack.Unary{Op: xnnpack.Clamp, Limits: unit}, squares, out)
		}
		return e.binary(xnnpack.Subtract, e.constant(one), squares, out, unit)
	}
}

// SELECT and SELECT_V2 of integers: b + condition * (a - b).
func planSelect(c *call) func(*emitter) error {
	if !c.arity(3, 3) {
		return nil
	}
	condition, a, b := c.data(0), c.data(1), c.data(2)
	if c.err == nil && (c.declared(0) != typeBool || !a.whole || !b.whole) {
		c.unsupported("values of types %v, %v and %v", c.declared(0), c.declared(1), c.declared(2))
	}
	if c.err != nil {
		return nil
	}
	difference := c.broadcast(a.shape, b.shape)
	product := c.broadcast(condition.shape, difference)
	c.define(0, product...)
	return func(e *emitter) error {
		t := c.op.outputs[0]
		d, p := e.define(e.like(t, slices.Clone(difference)...)), e.define(e.like(t))
		e.binary(xnnpack.Subtract, e.input(c, 1), e.input(c, 2), d, xnnpack.Range{})
		e.binary(xnnpack.Multiply, e.input(c, 0), d, p, xnnpack.Range{})
		return e.binary(xnnpack.Add, p, e.input(c, 2), e.output(c, 0), xnnpack.Range{})
	}
}

// CAST between integers, and of them to single precision: all are computed in single precision.
func planCast(c *call) func(*emitter) error {
	if !c.arity(1, 1) {
		return nil
	}
	in := c.data(0)
	c.define(0, in.shape...)
	if c.err == nil && (c.plan.values[c.op.outputs[0]].whole && !in.whole || c.declared(0) != typeBool &&
		c.plan.graph.tensors[c.op.outputs[0]].dtype == typeBool) {
		c.unsupported("from %v to %v", c.declared(0), c.plan.graph.tensors[c.op.outputs[0]].dtype)
	}
	return func(e *emitter) error {
		return e.s.Copy(xnnpack.Copy{Input: e.input(c, 0), Output: e.output(c, 0)})
	}
}

// FILL of a known shape with a constant: a constant.
func planFill(c *call) func(*emitter) error {
	const most = 1 << 22 // elements: a file of few bytes must not take much memory when it is opened
	if !c.arity(2, 2) {
		return nil
	}
	shape, v := c.integers(0), c.resolve(1)
	if c.err != nil {
		return nil
	}
	if v.state != static || v.constant.scatter != nil || v.constant.content != asStored {
		c.unsupported("a value that is not constant")
		return nil
	}
	n, err := elements(shape)
	size := v.dtype.Size()
	if err != nil || v.constant.size != size {
		c.malformed("the shape %v with a value of shape %v", shape, v.shape)
		return nil
	}
	if n > most {
		c.unsupported("%d elements", n)
	}
	if out := c.output(0); out != nil {
		if dtype, isWhole := out.computedAs(); dtype != v.dtype || isWhole != v.whole {
			c.malformed("an output of type %v", out.dtype)
		}
	}
	if c.err == nil {
		c.alias(0, v.constant.as("", func(k *constant) { k.shape, k.size, k.content = shape, n*size, repeated }))
	}
	return nil
}

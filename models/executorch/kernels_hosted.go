package executorch

import (
	"math"
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// hostedKernels are the operators that Go computes, where XNNPACK cannot.

// given returns an argument that Go computes with.
func (c *invocation) given(i int) xnnpack.ValueID {
	c.arg(i)
	return c.givenAt(c.args[i])
}

// givenAt returns a value of the method that Go computes with.
func (c *invocation) givenAt(value int) xnnpack.ValueID {
	id := c.operandAt(value)
	c.computable(c.tensorAt(value), id)
	return id
}

// here plans a step that Go computes, from these inputs to the last argument.
func (c *invocation) here(inputs []xnnpack.ValueID, f func(out array, in []array)) {
	c.hereTo(c.last(), inputs, f)
}

// hereTo is here to another argument.
func (c *invocation) hereTo(to int, inputs []xnnpack.ValueID, f func(out array, in []array)) {
	c.hosted(inputs, c.given(to), f)
}

// hosted plans a step that Go computes.
func (c *invocation) hosted(inputs ids, out xnnpack.ValueID, f func(out array, in []array)) {
	c.Add(flow.Hosted{Inputs: inputs, Results: ids{out}, Computed: c.of(out).Shape,
		Compute: func(out, in []array) { f(out[0], in) }})
}

// fits fails where inputs are not broadcast to what is computed.
func (c *invocation) fits(inputs ...xnnpack.ValueID) {
	y := c.tensor(c.last())
	c.rows(y)
	all := [][]int{}
	for _, id := range inputs {
		all = append(all, c.of(id).Shape)
	}
	if shape, ok := operators.Broadcast(all...); !ok || !slices.Equal(shape, y.shape) {
		malformed("shapes %v for %v", all, y.shape)
	}
}

// two plans an operation on two operands, of which the second may be a number.
func (c *invocation) two(of operators.Operation) {
	inputs := ids{c.given(0)}
	var number operators.Array
	if c.arg(1).tensor != nil {
		inputs = append(inputs, c.given(1))
	} else if c.arg(1).kind == evalueDouble {
		number = operators.Number(declared[Double], c.number(1))
	} else {
		number = operators.Number(c.plan.values[inputs[0]].element(), c.number(1))
	}
	c.fits(inputs...)
	c.here(inputs, func(out array, in []array) { operators.Combine(of, out, in[0], append(in, number)[1]) })
}

func comparing(how operators.Operation) func(*invocation) { return func(c *invocation) { c.two(how) } }

func logical(of operators.Operation) func(*invocation) {
	return func(c *invocation) {
		if t := c.tensor(0); t.dtype != Bool { // of the bits of integers
			c.outside()
		}
		c.two(of)
	}
}

// combined plans what Go computes of two numbers of any kinds, perhaps with a third argument that the second is
// multiplied by.
func combined(o operators.Operation) func(*invocation) {
	return func(c *invocation) {
		if c.arg(2).tensor == nil && c.number(2) != 1 {
			c.outside()
		}
		c.two(o)
	}
}

// divided is a quotient that is rounded as the third argument says.
func (c *invocation) divided() {
	rounded := map[string]operators.Operation{
		"": operators.Quotient, "floor": operators.FloorQuotient, "trunc": operators.TruncatedQuotient,
	}
	o, ok := rounded[c.arg(2).text]
	if !ok {
		c.outside()
	}
	c.two(o)
}

// elementwise plans what Go computes of each element of the first argument.
func elementwise(f func(out, in array)) func(*invocation) {
	return func(c *invocation) {
		in := c.given(0)
		c.fits(in)
		c.here(ids{in}, func(out array, in []array) { f(out, in[0]) })
	}
}

func applied(of func(x float64) float64) func(*invocation) {
	return elementwise(func(out, in array) { operators.Apply(of, out, in) })
}

// ofIntegers plans what Go computes of an integer.
func ofIntegers(f func(a int64) int64) func(*invocation) {
	return func(c *invocation) {
		c.wholesOnly()
		o := operators.Operation{Whole: func(a, _ int64) int64 { return f(a) }}
		elementwise(func(out, in array) { operators.Combine(o, out, in, in) })(c)
	}
}

// wholesOnly ends a call of anything but integers.
func (c *invocation) wholesOnly() {
	for _, t := range []*tensor{c.tensor(0), c.tensor(c.last())} {
		if t.dtype == Float || t.dtype == Half || t.dtype == Double || t.dtype == BFloat16 {
			c.outside()
		}
	}
}

// clampHere limits integers to two numbers, each of which may be missing.
func (c *invocation) clampHere() {
	c.wholesOnly()
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	if !c.absent(1) {
		low = int64(c.whole(1))
	}
	if !c.absent(2) {
		high = int64(c.whole(2))
	}
	ofIntegers(func(a int64) int64 { return min(max(a, low), high) })(c)
}

// clampBetween limits numbers to those of two tensors, each of which may be missing.
func (c *invocation) clampBetween() {
	x := c.given(0)
	inputs, low, high := ids{x}, 0, 0
	if !c.absent(1) {
		low, inputs = len(inputs), append(inputs, c.given(1))
	}
	if !c.absent(2) {
		high, inputs = len(inputs), append(inputs, c.given(2))
	}
	c.fits(inputs...)
	c.here(inputs, func(out array, in []array) {
		operators.Combine(operators.Greatest, out, in[0], in[low])
		operators.Combine(operators.Least, out, out, in[max(high, 0)])
	})
}

func (c *invocation) not() {
	if t := c.tensor(0); t.dtype != Bool {
		c.outside()
	}
	elementwise(operators.Not)(c)
}

// reduced plans what Go computes of all elements along some dimensions: one, a list, or all of them.
func reduced(of operators.Operation) func(*invocation) {
	return func(c *invocation) {
		in := c.given(0)
		x, y := c.tensor(0), c.tensor(c.last())
		kept, axes := slices.Clone(x.shape), c.axes(1)
		for _, d := range axes {
			kept[d] = 1
		}
		if product(kept) != product(y.shape) {
			malformed("dimensions %v of %v for %v", axes, x.shape, y.shape)
		}
		c.here(ids{in}, func(out array, in []array) { operators.Reduce(of, out, in[0], kept) })
	}
}

// extreme plans the largest or smallest elements along a dimension, and their indices.
func extreme(o operators.Operation, index func(out, in array, axis int)) func(*invocation) {
	return func(c *invocation) {
		in := c.given(0)
		x := c.tensor(0)
		axis := c.axis(x, c.whole(1))
		kept := slices.Clone(x.shape)
		kept[axis] = 1
		if y := c.tensor(3); y.dtype != x.dtype || product(y.shape) != product(kept) ||
			product(c.tensor(4).shape) != product(kept) {
			malformed("dimension %d of %v for %v", axis, x.shape, y.shape)
		}
		c.hereTo(3, ids{in}, func(out array, in []array) { operators.Reduce(o, out, in[0], kept) })
		c.hereTo(4, ids{in}, func(out array, in []array) { index(out, in[0], axis) })
	}
}

// topK is the largest elements along the last dimension, and their indices.
func (c *invocation) topK() {
	in := c.given(0)
	x, k := c.tensor(0), c.whole(1)
	axis := c.axis(x, c.whole(2))
	if axis != len(x.shape)-1 || c.whole(3) == 0 {
		c.outside()
	}
	shape := append(slices.Clone(x.shape[:axis]), k)
	for i := 5; i < 7; i++ {
		if y := c.tensor(i); k < 1 || k > x.shape[axis] || !sameElements(y.shape, shape) {
			malformed("the largest %d of %v for %v", k, x.shape, y.shape)
		}
	}
	for i := range 2 {
		c.hereTo(5+i, ids{in}, func(out array, in []array) {
			both := [2]operators.Array{operators.New(in[0].Element, shape...), operators.New(declared[Long], shape...)}
			operators.TopK(both[0], both[1], in[0])
			copy(out.Data, both[i].Data)
		})
	}
}

func (c *invocation) cumulativeSum() {
	in := c.given(0)
	x, y := c.tensor(0), c.tensor(c.last())
	axis := c.axis(x, c.whole(1))
	c.fits(in)
	if !slices.Equal(x.shape, y.shape) {
		malformed("%v for %v", x.shape, y.shape)
	}
	c.here(ids{in}, func(out array, in []array) {
		operators.Cast(out, in[0])
		operators.CumulativeSum(out, out, axis, false, false)
	})
}

// maskedFill is a tensor with a number where a condition is true.
func (c *invocation) maskedFill() {
	x, condition, number := c.given(0), c.given(1), c.number(2)
	c.fits(x, condition)
	if c.tensor(0).dtype != c.tensor(c.last()).dtype {
		c.outside()
	}
	c.here(ids{condition, x}, func(out array, in []array) {
		operators.Where(out, in[0], operators.Number(out.Element, number), in[1])
	})
}

func (c *invocation) logSoftmax() {
	axis := c.axis(c.tensor(0), c.whole(1))
	elementwise(func(out, in array) { operators.LogSoftmax(out, in, axis) })(c)
}

func (c *invocation) where() {
	condition, a, b := c.given(0), c.given(1), c.given(2)
	c.fits(condition, a, b)
	if t := c.tensor(c.last()); c.tensor(1).dtype != t.dtype || c.tensor(2).dtype != t.dtype {
		c.outside()
	}
	c.here(ids{condition, a, b}, func(out array, in []array) { operators.Where(out, in[0], in[1], in[2]) })
}

// indexOf plans where the largest or smallest element is: along a dimension, or of all in their order.
func indexOf(index func(out, in array, axis int)) func(*invocation) {
	return func(c *invocation) {
		in := c.given(0)
		x, y := c.tensor(0), c.tensor(c.last())
		shape, axis := []int{product(x.shape)}, 0
		if !c.absent(1) {
			shape, axis = x.shape, c.axis(x, c.whole(1))
		}
		if product(y.shape)*shape[axis] != product(shape) {
			malformed("a dimension of %v for %v", x.shape, y.shape)
		}
		c.here(ids{in}, func(out array, in []array) {
			in[0].Shape = shape
			index(out, in[0], axis)
		})
	}
}

// arange counts from a number in steps.
func (c *invocation) arange() {
	from, step := c.number(0), c.number(2)
	c.here(nil, func(out array, _ []array) { operators.Count(out, from, step) })
}

// fullOf plans that argument i, a number, is everywhere.
func fullOf(i int) func(*invocation) {
	return func(c *invocation) {
		x := c.number(i)
		c.here(nil, func(out array, _ []array) { operators.Count(out, x, 0) })
	}
}

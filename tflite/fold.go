package tflite

import (
	"math"
	"slices"
)

// Shapes are known when a model is opened, and so is what the model computes of them.

// numbers are integers in no dimension or in one.
type numbers struct {
	scalar bool
	list   []int
}

func (n numbers) shape() []int {
	if n.scalar {
		return nil
	}
	return []int{len(n.list)}
}

// fold computes an operator whose inputs are known, if it has one output. It reports whether it did.
func (c *call) fold(compute func(*call) (numbers, bool)) bool {
	if compute == nil || len(c.op.outputs) != 1 {
		return false
	}
	if _, isWhole := c.plan.graph.tensors[c.op.outputs[0]].computedAs(); !isWhole {
		return false
	}
	if c.op.code != opShape {
		for i := range c.op.inputs {
			if c.tensor(i) == absent {
				continue
			}
			v := c.resolve(i)
			if c.err != nil {
				return false
			}
			if v.state != known && !v.short() || len(v.shape) > 1 {
				return false
			}
		}
	}
	n, ok := compute(c)
	if c.err != nil || !ok {
		return false
	}
	const most = 256
	for _, x := range n.list {
		if x > math.MaxInt32 || x < math.MinInt32 || len(n.list) > most {
			c.malformed("%d integers, one of them %d", len(n.list), x)
			return false
		}
	}
	if len(n.list) == 0 || len(n.list) > most || c.output(0) == nil {
		return false
	}
	c.plan.values[c.op.outputs[0]] = value{state: known, shape: n.shape(), dtype: typeFloat32, whole: true,
		numbers: n.list}
	c.defined = append(c.defined, 0)
	return true
}

// given returns a known operand.
func (c *call) given(i int) numbers {
	v := c.resolve(i)
	return numbers{len(v.shape) == 0, slices.Clone(c.integers(i))}
}

// planNothingButFolded refuses what was not folded, of operators that are only computed when a model is opened.
func planNothingButFolded(c *call) func(*emitter) error {
	c.unsupported("of values that depend on the inputs")
	return nil
}

func foldShape(c *call) (numbers, bool) {
	if !c.arity(1, 1) {
		return numbers{}, false
	}
	return numbers{list: slices.Clone(c.resolve(0).shape)}, true
}

func foldSame(c *call) (numbers, bool) {
	if !c.arity(1, 1) {
		return numbers{}, false
	}
	return c.given(0), true
}

// foldFlat: a scalar becomes a list of one.
func foldFlat(c *call) (numbers, bool) {
	if !c.arity(2, 2) {
		return numbers{}, false
	}
	n := c.given(0)
	if !n.scalar {
		return numbers{}, false
	}
	return numbers{list: n.list}, true
}

func foldSqueeze(c *call) (numbers, bool) {
	n := c.given(0)
	return numbers{true, n.list}, len(n.list) == 1
}

func foldReshape(c *call) (numbers, bool) {
	if !c.arity(2, 2) {
		return numbers{}, false
	}
	n, shape := c.given(0), c.integers(1)
	switch {
	case len(shape) == 0:
		return numbers{true, n.list}, len(n.list) == 1
	case len(shape) == 1 && (shape[0] == -1 || shape[0] == len(n.list)):
		return numbers{list: n.list}, true
	}
	return numbers{}, false
}

func foldJoin(c *call) (numbers, bool) {
	var out numbers
	for i := range c.op.inputs {
		n := c.given(i)
		if n.scalar {
			return numbers{}, false
		}
		out.list = append(out.list, n.list...)
	}
	return out, true
}

func foldPack(c *call) (numbers, bool) {
	var out numbers
	for i := range c.op.inputs {
		n := c.given(i)
		if !n.scalar {
			return numbers{}, false
		}
		out.list = append(out.list, n.list...)
	}
	return out, true
}

func foldGather(c *call) (numbers, bool) {
	if !c.arity(2, 2) {
		return numbers{}, false
	}
	from, at := c.given(0), c.given(1)
	out := numbers{scalar: at.scalar}
	for _, i := range at.list {
		if i < 0 || i >= len(from.list) || from.scalar {
			c.malformed("element %d of %d", i, len(from.list))
			return numbers{}, false
		}
		out.list = append(out.list, from.list[i])
	}
	return out, true
}

func foldSlice(c *call) (numbers, bool) {
	from := c.given(0)
	if from.scalar {
		return numbers{}, false
	}
	if c.op.code == opSlice {
		if !c.arity(3, 3) {
			return numbers{}, false
		}
		begin, size := c.integers(1), c.integers(2)
		sizes, ok := sliceSizes([]int{len(from.list)}, begin, size)
		if !ok {
			return numbers{}, false
		}
		return numbers{list: from.list[begin[0]:][:sizes[0]]}, true
	}
	if !c.arity(4, 4) {
		return numbers{}, false
	}
	s := c.stridedSlice([]int{len(from.list)})
	if c.err != nil {
		return numbers{}, false
	}
	out := numbers{scalar: len(s.shape) == 0}
	for i := range s.size[0] {
		out.list = append(out.list, from.list[s.begin[0]+i*s.stride[0]])
	}
	return out, true
}

// foldReduce: over the only dimension that there is.
func foldReduce(c *call) (numbers, bool) {
	if !c.arity(2, 2) {
		return numbers{}, false
	}
	from := c.given(0)
	if from.scalar || len(from.list) == 0 {
		return numbers{}, false
	}
	out := from.list[0]
	for _, n := range from.list[1:] {
		switch c.op.code {
		case opReduceProd:
			out *= n
		case opSum:
			out += n
		case opReduceMax:
			out = max(out, n)
		}
		if out > math.MaxInt32 || out < math.MinInt32 {
			c.malformed("an integer of %d", out)
			return numbers{}, false
		}
	}
	return numbers{!c.op.options.Bool(reducerKeepDims), []int{out}}, true
}

func foldBinary(c *call) (numbers, bool) {
	if !c.arity(2, 2) {
		return numbers{}, false
	}
	a, b := c.given(0), c.given(1)
	n := max(len(a.list), len(b.list))
	fits := func(list []int) bool { return len(list) > 0 && (len(list) == n || len(list) == 1) }
	if !fits(a.list) || !fits(b.list) {
		return numbers{}, false
	}
	out := numbers{scalar: a.scalar && b.scalar}
	for i := range n {
		x, y := a.list[i%len(a.list)], b.list[i%len(b.list)]
		switch c.op.code {
		case opAdd:
			x += y
		case opSub:
			x -= y
		case opMul:
			x *= y
		case opMaximum:
			x = max(x, y)
		case opMinimum:
			x = min(x, y)
		}
		out.list = append(out.list, x)
	}
	return out, true
}

func foldFill(c *call) (numbers, bool) {
	const most = 256
	if !c.arity(2, 2) {
		return numbers{}, false
	}
	shape, v := c.integers(0), c.given(1)
	if len(shape) != 1 || !v.scalar || shape[0] <= 0 || shape[0] > most {
		return numbers{}, false
	}
	return numbers{list: slices.Repeat(v.list, shape[0])}, true
}

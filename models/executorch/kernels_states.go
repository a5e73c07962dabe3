package executorch

import (
	"math"
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// A state is a tensor that nothing computes and that the method changes: when an inference begins it is what the last
// one left, or zeros.

// keepState makes a tensor a state that becomes another one. Nothing reads it after this call.
func (c *invocation) keepState() {
	src := c.hostedOperand(1)
	if c.tensor(1).dtype != c.tensor(0).dtype || c.method.usedAfter(c.args[0], c.args) {
		c.outside()
	}
	c.become(0, operators.Expand(c.tensor(0).shape), src)
}

// updateCache writes keys or values, the first argument, into a state, from a position on. What it returns has no
// content.
func (c *invocation) updateCache() { c.update(0, 1, 2) }

// update writes argument i into the state that another argument is, from a position on.
func (c *invocation) update(i, state, position int) {
	operand, offset := c.position(position)
	c.become(state, operators.PutSpan(1, offset), append(ids{c.state(state), c.hostedOperand(i)}, operand...)...)
}

// attention plans the attention of queries to the keys and values in two states, up to the position of the queries.
func (c *invocation) attention() { c.attend(ids{c.hostedOperand(1), c.hostedOperand(2)}, 3, 4) }

// attentionWithUpdate writes keys and values into two states, and plans the attention to them.
func (c *invocation) attentionWithUpdate() {
	c.update(1, 3, 5)
	c.update(2, 4, 5)
	c.attend(ids{c.hostedOperand(3), c.hostedOperand(4)}, 5, 7)
}

// attend plans attention to keys and values. Argument position is that of the first query; mask is a mask, and after it
// are a dropout, whether keys after a query are hidden from it, and the scale.
func (c *invocation) attend(cache ids, position, mask int) {
	queries := c.tensor(0)
	in := append(ids{c.hostedOperand(0)}, cache...)
	hides := operators.NoMask
	switch causal := c.integer(mask+2) != 0; {
	case causal && !c.absent(mask):
		c.refuse("a mask in addition to the causal one")
	case causal:
		hides = operators.CausalMask
	case !c.absent(mask):
		hides, in = operators.AddedMask, append(in, c.hostedOperand(mask))
	}
	out := c.hostedOperand(c.lastArg())
	for _, id := range append(in, out) {
		if e := c.plan.values[id].element(); !operators.Attends(e) {
			c.refuse("attention of %v", e)
		}
	}
	scale := 1 / math.Sqrt(float64(queries.shape[len(queries.shape)-1]))
	if !c.absent(mask + 3) {
		scale = c.number(mask + 3)
	}
	operand, offset := c.position(position)
	c.hosted(operators.Attention(scale, hides, offset), append(in, operand...), out)
}

// state returns what a state is now.
func (c *invocation) state(i int) xnnpack.ValueID {
	id, value := c.hostedOperand(i), c.args[i]
	if _, ok := c.updated[value]; ok {
		return id
	}
	if v := c.plan.values[id]; v.computed || v.constant != nil || !c.retained[id] ||
		slices.Contains(c.method.inputs, value) || slices.Contains(c.method.outputs, value) {
		c.outside()
	}
	return id
}

// become plans that a state becomes what an operator computes.
func (c *invocation) become(i int, op operators.Operator, in ...xnnpack.ValueID) {
	value, current := c.args[i], c.state(i)
	if c.outlived(value) {
		c.refuse("a state with a view that is read before and after it changes")
	}
	v := c.plan.values[current]
	v.computed = false
	next := c.plan.value(v)
	c.hosted(op, in, next)
	state := func(s flow.State) bool { return s.Next == current }
	if k := slices.IndexFunc(c.states, state); k >= 0 {
		c.states[k].Next = next
	} else {
		zeros := func(dst []byte) error { clear(dst); return nil }
		c.states = append(c.states, flow.State{Value: current, Next: next, Initial: zeros})
	}
	c.updated[value] = next
	c.useValue(xnnpack.ValueID(c.base + value))
}

// outlived reports whether a view of a state was computed and is read after this call, which changes the state. It
// would have the content as it was.
func (c *invocation) outlived(state int) bool {
	place := c.tensorAt(state).memory
	for view, v := range c.method.values {
		if view == state || place == nil || v.tensor == nil || v.tensor.memory == nil || *v.tensor.memory != *place {
			continue
		}
		if c.plan.values[c.base+view].computed && c.method.usedAfter(view, c.args) {
			return true
		}
	}
	return false
}

// position returns the operand from which an inference reads an argument, if it does, and the number that is added to
// it.
func (c *invocation) position(i int) (operand ids, offset int) {
	if r := c.arg(i).reading; r != nil {
		return r.operands()
	}
	return nil, c.integer(i)
}

func (r *reading) operands() (operand ids, offset int) { return ids{r.tensor}, r.plus }

// readSpan returns where a slice begins, and how long it is, if an inference reads that.
func (c *invocation) readSpan() (first *reading, n int, ok bool) {
	first, end := c.arg(2).reading, c.arg(3).reading
	if first == nil || end == nil || first.tensor != end.tensor || c.integer(4) != 1 {
		return nil, 0, false
	}
	if n = end.plus - first.plus; n < 1 {
		malformed("a slice of %d elements", n)
	}
	return first, n, true
}

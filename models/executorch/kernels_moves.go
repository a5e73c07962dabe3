package executorch

import (
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
)

func (c *invocation) flip() {
	c.given(0)
	var axes []int
	for _, d := range c.wholes(1) {
		axes = append(axes, c.axis(c.tensor(0), d))
	}
	c.host(operators.Reverse(axes), 0)
}

// repeat has a tensor several times along each dimension, to which there may be new ones in front.
func (c *invocation) repeat() { c.host(operators.Tile(c.wholes(1)), 0) }

// nearest is an image of another height and width, each pixel that of the input at its place.
func (c *invocation) nearest() {
	x, y := c.tensor(0), c.tensor(c.last())
	c.given(0)
	c.given(c.last())
	if len(x.shape) != 4 || len(y.shape) != 4 {
		malformed("%v for %v", x.shape, y.shape)
	}
	var pixels [][]int
	for d := 2; d < 4; d++ {
		scale := float32(x.shape[d]) / float32(y.shape[d])
		if scale*float32(y.shape[d]) != float32(x.shape[d]) || y.shape[d]%x.shape[d] != 0 {
			c.outside() // a factor that is given may round otherwise
		}
		row := make([]int, y.shape[d])
		for i := range row {
			row[i] = i * x.shape[d] / y.shape[d]
		}
		pixels = append(pixels, row)
	}
	c.host(operators.Take(2, pixels...), 0)
}

// indices ends a call whose argument i has no integers.
func (c *invocation) indices(i int) {
	if t := c.tensor(i).dtype; t != Long && t != Int {
		c.outside()
	}
}

func (c *invocation) gather() {
	c.indices(2)
	c.host(operators.GatherElements(c.axis(c.tensor(0), c.whole(1))), 0, 2)
}

func (c *invocation) indexSelect() {
	c.indices(2)
	c.host(operators.Gather(c.axis(c.tensor(0), c.whole(1)), 0), 0, 2)
}

// indexing reads argument 1, a list that has a tensor of indices for some dimensions of the first argument.
func (c *invocation) indexing() (axes []int, indices ids) {
	x, list := c.tensor(0), c.arg(1)
	if list.kind != evalueOptionalTensorList && list.kind != evalueTensorList || len(list.list) > len(x.shape) {
		malformed("%d indices of %v", len(list.list), x.shape)
	}
	for d, value := range list.list {
		if value < 0 || c.method.values[value].kind == evalueNull {
			continue
		}
		if t := c.tensorAt(value); t.dtype != Long && t.dtype != Int {
			c.outside()
		}
		axes, indices = append(axes, d), append(indices, c.givenValue(value))
	}
	return axes, indices
}

func (c *invocation) indexed() {
	x := c.given(0)
	axes, indices := c.indexing()
	c.hosted(operators.Index(axes), append(ids{x}, indices...), c.given(c.last()))
}

// indexPut is a tensor with values at some indices, put there or added.
func (c *invocation) indexPut() {
	in := ids{c.given(0), c.given(2)}
	axes, indices := c.indexing()
	c.hosted(operators.IndexPut(axes, c.whole(3) != 0), append(in, indices...), c.given(c.last()))
}

func (c *invocation) sliceScatter() {
	c.given(0)
	axis, begin, n, step := c.each(2)
	c.host(operators.Put(axis, operators.Every(begin, n, step)), 0, 1)
}

func (c *invocation) selectScatter() {
	x := c.tensor(0)
	axis := c.axis(x, c.whole(2))
	c.host(operators.Put(axis, []int{counted(c.whole(3), x.shape[axis])}), 0, 1)
}

// asStrided is elements that lie some steps apart in memory.
func (c *invocation) asStrided() {
	strides, offset := c.wholes(2), 0
	if !c.absent(3) {
		offset = c.whole(3)
	}
	y := c.tensor(c.last())
	if len(strides) != len(y.shape) || slices.Min(strides) < 0 {
		c.outside()
	}
	c.host(operators.AsStrided(y.shape, strides, offset), 0)
}

// expanded plans an argument that is broadcast to the shape of what is computed.
func expanded(i int) func(*invocation) {
	return func(c *invocation) { c.host(operators.Expand(c.tensor(c.last()).shape), i) }
}

// embedding looks rows of a table up; its arguments for training do not matter.
func (c *invocation) embedding() { c.host(operators.Gather(0, 0), 0, 1) }

// unfolded is slices of a size along a dimension, a step apart.
func (c *invocation) unfolded() {
	c.host(operators.Unfold(c.axis(c.tensor(0), c.whole(1)), c.whole(2), c.whole(3)), 0)
}

// keeping is the operator that leaves what it copies for the next inference.
const keeping = "aten::copy_"

// kept makes a tensor that nothing computes a state: when an inference begins it is what the last one left, or zeros.
// Nothing reads it after this call.
func (c *invocation) kept() {
	src, state := c.given(1), c.given(0)
	value := c.args[0]
	v := c.plan.values[state]
	if v.computed || v.constant != nil || c.tensor(1).dtype != v.dtype || slices.Contains(c.method.inputs, value) ||
		slices.Contains(c.method.outputs, value) || !slices.Equal(c.method.lastUse(value), c.args) {
		c.outside()
	}
	next := c.plan.value(v)
	c.hosted(operators.Expand(c.tensor(0).shape), ids{src}, next)
	zeros := func(dst []byte) error { clear(dst); return nil }
	c.states = append(c.states, flow.State{Value: state, Next: next, Initial: zeros})
}

package executorch

import (
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// scatter puts a tensor, or a number, where indices point to along a dimension.
func (c *invocation) scatter() {
	c.indices(2)
	axis := c.axis(c.tensor(0), c.integer(1))
	if c.arg(3).tensor == nil {
		c.hostResult(operators.ScatterNumber(axis, c.number(3)), 0, 2)
	} else {
		c.hostResult(operators.Scatter(axis, false), 0, 2, 3)
	}
}

func (c *invocation) scatterAdd() {
	c.indices(2)
	c.hostResult(operators.Scatter(c.axis(c.tensor(0), c.integer(1)), true), 0, 2, 3)
}

// repeatIndices has an index as often as the tensor says. The program has the sum.
func (c *invocation) repeatIndices() {
	c.indices(0)
	c.hostResult(operators.RepeatIndices(product(c.tensor(c.lastArg()).shape)), 0)
}

// diagonal is a view of the elements along the diagonal of two dimensions.
func (c *invocation) diagonal() {
	x := c.tensor(0)
	row, column := c.axis(x, c.integer(2)), c.axis(x, c.integer(3))
	c.hostResult(operators.Diagonal(c.integer(1), row, column), 0)
}

func (c *invocation) triangle() { c.hostResult(operators.Triangle(c.integer(1)), 0) }

// roll moves elements along dimensions, or all in their order if it has none.
func (c *invocation) roll() {
	places, dims := c.integers(1), c.integers(2)
	if len(dims) == 0 {
		c.hostResult(operators.Flat(operators.Roll([]int{0}, places)), 0)
		return
	}
	var axes []int
	for _, d := range dims {
		axes = append(axes, c.axis(c.tensor(0), d))
	}
	c.hostResult(operators.Roll(axes, places), 0)
}

// surrounded returns how much a list adds before and after each dimension of the first argument. The list begins with
// the last dimension.
func (c *invocation) surrounded() (pre, post []int) {
	rank, list := len(c.tensor(0).shape), c.integers(1)
	if len(list)%2 != 0 || len(list) > 2*rank {
		malformed("%d numbers for %d dimensions", len(list), rank)
	}
	pre, post = make([]int, rank), make([]int, rank)
	for i := 0; i < len(list); i += 2 {
		if list[i] < 0 || list[i+1] < 0 {
			c.outside()
		}
		pre[rank-1-i/2], post[rank-1-i/2] = list[i], list[i+1]
	}
	return pre, post
}

// reflect has the mirror image around a tensor, without the elements at its edge.
func (c *invocation) reflect() {
	pre, post := c.surrounded()
	c.hostResult(operators.MirrorPad(pre, post, false), 0)
}

// replicate has the elements at the edge around a tensor.
func (c *invocation) replicate() { c.hostResult(operators.Surround(c.surrounded()), 0) }

// narrowed is a part of a length from an index on along a dimension.
func (c *invocation) narrowed() {
	x, y := c.tensor(0), c.tensor(c.lastArg())
	c.alike(x, y)
	axis := c.axis(x, c.integer(1))
	in := c.operand(0)
	first, n := counted(c.integer(2), x.shape[axis]), c.integer(3)
	if n > x.shape[axis]-first {
		malformed("%d elements from %d on of %v", n, first, x.shape)
	}
	c.part(in, x, axis, first, n, c.result(in))
}

// shuffled brings blocks of pixels to channels, or channels to blocks of pixels.
func (c *invocation) shuffled() {
	x, y, block := c.tensor(0), c.tensor(c.lastArg()), c.integer(1)
	c.rows(x, y)
	in := c.operand(0)
	out := c.result(in)
	image := y
	order := []int{0, 1, 4, 2, 5, 3} // [n, channels, block, block, rows, columns]
	if c.name == "aten::pixel_unshuffle.out" {
		image, order = x, []int{0, 1, 3, 5, 2, 4}
	}
	rank := len(image.shape)
	if rank < 3 || len(x.shape) != len(y.shape) || block < 1 || image.shape[rank-1]%block != 0 ||
		image.shape[rank-2]%block != 0 {
		malformed("blocks of %d in %v", block, image.shape)
	}
	n, channels := product(image.shape[:rank-3]), image.shape[rank-3]
	rows, columns := image.shape[rank-2]/block, image.shape[rank-1]/block
	parts := []int{n, channels, block, block, rows, columns}
	if image == x {
		parts = []int{n, channels, rows, block, columns, block}
	}
	if product(x.shape) != product(parts) {
		malformed("blocks of %d in %v for %v", block, x.shape, y.shape)
	}
	moved := flow.Transposed(c, flow.Reshaped(c, in, parts...), order...)
	c.Add(flow.StaticReshape(xnnpack.StaticReshape{Shape: slices.Clone(y.shape), Input: moved, Output: out}))
}

// shuffledSizes is of images whose pixels became channels, or the reverse.
func (c *invocation) shuffledSizes() {
	x, block := slices.Clone(c.sizes(0)), c.integer(1)
	rank := len(x)
	if rank < 3 || block < 1 || block > operators.MostIndices {
		malformed("blocks of %d in %v", block, x)
	}
	if c.name == "aten::pixel_unshuffle.out" {
		x[rank-3], x[rank-2], x[rank-1] = x[rank-3]*block*block, x[rank-2]/block, x[rank-1]/block
	} else {
		x[rank-3], x[rank-2], x[rank-1] = x[rank-3]/(block*block), x[rank-2]*block, x[rank-1]*block
	}
	c.setResult(x)
}

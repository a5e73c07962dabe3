package executorch

import (
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// image returns the first argument as XNNPACK has images: [batch, height, width, channels]. Its dimensions in memory
// are in that order already, or in PyTorch's own.
func (c *invocation) image() (id xnnpack.ValueID, shape []int) {
	x := c.tensor(0)
	in := c.float(0)
	if len(x.shape) != 4 {
		c.outside()
	}
	if slices.Equal(x.order, []int{0, 2, 3, 1}) {
		return in, x.shape
	}
	c.rows(x)
	id = flow.Transposed(c, in, 0, 2, 3, 1)
	return id, c.described(id).Shape
}

// imageTo plans that an argument is an image, in the order of dimensions that it has.
func (c *invocation) imageTo(i int, id xnnpack.ValueID) {
	y := c.tensor(i)
	out := c.resultAt(c.args[i], id)
	if slices.Equal(y.order, []int{0, 2, 3, 1}) {
		c.permuted(id, out, []int{0, 1, 2, 3})
		return
	}
	c.rows(y)
	c.permuted(id, out, []int{0, 3, 1, 2})
}

// size returns argument i, a height and a width, or both as one number; if there is none, it is another.
func (c *invocation) size(i int, missing xnnpack.Size) xnnpack.Size {
	list := c.integers(i)
	switch {
	case len(list) == 0:
		return missing
	case len(list) == 1:
		return xnnpack.Size{Height: list[0], Width: list[0]}
	case len(list) > 2 || slices.Min(list) < 0:
		malformed("a size of %v", list)
	}
	return xnnpack.Size{Height: list[0], Width: list[1]}
}

// averagePool is the mean under a window. XNNPACK leaves padded pixels out, so that they are added first where they
// count.
func (c *invocation) averagePool() {
	if !c.absent(6) { // another divisor
		c.outside()
	}
	id, shape := c.image()
	n := xnnpack.AveragePooling2D{Pooling: c.size(1, xnnpack.Size{})}
	n.Stride = c.size(2, n.Pooling)
	around := c.size(3, xnnpack.Size{})
	p := xnnpack.Padding{Top: around.Height, Bottom: around.Height, Left: around.Width, Right: around.Width}
	counts := p != (xnnpack.Padding{}) && c.integer(5) != 0
	if c.integer(4) != 0 {
		even := p
		if p = roundedUp(p, shape, n.Pooling, n.Stride); counts && p != even { // some of the padding counts
			c.outside()
		}
	}
	if counts {
		perAxis := []int{0, p.Top, p.Left, 0}
		id, p = flow.Padded(c, id, perAxis, perAxis), xnnpack.Padding{}
	}
	n.Input, n.Padding, n.Output = id, p, c.Inside(id)
	c.Add(flow.AveragePooling2D(n))
	c.imageTo(c.lastArg(), n.Output)
}

// averageInGo is averagePool in Go, with another divisor or where padding counts of which a window covers a part.
func (c *invocation) averageInGo() {
	window := c.size(1, xnnpack.Size{})
	stride, around := c.size(2, window), c.size(3, xnnpack.Size{})
	divisor := 0.0
	if !c.absent(6) {
		divisor = c.number(6)
	}
	w := operators.Window{Size: []int{window.Height, window.Width}, Stride: []int{stride.Height, stride.Width},
		Dilation: []int{1, 1}, Pre: []int{around.Height, around.Width}, Padded: []int{0, 0}}
	if c.integer(5) != 0 {
		w.Padded = w.Pre
	}
	y := c.tensor(c.lastArg())
	if len(y.shape) != 4 {
		malformed("an output of %v", y.shape)
	}
	c.hostResult(operators.MeanPool(w, y.shape[2:], divisor), 0)
}

// roundedUp returns the padding of a pool that rounds the size of its result up: its last window may reach beyond the
// image, but not begin there.
func roundedUp(p xnnpack.Padding, image []int, window, stride xnnpack.Size) xnnpack.Padding {
	extended := func(n, pre, post, window, stride int) int {
		free := pre + n + post - window
		if stride < 1 || free < 0 || free%stride == 0 || free-free%stride+stride >= pre+n {
			return post
		}
		return post + stride - free%stride
	}
	p.Bottom = extended(image[1], p.Top, p.Bottom, window.Height, stride.Height)
	p.Right = extended(image[2], p.Left, p.Right, window.Width, stride.Width)
	return p
}

// adaptivePool is the mean of each part of an image, which is cut in parts of one size.
func (c *invocation) adaptivePool() {
	id, shape := c.image()
	size := c.size(1, xnnpack.Size{})
	if size.Height < 1 || size.Width < 1 || shape[1]%size.Height != 0 || shape[2]%size.Width != 0 {
		c.outside()
	}
	window := xnnpack.Size{Height: shape[1] / size.Height, Width: shape[2] / size.Width}
	if window == (xnnpack.Size{Height: 1, Width: 1}) {
		c.imageTo(c.lastArg(), id)
		return
	}
	n := xnnpack.AveragePooling2D{Input: id, Pooling: window, Stride: window, Output: c.Inside(id)}
	c.Add(flow.AveragePooling2D(n))
	c.imageTo(c.lastArg(), n.Output)
}

// maxPool is the largest element under a window, without its place.
func (c *invocation) maxPool() {
	if c.arg(7); c.method.uses(c.args[7]) { // where it is
		c.outside()
	}
	id, shape := c.image()
	n := xnnpack.MaxPooling2D{Input: id, Pooling: c.size(1, xnnpack.Size{})}
	n.Stride = c.size(2, n.Pooling)
	around := c.size(3, xnnpack.Size{})
	n.Dilation = c.size(4, xnnpack.Size{Height: 1, Width: 1})
	n.Padding = xnnpack.Padding{Top: around.Height, Bottom: around.Height, Left: around.Width, Right: around.Width}
	if c.integer(5) != 0 {
		n.Padding = roundedUp(n.Padding, shape, xnnpack.Size{
			Height: (n.Pooling.Height-1)*n.Dilation.Height + 1,
			Width:  (n.Pooling.Width-1)*n.Dilation.Width + 1,
		}, n.Stride)
	}
	n.Output = c.Inside(id)
	c.Add(flow.MaxPooling2D(n))
	c.imageTo(6, n.Output)
}

// convolution is a product of matrices: one of the elements under the kernel at each place, which Go collects, and one
// of the kernel's, which need not be constant.
func (c *invocation) convolution() {
	if c.integer(6) != 0 { // transposed
		c.outside()
	}
	x, w, y := c.tensor(0), c.tensor(1), c.tensor(c.lastArg())
	c.rows(x, w, y)
	in, kernel := c.hostedOperand(0), c.float(1)
	stride, around, dilation, groups := c.integers(3), c.integers(4), c.integers(5), c.integer(8)
	rank := len(x.shape) - 2
	if rank < 1 || len(w.shape) != rank+2 || len(y.shape) != rank+2 || groups < 1 ||
		w.shape[0]%groups != 0 || x.shape[1] != w.shape[1]*groups || y.shape[0] != x.shape[0] ||
		y.shape[1] != w.shape[0] {
		malformed("a kernel of %v for %v", w.shape, x.shape)
	}
	perAxis := func(list []int) []int {
		if len(list) == 1 {
			list = slices.Repeat(list, rank)
		}
		if len(list) != rank {
			malformed("%v for %d dimensions", list, rank)
		}
		return list
	}
	window := operators.Window{Size: w.shape[2:], Stride: perAxis(stride), Dilation: perAxis(dilation),
		Pre: perAxis(around), Padded: perAxis(around)}
	depth := product(w.shape[1:])
	patches := c.Inside(in)
	c.hosted(operators.Patches(window, y.shape[2:], groups), ids{in}, patches)
	outputs := w.shape[0] / groups
	filters := flow.Reshaped(c, kernel, groups, outputs, depth)
	if x.shape[0] > 1 {
		c.outside() // the kernel would have to be repeated for each image
	}
	products := c.Inside(in)
	n := xnnpack.BatchMatrixMultiply{A: filters, B: patches, TransposeB: true, Output: products}
	c.Add(flow.BatchMatrixMultiply(n))
	shaped := flow.Reshaped(c, products, y.shape...)
	bias := c.channels(2, len(y.shape))
	out := c.result(in)
	c.scaled(shaped, xnnpack.InvalidValue, bias, out)
}

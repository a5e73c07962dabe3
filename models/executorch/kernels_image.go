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

// A convolutionCall is a convolution's arguments.
type convolutionCall struct {
	x, w, y    *tensor
	in, kernel xnnpack.ValueID
	window     operators.Window
	groups     int
}

// convolutionCall reads a convolution. Its kernel need not be constant.
func (c *invocation) convolutionCall() (k convolutionCall) {
	k.x, k.w, k.y, k.groups = c.tensor(0), c.tensor(1), c.tensor(c.lastArg()), c.integer(8)
	c.rows(k.x, k.w, k.y)
	k.in, k.kernel = c.hostedOperand(0), c.float(1)
	rank := len(k.x.shape) - 2
	if rank < 1 || len(k.w.shape) != rank+2 || len(k.y.shape) != rank+2 || k.groups < 1 ||
		k.w.shape[0]%k.groups != 0 || k.y.shape[0] != k.x.shape[0] {
		malformed("a kernel of %v for %v", k.w.shape, k.x.shape)
	}
	perAxis := func(i int) []int {
		list := c.integers(i)
		if len(list) == 1 {
			list = slices.Repeat(list, rank)
		}
		if len(list) != rank {
			malformed("%v for %d dimensions", list, rank)
		}
		return list
	}
	around := perAxis(4)
	k.window = operators.Window{Size: k.w.shape[2:], Stride: perAxis(3), Dilation: perAxis(5), Pre: around,
		Padded: around}
	return k
}

// convolution is a product of matrices: one of the elements under the kernel at each place, which Go collects, and one
// of the kernel's.
func (c *invocation) convolution() {
	k := c.convolutionCall()
	if c.integer(6) != 0 {
		c.transposedConvolution(k)
		return
	}
	batch, groups := k.x.shape[0], k.groups
	if k.x.shape[1] != k.w.shape[1]*groups || k.y.shape[1] != k.w.shape[0] {
		malformed("a kernel of %v for %v", k.w.shape, k.x.shape)
	}
	depth, places, outputs := product(k.w.shape[1:]), product(k.y.shape[2:]), k.w.shape[0]/groups
	patches := c.Inside(k.in)
	c.hosted(operators.Patches(k.window, k.y.shape[2:], groups), ids{k.in}, patches)
	patches = c.swapped(patches, batch, groups, places*depth, groups, batch*places, depth)
	filters := flow.Reshaped(c, k.kernel, groups, outputs, depth)
	products := c.Inside(k.in)
	n := xnnpack.BatchMatrixMultiply{A: filters, B: patches, TransposeB: true, Output: products}
	c.Add(flow.BatchMatrixMultiply(n))
	if batch > 1 {
		products = flow.Transposed(c, flow.Reshaped(c, products, groups*outputs, batch, places), 1, 0, 2)
	}
	shaped := flow.Reshaped(c, products, k.y.shape...)
	c.scaled(shaped, xnnpack.InvalidValue, c.channels(2, len(k.y.shape)), c.result(k.in))
}

// swapped returns a value with its first two dimensions, of a shape of three, exchanged, in another shape.
func (c *invocation) swapped(x xnnpack.ValueID, first, second, rest int, shape ...int) xnnpack.ValueID {
	if first > 1 && second > 1 {
		x = flow.Transposed(c, flow.Reshaped(c, x, first, second, rest), 1, 0, 2)
	}
	return flow.Reshaped(c, x, shape...)
}

// transposedConvolution is the product of matrices of the pixels and of the kernel, which Go adds up where the kernel
// is at each pixel.
func (c *invocation) transposedConvolution(k convolutionCall) {
	batch, groups, x := k.x.shape[0], k.groups, k.x.shape
	if x[1] != k.w.shape[0] || k.y.shape[1] != k.w.shape[1]*groups {
		malformed("a kernel of %v for %v", k.w.shape, x)
	}
	depth, places, inputs := product(k.w.shape[1:]), product(x[2:]), x[1]/groups
	pixels := flow.Transposed(c, flow.Reshaped(c, k.in, batch, groups, inputs, places), 1, 0, 3, 2)
	pixels = flow.Reshaped(c, pixels, groups, batch*places, inputs)
	kernel := flow.Reshaped(c, k.kernel, groups, inputs, depth)
	products := c.Inside(k.in)
	c.Add(flow.BatchMatrixMultiply(xnnpack.BatchMatrixMultiply{A: pixels, B: kernel, Output: products}))
	patches := c.swapped(products, groups, batch, places*depth, batch*groups, places, depth)
	folded := c.Inside(k.in)
	c.hosted(operators.Fold(k.window, batch, k.y.shape[1:], x[2:]), ids{patches}, folded)
	c.scaled(folded, xnnpack.InvalidValue, c.channels(2, len(k.y.shape)), c.result(k.in))
}

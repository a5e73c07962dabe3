package executorch

import (
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// gridSample has pixels of images at the places of a grid.
func (c *invocation) gridSample() {
	mode, border := operators.Interpolation(c.integer(2)), operators.Border(c.integer(3))
	c.sameFloats(0, 1, c.lastArg())
	c.hostResult(operators.SampleGrid(mode, border, c.integer(4) != 0), 0, 1)
}

// sameFloats ends a call whose arguments are not all floats of one type.
func (c *invocation) sameFloats(list ...int) {
	dtype := c.tensor(list[0]).dtype
	for _, i := range list {
		if t := c.tensor(i).dtype; t != dtype || !isReal(t) {
			c.refuse("tensors of %v and %v", dtype, t)
		}
	}
}

// imageSize returns the height and the width of the last argument.
func (c *invocation) imageSize() []int {
	y := c.tensor(c.lastArg())
	if len(y.shape) != 4 {
		malformed("images of shape %v", y.shape)
	}
	return y.shape[2:]
}

// bilinear resizes images; factors that are given decide which pixels are neighbours.
func (c *invocation) bilinear() {
	c.sameFloats(0, c.lastArg())
	r := operators.Resizing{Size: c.imageSize(), Corners: c.integer(2) != 0, Factors: c.factors(3)}
	c.hostResult(operators.ResizeBilinear(r), 0)
}

// smoothBilinear resizes images without aliasing.
func (c *invocation) smoothBilinear() {
	c.sameFloats(0, c.lastArg())
	r := operators.Resizing{Size: c.imageSize(), Corners: c.integer(2) != 0, Smooth: true}
	if !c.absent(3) && !c.absent(4) && len(c.args) > 5 {
		r.Factors = []float64{c.number(3), c.number(4)}
	}
	c.hostResult(operators.ResizeBilinear(r), 0)
}

// adaptiveInGo is adaptivePool where the parts are not all of one size.
func (c *invocation) adaptiveInGo() {
	c.sameFloats(0, c.lastArg())
	size := c.size(1, xnnpack.Size{})
	c.hostResult(operators.AdaptiveMean([]int{size.Height, size.Width}), 0)
}

// maxPoolInGo is maxPool with the places of the elements, or of elements that XNNPACK does not have.
func (c *invocation) maxPoolInGo() {
	x, y := c.tensor(0), c.tensor(6)
	window := c.size(1, xnnpack.Size{})
	stride, around := c.size(2, window), c.size(3, xnnpack.Size{})
	dilation := c.size(4, xnnpack.Size{Height: 1, Width: 1})
	w := operators.Window{Size: []int{window.Height, window.Width}, Stride: []int{stride.Height, stride.Width},
		Dilation: []int{dilation.Height, dilation.Width}, Pre: []int{around.Height, around.Width},
		Padded: []int{0, 0}}
	if len(x.shape) != 4 || len(y.shape) != 4 {
		c.refuse("images of shape %v", x.shape)
	}
	if x.dtype != y.dtype {
		malformed("elements of %v for %v", x.dtype, y.dtype)
	}
	pool := operators.MaxPool(w, c.windowSizes(x.shape[2:], dilation, c.integer(5) != 0))
	if c.arg(7); c.method.uses(c.args[7]) {
		c.hostTo([]int{6, 7}, pool, 0)
	} else {
		c.hostTo([]int{6}, operators.First(pool), 0)
	}
}

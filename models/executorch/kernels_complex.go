package executorch

import (
	"math"
	"slices"

	"xpwc/internal/operators"
)

// complexOperators take complex numbers: they compute with them, or move them as what else has 8 bytes.
var complexOperators = []string{
	"aten::_conj_physical.out", "aten::_fft_c2r.out", "aten::_fft_r2c.out", "aten::abs.out", "aten::alias_copy.out",
	"aten::cat.out", "aten::clone.out", "aten::expand_copy.out", "aten::flip.out", "aten::mul.out",
	"aten::permute_copy.out", "aten::select_copy.int_out", "aten::slice_copy.Tensor_out",
	"aten::squeeze_copy.dim_out", "aten::squeeze_copy.dims_out", "aten::stack.out", "aten::t_copy.out",
	"aten::transpose_copy.int_out", "aten::unsqueeze_copy.out", "aten::view_as_real_copy.out",
	"aten::view_copy.out", "dim_order_ops::_clone_dim_order.out",
}

func takesComplex(operator string) bool {
	_, ok := slices.BinarySearch(complexOperators, operator)
	return ok
}

// complexNumbers ends a call whose arguments are not all of complex numbers.
func (c *invocation) complexNumbers(list ...int) {
	for _, i := range list {
		if t := c.tensor(i).dtype; t != ComplexFloat {
			c.refuse("a tensor of %v", t)
		}
	}
}

// spectrum is the Fourier transform of real numbers along dimensions.
func (c *invocation) spectrum() {
	axes, factor := c.transform(c.tensor(0).shape)
	if c.tensor(0).dtype != Float {
		c.refuse("a tensor of %v", c.tensor(0).dtype)
	}
	c.complexNumbers(c.lastArg())
	c.hostResult(operators.RealFourier(axes, factor, c.integer(3) != 0), 0)
}

// inverseSpectrum is the inverse transform of half a spectrum to real numbers, as many as an argument says.
func (c *invocation) inverseSpectrum() {
	c.complexNumbers(0)
	y := c.tensor(c.lastArg())
	axes, factor := c.transform(y.shape)
	if y.dtype != Float {
		c.refuse("a tensor of %v", y.dtype)
	}
	c.hostResult(operators.InverseFourier(axes, factor, c.integer(3)), 0)
}

// transform returns the axes of a transform, and the factor for as many numbers as these have in a shape.
func (c *invocation) transform(shape []int) (axes []int, factor float64) {
	n := 1.0
	for _, d := range c.integers(1) {
		axis := c.axis(c.tensor(0), d)
		if axis >= len(shape) {
			malformed("axis %d of %v", axis, shape)
		}
		axes, n = append(axes, axis), n*float64(shape[axis])
	}
	switch c.integer(2) {
	case 0:
		return axes, 1
	case 1:
		return axes, 1 / math.Sqrt(n)
	case 2:
		return axes, 1 / n
	}
	c.outside()
	return nil, 0
}

func (c *invocation) realParts() {
	c.complexNumbers(0)
	c.hostResult(operators.Parts(), 0)
}

func (c *invocation) conjugate() {
	c.complexNumbers(0, c.lastArg())
	c.hostResult(operators.Conjugate(), 0)
}

func (c *invocation) magnitude() {
	c.complexNumbers(0)
	if y := c.tensor(c.lastArg()); y.dtype != Float {
		c.refuse("a tensor of %v", y.dtype)
	}
	c.hostResult(operators.Magnitudes(), 0)
}

// absolute is the absolute value of each number.
func (c *invocation) absolute() {
	if c.tensor(0).dtype == ComplexFloat {
		c.magnitude()
	} else {
		unaryRow(operators.Abs).inGo(c)
	}
}

// product multiplies each number by another.
func (c *invocation) product() {
	if c.tensor(0).dtype != ComplexFloat {
		combined(operators.Product)(c)
		return
	}
	c.complexNumbers(0, 1, c.lastArg())
	c.hostResult(operators.MultiplyComplex(), 0, 1)
}

package executorch

import (
	"math"

	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// scalars are the instructions that compute numbers from sizes and other numbers: the program's arithmetic of shapes.
// They are computed while the method is planned for certain shapes.
var scalars = map[string]func(c *invocation) evalue{
	"aten::_local_scalar_dense":        (*invocation).elementRead,
	"aten::sym_numel":                  (*invocation).elementCount,
	"aten::sym_size.int":               (*invocation).sizeAlong,
	"executorch_prim::add.Scalar":      (*invocation).added,
	"executorch_prim::ceil.Scalar":     rounded(math.Ceil),
	"executorch_prim::eq.Scalar":       compared(func(a, b float64) bool { return a == b }),
	"executorch_prim::floordiv.Scalar": arithmetic(floorQuotient, floorOfQuotient),
	"executorch_prim::floordiv.int":    arithmetic(floorQuotient, floorOfQuotient),
	"executorch_prim::ge.Scalar":       compared(func(a, b float64) bool { return a >= b }),
	"executorch_prim::gt.Scalar":       compared(func(a, b float64) bool { return a > b }),
	"executorch_prim::le.Scalar":       compared(func(a, b float64) bool { return a <= b }),
	"executorch_prim::lt.Scalar":       compared(func(a, b float64) bool { return a < b }),
	"executorch_prim::mod.Scalar":      arithmetic(remainder, math.Mod),
	"executorch_prim::mod.int":         arithmetic(remainder, math.Mod),
	"executorch_prim::mul.Scalar":      arithmetic(multiple[int64], multiple[float64]),
	"executorch_prim::neg.Scalar":      (*invocation).negative,
	"executorch_prim::round.Scalar":    rounded(math.RoundToEven),
	"executorch_prim::sub.Scalar":      arithmetic(difference[int64], difference[float64]),
	"executorch_prim::sym_float.Scalar": func(c *invocation) evalue {
		return realNumber(c.number(0))
	},
	"executorch_prim::sym_int.Scalar": rounded(math.Trunc),
	"executorch_prim::sym_ite.Scalar": (*invocation).chosen,
	"executorch_prim::sym_max.Scalar": arithmetic(larger[int64], larger[float64]),
	"executorch_prim::sym_min.Scalar": arithmetic(smaller[int64], smaller[float64]),
	"executorch_prim::sym_not.Scalar": func(c *invocation) evalue { return boolean(c.number(0) == 0) },
	"executorch_prim::truediv.Scalar": func(c *invocation) evalue {
		return realNumber(c.number(0) / c.number(1))
	},
	"executorch_prim::trunc.Scalar": rounded(math.Trunc),
}

func sum[T int64 | float64](a, b T) T        { return a + b }
func difference[T int64 | float64](a, b T) T { return a - b }
func multiple[T int64 | float64](a, b T) T   { return a * b }
func larger[T int64 | float64](a, b T) T     { return max(a, b) }
func smaller[T int64 | float64](a, b T) T    { return min(a, b) }
func floorOfQuotient(a, b float64) float64   { return math.Floor(a / b) }

func wholeNumber(n int64) evalue { return evalue{kind: evalueInt, whole: n} }

func realNumber(x float64) evalue { return evalue{kind: evalueDouble, number: x} }

// arithmetic computes integers from integers, and floats if one of the operands is a float.
func arithmetic(whole func(a, b int64) int64, real func(a, b float64) float64) func(c *invocation) evalue {
	return func(c *invocation) evalue {
		if c.arg(0).kind == evalueDouble || c.arg(1).kind == evalueDouble {
			return realNumber(real(c.number(0), c.number(1)))
		}
		return wholeNumber(whole(int64(c.integer(0)), int64(c.integer(1))))
	}
}

// added is a sum, also of an integer that an inference reads.
func (c *invocation) added() evalue {
	for i := range 2 {
		if r := c.arg(i).reading; r != nil {
			return evalue{kind: evalueInt, reading: &reading{r.tensor, r.plus + c.integer(1-i)}}
		}
	}
	return arithmetic(sum[int64], sum[float64])(c)
}

// elementRead is the integer that a tensor of one element has at an inference, such as a position.
func (c *invocation) elementRead() evalue {
	x := c.tensor(0)
	if product(x.shape) != 1 || c.arg(1).kind != evalueInt {
		unsupported("a number of %v and shape %v, which an inference reads", x.dtype, x.sizes())
	}
	in := c.hostedOperand(0)
	c.require(c.name, in)
	return evalue{kind: evalueInt, reading: &reading{tensor: in}}
}

func floorQuotient(a, b int64) int64 {
	if b == 0 {
		malformed("a division by 0")
	}
	return operators.FloorQuotient.Whole(a, b)
}

func remainder(a, b int64) int64 {
	if b == 0 {
		malformed("a division by 0")
	}
	return a % b
}

func (c *invocation) negative() evalue {
	if c.arg(0).kind == evalueDouble {
		return realNumber(-c.number(0))
	}
	return wholeNumber(-int64(c.integer(0)))
}

// chosen is the second or the third argument.
func (c *invocation) chosen() evalue {
	i := 2
	if c.number(0) != 0 {
		i = 1
	}
	c.number(i)
	return *c.arg(i)
}

// rounded returns an integer.
func rounded(round func(float64) float64) func(c *invocation) evalue {
	return func(c *invocation) evalue {
		x := round(c.number(0))
		if math.IsNaN(x) || math.Abs(x) > math.MaxInt32 {
			malformed("the integer %g", x)
		}
		return wholeNumber(int64(x))
	}
}

func compared(compare func(a, b float64) bool) func(c *invocation) evalue {
	return func(c *invocation) evalue { return boolean(compare(c.number(0), c.number(1))) }
}

func boolean(b bool) evalue {
	v := evalue{kind: evalueBool}
	if b {
		v.whole = 1
	}
	return v
}

// sizeAlong is a dimension of a tensor.
func (c *invocation) sizeAlong() evalue {
	sizes := c.sizes(0)
	return wholeNumber(int64(sizes[counted(c.integer(1), len(sizes))]))
}

func (c *invocation) elementCount() evalue {
	return wholeNumber(int64(xnnpack.Elements(c.tensor(0).shape)))
}

// scalar computes what an instruction computes of numbers, if it is one. It reports whether it is.
func (p *planner) scalar(name string, args []int) bool {
	compute := scalars[name]
	if compute == nil {
		return false
	}
	c := &invocation{planner: p, name: name, args: args}
	if c.arg(c.lastArg()).tensor != nil {
		malformed("%s computes a tensor", name)
	}
	result := c.args[c.lastArg()]
	p.method.values[result] = compute(c)
	p.symbolic[result] = true
	return true
}

package executorch

import (
	"errors"
	"math"
	"slices"

	"xpwc/internal/compute"
	"xpwc/xnnpack"
)

// hostedKernels are the operators that Go computes, where XNNPACK cannot.
var hostedKernels = map[string]func(*invocation){
	"aten::embedding.out":                   (*invocation).embedding,
	"aten::eq.Scalar_out":                   comparing(compute.Equal),
	"aten::eq.Tensor_out":                   comparing(compute.Equal),
	"aten::ne.Scalar_out":                   comparing(compute.NotEqual),
	"aten::ne.Tensor_out":                   comparing(compute.NotEqual),
	"aten::lt.Scalar_out":                   comparing(compute.Less),
	"aten::lt.Tensor_out":                   comparing(compute.Less),
	"aten::le.Scalar_out":                   comparing(compute.LessOrEqual),
	"aten::le.Tensor_out":                   comparing(compute.LessOrEqual),
	"aten::gt.Scalar_out":                   comparing(compute.Greater),
	"aten::gt.Tensor_out":                   comparing(compute.Greater),
	"aten::ge.Scalar_out":                   comparing(compute.GreaterOrEqual),
	"aten::ge.Tensor_out":                   comparing(compute.GreaterOrEqual),
	"aten::logical_not.out":                 (*invocation).not,
	"aten::logical_and.out":                 logical(func(a, b bool) bool { return a && b }),
	"aten::logical_or.out":                  logical(func(a, b bool) bool { return a || b }),
	"aten::logical_xor.out":                 logical(func(a, b bool) bool { return a != b }),
	"aten::bitwise_not.out":                 (*invocation).not,
	"aten::bitwise_and.Tensor_out":          logical(func(a, b bool) bool { return a && b }),
	"aten::bitwise_or.Tensor_out":           logical(func(a, b bool) bool { return a || b }),
	"aten::log1p.out":                       applied(math.Log1p),
	"aten::expm1.out":                       applied(math.Expm1),
	"aten::amax.out":                        largest(false),
	"aten::amin.out":                        largest(true),
	"aten::_log_softmax.out":                (*invocation).logSoftmax,
	"aten::any.out":                         (*invocation).any,
	"aten::where.self_out":                  (*invocation).where,
	"aten::argmax.out":                      (*invocation).argmax,
	"aten::arange.start_out":                (*invocation).arange,
	"aten::full.out":                        (*invocation).fullOf,
	"aten::full_like.out":                   (*invocation).fullOf,
	"aten::scalar_tensor.out":               (*invocation).fullOf,
	"aten::add.out":                         arithmetic(func(a, b int64) int64 { return a + b }),
	"aten::add.Scalar_out":                  arithmetic(func(a, b int64) int64 { return a + b }),
	"aten::sub.out":                         arithmetic(func(a, b int64) int64 { return a - b }),
	"aten::sub.Scalar_out":                  arithmetic(func(a, b int64) int64 { return a - b }),
	"aten::mul.out":                         arithmetic(func(a, b int64) int64 { return a * b }),
	"aten::mul.Scalar_out":                  arithmetic(func(a, b int64) int64 { return a * b }),
	"aten::view_copy.out":                   (*invocation).sameBytes,
	"aten::_unsafe_view.out":                (*invocation).sameBytes,
	"aten::squeeze_copy.dims_out":           (*invocation).sameBytes,
	"aten::squeeze_copy.dim_out":            (*invocation).sameBytes,
	"aten::unsqueeze_copy.out":              (*invocation).sameBytes,
	"aten::alias_copy.out":                  (*invocation).sameBytes,
	"aten::detach_copy.out":                 (*invocation).sameBytes,
	"aten::lift_fresh_copy.out":             (*invocation).sameBytes,
	"aten::expand_copy.out":                 (*invocation).repeated,
	"aten::slice_copy.Tensor_out":           (*invocation).everySo,
	"aten::select_copy.int_out":             (*invocation).one,
	"aten::permute_copy.out":                (*invocation).reordered,
	"dim_order_ops::_to_dim_order_copy.out": (*invocation).cast,
	"dim_order_ops::_clone_dim_order.out":   (*invocation).cast,
	"aten::_to_copy.out":                    (*invocation).cast,
	"aten::clone.out":                       (*invocation).cast,
}

// given returns a value of the method that Go computes with.
func (c *invocation) given(i int) xnnpack.ValueID {
	t := c.tensor(i)
	c.rows(t)
	c.fixed(t)
	if c.err != nil {
		return xnnpack.InvalidValue
	}
	if err := c.knowHere(c.args[i]); errors.Is(err, ErrUnsupported) {
		c.outside()
		return xnnpack.InvalidValue
	} else if err != nil {
		c.fail(err)
		return xnnpack.InvalidValue
	}
	id := xnnpack.ValueID(c.base + c.args[i])
	if !compute.Computable(c.plan.values[id].element()) {
		c.outside()
	}
	return id
}

// here plans a step that Go computes, from these inputs to the last argument.
func (c *invocation) here(inputs []xnnpack.ValueID, f func(out compute.Array, in []compute.Array) error) {
	out := c.given(c.last())
	if c.err == nil {
		c.node(hosted{inputs, out, c.of(out).Shape, f})
	}
}

// fits fails where inputs are not broadcast to what is computed.
func (c *invocation) fits(inputs ...xnnpack.ValueID) {
	y := c.tensor(c.last())
	c.rows(y)
	if c.err != nil {
		return
	}
	all := [][]int{}
	for _, id := range inputs {
		all = append(all, c.of(id).Shape)
	}
	if shape, ok := compute.Broadcast(all...); !ok || !slices.Equal(shape, y.shape) {
		c.fail(malformed("shapes %v for %v", all, y.shape))
	}
}

// number is an operand that is a tensor or a number: the number as an array of its own.
func (c *invocation) operandHere(i int, like xnnpack.ValueID) (id xnnpack.ValueID, number func() compute.Array) {
	if c.arg(i).tensor != nil {
		return c.given(i), nil
	}
	x := c.number(i)
	if c.err != nil {
		return xnnpack.InvalidValue, nil
	}
	e := c.plan.values[like].element()
	return xnnpack.InvalidValue, func() compute.Array { return compute.Number(e, x) }
}

// two plans an operator of two operands, of which the second may be a number.
func (c *invocation) two(f func(out, a, b compute.Array) error) {
	a := c.given(0)
	if c.err != nil {
		return
	}
	b, number := c.operandHere(1, a)
	if number != nil {
		c.fits(a)
		fixed := number()
		c.here([]xnnpack.ValueID{a}, func(out compute.Array, in []compute.Array) error { return f(out, in[0], fixed) })
		return
	}
	c.fits(a, b)
	c.here([]xnnpack.ValueID{a, b}, func(out compute.Array, in []compute.Array) error { return f(out, in[0], in[1]) })
}

func comparing(how compute.Comparison) func(*invocation) {
	return func(c *invocation) {
		c.two(func(out, a, b compute.Array) error { return compute.Compare(how, out, a, b) })
	}
}

func logical(of func(a, b bool) bool) func(*invocation) {
	return func(c *invocation) {
		if t := c.tensor(0); t.dtype != Bool { // of the bits of integers
			c.outside()
		}
		c.two(func(out, a, b compute.Array) error { return compute.Logical(of, out, a, b) })
	}
}

func arithmetic(of func(a, b int64) int64) func(*invocation) {
	return func(c *invocation) {
		for _, t := range []*tensor{c.tensor(0), c.tensor(c.last())} {
			if t.dtype == Float || t.dtype == Half || t.dtype == Double {
				c.outside()
			}
		}
		if len(c.args) > 3 && c.arg(2).tensor == nil && c.number(2) != 1 {
			c.outside()
		}
		if c.arg(1).kind == evalueDouble {
			c.outside()
		}
		c.two(func(out, a, b compute.Array) error { return compute.Arithmetic(of, out, a, b) })
	}
}

func (c *invocation) not() {
	if t := c.tensor(0); t.dtype != Bool {
		c.outside()
	}
	in := c.given(0)
	c.fits(in)
	c.here([]xnnpack.ValueID{in}, func(out compute.Array, in []compute.Array) error { return compute.Not(out, in[0]) })
}

func (c *invocation) any() {
	in := c.given(0)
	x, y := c.tensor(0), c.tensor(c.last())
	axis := c.axis(x, c.whole(1))
	if c.err != nil {
		return
	}
	kept := slices.Clone(x.shape)
	kept[axis] = 1
	if product(kept) != product(y.shape) {
		c.fail(malformed("dimension %d of %v for %v", axis, x.shape, y.shape))
	}
	c.here([]xnnpack.ValueID{in}, func(out compute.Array, in []compute.Array) error {
		return compute.Any(out, in[0], kept)
	})
}

func applied(of func(x float64) float64) func(*invocation) {
	return func(c *invocation) {
		in := c.given(0)
		c.fits(in)
		c.here([]xnnpack.ValueID{in}, func(out compute.Array, in []compute.Array) error {
			return compute.Apply(of, out, in[0])
		})
	}
}

// largest is the largest or the smallest number along dimensions, all if the list of them is empty.
func largest(smallest bool) func(*invocation) {
	return func(c *invocation) {
		in := c.given(0)
		x, y := c.tensor(0), c.tensor(c.last())
		kept := slices.Clone(x.shape)
		for _, d := range c.wholes(1) {
			if axis := c.axis(x, d); c.err == nil {
				kept[axis] = 1
			}
		}
		if c.err == nil && slices.Equal(kept, x.shape) && product(y.shape) == 1 {
			kept = ones(len(x.shape))
		}
		if c.err == nil && product(kept) != product(y.shape) {
			c.fail(malformed("the largest of %v for %v", x.shape, y.shape))
		}
		c.here([]xnnpack.ValueID{in}, func(out compute.Array, in []compute.Array) error {
			return compute.Largest(out, in[0], kept, smallest)
		})
	}
}

func (c *invocation) logSoftmax() {
	in := c.given(0)
	c.fits(in)
	axis := c.axis(c.tensor(0), c.whole(1))
	c.here([]xnnpack.ValueID{in}, func(out compute.Array, in []compute.Array) error {
		return compute.LogSoftmax(out, in[0], axis)
	})
}

func (c *invocation) where() {
	condition, a, b := c.given(0), c.given(1), c.given(2)
	c.fits(condition, a, b)
	if t := c.tensor(c.last()); c.tensor(1).dtype != t.dtype || c.tensor(2).dtype != t.dtype {
		c.outside()
	}
	c.here([]xnnpack.ValueID{condition, a, b}, func(out compute.Array, in []compute.Array) error {
		return compute.Where(out, in[0], in[1], in[2])
	})
}

func (c *invocation) argmax() {
	in := c.given(0)
	x, y := c.tensor(0), c.tensor(c.last())
	if c.err == nil && c.absent(1) {
		c.outside()
	}
	axis := c.axis(x, c.whole(1))
	if c.err == nil && product(y.shape)*x.shape[axis] != product(x.shape) {
		c.fail(malformed("dimension %d of %v for %v", axis, x.shape, y.shape))
	}
	c.here([]xnnpack.ValueID{in}, func(out compute.Array, in []compute.Array) error {
		return compute.ArgMax(out, in[0], axis)
	})
}

// embedding looks rows of a table up; what it says of training does not matter.
func (c *invocation) embedding() {
	table, indices := c.given(0), c.given(1)
	w, x, y := c.tensor(0), c.tensor(1), c.tensor(c.last())
	if c.err == nil && (len(w.shape) != 2 || w.dtype != y.dtype || product(y.shape) != product(x.shape)*w.shape[1]) {
		c.fail(malformed("rows of %v at %v for %v", w.shape, x.shape, y.shape))
	}
	c.here([]xnnpack.ValueID{table, indices}, func(out compute.Array, in []compute.Array) error {
		return compute.LookUp(out, in[0], in[1])
	})
}

// arange counts from a number in steps.
func (c *invocation) arange() {
	from, step := c.number(0), c.number(2)
	c.here(nil, func(out compute.Array, _ []compute.Array) error { return compute.Count(out, from, step) })
}

// fullOf is one number everywhere.
func (c *invocation) fullOf() {
	at := 1
	if c.name == "aten::scalar_tensor.out" {
		at = 0
	}
	x := c.number(at)
	c.here(nil, func(out compute.Array, _ []compute.Array) error { return compute.Count(out, x, 0) })
}

// strided plans that what is computed are elements of the first argument, see [compute.Strided].
func (c *invocation) strided(offset int, strides []int) {
	in := c.given(0)
	if c.err == nil && c.tensor(0).dtype != c.tensor(c.last()).dtype {
		c.outside()
	}
	if x, y := c.tensor(0), c.tensor(c.last()); c.err == nil {
		most := offset
		for d, n := range y.shape {
			most += (n - 1) * strides[d]
		}
		if offset < 0 || most >= product(x.shape) {
			c.fail(malformed("parts of %v for %v", x.shape, y.shape))
		}
	}
	c.here([]xnnpack.ValueID{in}, func(out compute.Array, in []compute.Array) error {
		return compute.Strided(out, in[0], offset, strides)
	})
}

// rowsOf returns how far apart neighbours along each dimension are in memory.
func rowsOf(shape []int) []int {
	out := make([]int, len(shape))
	step := 1
	for i, d := range slices.Backward(shape) {
		out[i] = step
		step *= d
	}
	return out
}

func (c *invocation) sameBytes() {
	x, y := c.tensor(0), c.tensor(c.last())
	if c.err == nil && product(x.shape) != product(y.shape) {
		c.fail(malformed("%v for %v", x.shape, y.shape))
	}
	c.strided(0, rowsOf(y.shape))
}

func (c *invocation) repeated() {
	x, y := c.tensor(0), c.tensor(c.last())
	strides, from := make([]int, len(y.shape)), rowsOf(x.shape)
	for i, d := range x.shape {
		at := len(y.shape) - len(x.shape) + i
		if at < 0 || d != 1 && d != y.shape[at] {
			c.fail(malformed("%v for %v", x.shape, y.shape))
			return
		}
		if d != 1 {
			strides[at] = from[i]
		}
	}
	c.strided(0, strides)
}

// everySo is every element so far along a dimension, from one index to another.
func (c *invocation) everySo() {
	x, y := c.tensor(0), c.tensor(c.last())
	axis, step := c.axis(x, c.whole(1)), c.whole(4)
	if c.err == nil && (step < 1 || len(x.shape) != len(y.shape)) {
		c.fail(malformed("each %d of %v for %v", step, x.shape, y.shape))
	}
	if c.err != nil {
		return
	}
	begin := 0
	if !c.absent(2) {
		if begin = c.whole(2); begin < 0 {
			begin += x.shape[axis]
		}
		begin = max(0, min(begin, x.shape[axis]))
	}
	strides := rowsOf(x.shape)
	offset := begin * strides[axis]
	strides[axis] *= step
	for i, d := range y.shape {
		if i != axis && d != x.shape[i] || i == axis && begin+(d-1)*step >= x.shape[i] {
			c.fail(malformed("parts of %v for %v", x.shape, y.shape))
			return
		}
	}
	c.strided(offset, strides)
}

// one is what is at one index of a dimension.
func (c *invocation) one() {
	x, y := c.tensor(0), c.tensor(c.last())
	axis, index := c.axis(x, c.whole(1)), c.whole(2)
	if c.err != nil {
		return
	}
	if index < 0 {
		index += x.shape[axis]
	}
	strides := rowsOf(x.shape)
	offset := index * strides[axis]
	strides = slices.Delete(strides, axis, axis+1)
	if len(strides) == 0 {
		strides = []int{1}
	}
	if index < 0 || index >= x.shape[axis] || len(strides) != len(y.shape) {
		c.fail(malformed("index %d of %v", index, x.shape))
		return
	}
	c.strided(offset, strides)
}

func (c *invocation) reordered() {
	x, y := c.tensor(0), c.tensor(c.last())
	from, strides := rowsOf(x.shape), make([]int, len(y.shape))
	dims := c.wholes(1)
	if c.err == nil && (len(dims) != len(x.shape) || len(dims) != len(y.shape)) {
		c.fail(malformed("%v of %v", dims, x.shape))
	}
	for i, d := range dims {
		if c.err == nil {
			strides[i] = from[c.axis(x, d)]
		}
	}
	c.strided(0, strides)
}

func (c *invocation) cast() {
	in := c.given(0)
	c.fits(in)
	c.here([]xnnpack.ValueID{in}, func(out compute.Array, in []compute.Array) error { return compute.Cast(out, in[0]) })
}

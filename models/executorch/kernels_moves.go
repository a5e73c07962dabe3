package executorch

import (
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// movingKernels are the operators that Go computes whose output has elements of the input.

// take plans that what is computed, of as many dimensions as the first argument, has elements of it: see
// [operators.Take].
func (c *invocation) take(places [][]int) {
	in := c.given(0)
	x, y := c.tensor(0), c.tensor(c.last())
	fits := len(places) == len(x.shape) && x.dtype == y.dtype
	dims := make([]int, len(places))
	for d, p := range places {
		dims[d] = len(p)
		fits = fits && (len(p) == 0 || slices.Max(p) < x.shape[d])
	}
	if !fits || product(dims) != product(y.shape) {
		malformed("%v of %v for %v of %v", x.dtype, x.shape, y.dtype, y.shape)
	}
	c.here(ids{in}, func(out array, in []array) {
		out.Shape = dims
		operators.Take(out, in[0], places, nil)
	})
}

func (c *invocation) flip() {
	x := c.tensor(0)
	c.given(0)
	places := operators.Everywhere(x.shape)
	for _, d := range c.wholes(1) {
		axis := c.axis(x, d)
		places[axis] = operators.Every(x.shape[axis]-1, x.shape[axis], -1)
	}
	c.take(places)
}

// repeat has a tensor several times along each dimension, to which there may be new ones in front.
func (c *invocation) repeat() {
	x, y, times := c.tensor(0), c.tensor(c.last()), c.wholes(1)
	more := len(times) - len(x.shape)
	if more < 0 || len(times) != len(y.shape) || slices.Min(times) < 1 {
		malformed("%v times %v", times, x.shape)
	}
	c.given(0)
	c.given(c.last())
	places := operators.Everywhere(append(ones(more), x.shape...))
	for d, n := range times {
		if n > y.shape[d] {
			malformed("%v times %v for %v", times, x.shape, y.shape)
		}
		places[d] = slices.Repeat(places[d], n)
	}
	if more > 0 { // the new dimensions are as one with the first one
		first := slices.Repeat(operators.Every(0, x.shape[0], 1), product(times[:more+1]))
		places = append([][]int{first}, places[more+1:]...)
	}
	c.take(places)
}

// nearest is an image of another height and width, each pixel that of the input at its place.
func (c *invocation) nearest() {
	x, y := c.tensor(0), c.tensor(c.last())
	c.rows(x, y)
	if len(x.shape) != 4 || len(y.shape) != 4 {
		malformed("%v for %v", x.shape, y.shape)
	}
	c.given(0)
	c.given(c.last())
	places := operators.Everywhere(x.shape)
	for d := 2; d < 4; d++ {
		scale := float32(x.shape[d]) / float32(y.shape[d])
		if scale*float32(y.shape[d]) != float32(x.shape[d]) || y.shape[d]%x.shape[d] != 0 {
			c.outside() // a factor that is given may round otherwise
		}
		places[d] = make([]int, y.shape[d])
		for i := range places[d] {
			places[d][i] = i * x.shape[d] / y.shape[d]
		}
	}
	c.take(places)
}

// indices returns an argument that has indices.
func (c *invocation) indices(i int) xnnpack.ValueID {
	if t := c.tensor(i).dtype; t != Long && t != Int {
		c.outside()
	}
	return c.given(i)
}

func (c *invocation) gather() {
	x, at, y := c.tensor(0), c.tensor(2), c.tensor(c.last())
	axis := c.axis(x, c.whole(1))
	in, indices := c.given(0), c.indices(2)
	fits := x.dtype == y.dtype && slices.Equal(at.shape, y.shape) && len(at.shape) == len(x.shape)
	for d := range at.shape {
		fits = fits && (d == axis || at.shape[d] <= x.shape[d])
	}
	if !fits {
		malformed("elements of %v at %v for %v", x.shape, at.shape, y.shape)
	}
	c.here(ids{in, indices}, func(out array, in []array) {
		operators.GatherElements(out, in[0], in[1], axis)
	})
}

func (c *invocation) indexSelect() {
	x, at, y := c.tensor(0), c.tensor(2), c.tensor(c.last())
	axis := c.axis(x, c.whole(1))
	in, indices := c.given(0), c.indices(2)
	if x.dtype != y.dtype || len(at.shape) != 1 ||
		!slices.Equal(y.shape, slices.Concat(x.shape[:axis], at.shape, x.shape[axis+1:])) {
		malformed("slices of %v at %v for %v", x.shape, at.shape, y.shape)
	}
	c.here(ids{in, indices}, func(out array, in []array) { operators.Gather(out, in[0], in[1], axis, 0) })
}

// An indexing is by a list with a tensor of indices for some dimensions. All of them are broadcast together, and take
// the place of their dimensions, if these follow each other, or come first. Each dimension that has none is kept.
type indexing struct {
	inputs []xnnpack.ValueID
	arrays []func(in []operators.Array) operators.Array // for each dimension
	shape  []int
}

// indexing reads argument i, indices of the first argument.
func (c *invocation) indexing(i int) (x indexing) {
	of, list := c.tensor(0), c.arg(i)
	c.rows(of)
	if list.kind != evalueOptionalTensorList && list.kind != evalueTensorList ||
		len(list.list) == 0 || len(list.list) > len(of.shape) {
		malformed("%d indices of %v", len(list.list), of.shape)
	}
	given := make([]int, len(of.shape)) // value, or -1
	var together [][]int
	first, last := -1, -1
	for d := range given {
		given[d] = -1
		if d >= len(list.list) || list.list[d] < 0 || c.method.values[list.list[d]].kind == evalueNull {
			continue
		}
		given[d], last = list.list[d], d
		if first < 0 {
			first = d
		}
		t := c.tensorAt(given[d])
		if t.dtype != Long && t.dtype != Int {
			c.outside()
		}
		together = append(together, t.shape)
	}
	shape, ok := operators.Broadcast(together...)
	if first < 0 || !ok {
		malformed("indices of shapes %v", together)
	}
	if slices.Contains(given[first:last+1], -1) {
		first = 0 // they do not follow each other
	}
	var before, after []int // dimensions that are kept
	for d, value := range given {
		switch {
		case value >= 0:
		case len(before) < first:
			before = append(before, d)
		default:
			after = append(after, d)
		}
	}
	for _, d := range before {
		x.shape = append(x.shape, of.shape[d])
	}
	x.shape = append(x.shape, shape...)
	for _, d := range after {
		x.shape = append(x.shape, of.shape[d])
	}
	for d, value := range given {
		if value >= 0 {
			at := len(x.inputs)
			x.inputs = append(x.inputs, c.givenAt(value))
			x.arrays = append(x.arrays, func(in []operators.Array) operators.Array {
				a := in[at]
				a.Shape = append(slices.Clone(a.Shape), ones(len(after))...)
				return a
			})
			continue
		}
		behind := 0 // dimensions of the result
		if k := slices.Index(before, d); k >= 0 {
			behind = len(before) - 1 - k + len(shape) + len(after)
		} else {
			behind = len(after) - 1 - slices.Index(after, d)
		}
		counted := operators.New(declared[Long], append([]int{of.shape[d]}, ones(behind)...)...)
		operators.Count(counted, 0, 1)
		x.arrays = append(x.arrays, func([]operators.Array) operators.Array { return counted })
	}
	return x
}

// indices returns the arrays of indices, of which in are those that are given.
func (x indexing) indices(in []operators.Array) (all []operators.Array) {
	for _, array := range x.arrays {
		all = append(all, array(in))
	}
	return all
}

func (c *invocation) indexed() {
	from, x := c.given(0), c.indexing(1)
	of, y := c.tensor(0), c.tensor(c.last())
	if of.dtype != y.dtype || !sameElements(y.shape, x.shape) {
		malformed("%v at indices of %v for %v", of.shape, x.shape, y.shape)
	}
	c.here(append(ids{from}, x.inputs...), func(out array, in []array) {
		operators.At(in[0].Shape, x.indices(in[1:]), func(i, at int) { out.Copy(i, in[0], at) })
	})
}

// sameElements reports whether two shapes are the same, or both that of one number.
func sameElements(a, b []int) bool { return slices.Equal(a, b) || product(a) == 1 && product(b) == 1 }

// indexPut is a tensor with values at some indices, put there or added.
func (c *invocation) indexPut() {
	from, x, values := c.given(0), c.indexing(1), c.given(2)
	of, y, add := c.tensor(0), c.tensor(c.last()), c.whole(3) != 0
	fits, ok := operators.Broadcast(c.tensor(2).shape, x.shape)
	if of.dtype != y.dtype || c.tensor(2).dtype != y.dtype || !slices.Equal(of.shape, y.shape) || !ok ||
		!sameElements(fits, x.shape) {
		malformed("%v at indices of %v of %v", c.tensor(2).shape, x.shape, of.shape)
	}
	c.here(append(ids{from, values}, x.inputs...), func(out array, in []array) {
		copy(out.Data, in[0].Data)
		all := operators.New(out.Element, x.shape...)
		operators.Expand(all, in[1])
		operators.At(in[0].Shape, x.indices(in[2:]), func(i, at int) {
			if add {
				out.AddTo(at, all, i)
			} else {
				out.Copy(at, all, i)
			}
		})
	})
}

// scattered plans a tensor with another one in it, at some indices along an axis.
func (c *invocation) scattered(axis int, indices []int) {
	into, src := c.given(0), c.given(1)
	x, s, y := c.tensor(0), c.tensor(1), c.tensor(c.last())
	part := slices.Clone(x.shape)
	part[axis] = len(indices)
	if x.dtype != y.dtype || s.dtype != y.dtype || !slices.Equal(x.shape, y.shape) ||
		product(s.shape) != product(part) {
		malformed("%v in %v for %v", s.shape, x.shape, y.shape)
	}
	inner := product(x.shape[axis+1:])
	c.here(ids{into, src}, func(out array, in []array) {
		copy(out.Data, in[0].Data)
		for i := range product(part) {
			outer, k := i/(inner*len(indices)), i/inner%len(indices)
			out.Copy((outer*x.shape[axis]+indices[k])*inner+i%inner, in[1], i)
		}
	})
}

func (c *invocation) sliceScatter() {
	c.given(0)
	axis, begin, n, step := c.each(2)
	c.scattered(axis, operators.Every(begin, n, step))
}

func (c *invocation) selectScatter() {
	x := c.tensor(0)
	axis := c.axis(x, c.whole(2))
	c.scattered(axis, []int{counted(c.whole(3), x.shape[axis])})
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
	c.rows(c.tensor(0), y)
	c.strided(offset, strides)
}

// expanded plans an argument that is broadcast to the shape of what is computed.
func expanded(i int) func(*invocation) {
	return func(c *invocation) {
		in := c.given(i)
		y := c.tensor(c.last())
		if c.tensor(i).dtype != y.dtype {
			c.outside()
		}
		if shape, ok := operators.Broadcast(c.of(in).Shape, y.shape); !ok || !slices.Equal(shape, y.shape) {
			malformed("shape %v for %v", c.of(in).Shape, y.shape)
		}
		c.here(ids{in}, func(out array, in []array) { operators.Expand(out, in[0]) })
	}
}

// embedding looks rows of a table up; what it says of training does not matter.
func (c *invocation) embedding() {
	table, indices := c.given(0), c.given(1)
	w, x, y := c.tensor(0), c.tensor(1), c.tensor(c.last())
	if len(w.shape) != 2 || w.dtype != y.dtype || product(y.shape) != product(x.shape)*w.shape[1] {
		malformed("rows of %v at %v for %v", w.shape, x.shape, y.shape)
	}
	c.here(ids{table, indices}, func(out array, in []array) { operators.Gather(out, in[0], in[1], 0, 0) })
}

// strided plans that what is computed are elements of the first argument, see [operators.Strided].
func (c *invocation) strided(offset int, strides []int) {
	in := c.given(0)
	if c.tensor(0).dtype != c.tensor(c.last()).dtype {
		c.outside()
	}
	x, y, most := c.tensor(0), c.tensor(c.last()), offset
	for d, n := range y.shape {
		most += (n - 1) * strides[d]
	}
	if offset < 0 || most >= product(x.shape) {
		malformed("parts of %v for %v", x.shape, y.shape)
	}
	c.here(ids{in}, func(out array, in []array) { operators.Strided(out, in[0], offset, strides) })
}

// unfolded is slices of a size along a dimension, a step apart: they are along it, and the elements of each come last.
func (c *invocation) unfolded() {
	x, y := c.tensor(0), c.tensor(c.last())
	axis, size, step := c.axis(x, c.whole(1)), c.whole(2), c.whole(3)
	c.rows(x, y)
	if n := x.shape[axis]; size < 1 || step < 1 || size > n ||
		!slices.Equal(y.shape, slices.Concat(x.shape[:axis], []int{(n-size)/step + 1}, x.shape[axis+1:], []int{size})) {
		malformed("slices of %d of %v for %v", size, x.shape, y.shape)
	}
	strides := operators.Rows(x.shape)
	strides = append(strides, strides[axis])
	strides[axis] *= step
	c.strided(0, strides)
}

// keeping is the operator that leaves what it copies for the next inference.
const keeping = "aten::copy_"

// kept makes a tensor that nothing computes a state: when an inference begins it is what the last one left, or zeros.
// Nothing reads it after this call.
func (c *invocation) kept() {
	src, of := c.given(1), c.given(0)
	x := c.tensor(0)
	value := c.args[0]
	v := c.plan.values[of]
	if v.computed || v.constant != nil || c.tensor(1).dtype != x.dtype || slices.Contains(c.method.inputs, value) ||
		slices.Contains(c.method.outputs, value) || !slices.Equal(c.method.lastUse(value), c.args) {
		c.outside()
	}
	if shape, ok := operators.Broadcast(c.of(src).Shape, x.shape); !ok || !slices.Equal(shape, x.shape) {
		malformed("%v for a state of %v", c.of(src).Shape, x.shape)
	}
	next := c.plan.value(v)
	c.hosted(ids{src}, next, func(out array, in []array) { operators.Expand(out, in[0]) })
	zeros := func(dst []byte) error { clear(dst); return nil }
	c.states = append(c.states, flow.State{Value: of, Next: next, Initial: zeros})
}

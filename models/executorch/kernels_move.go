package executorch

import (
	"fmt"
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// reshaped is the same elements row by row in another shape, which is the output's.
func (c *invocation) reshaped() {
	x, y := c.tensor(0), c.tensor(c.lastArg())
	in := c.operand(0)
	c.reshape(in, c.result(in), x, y)
}

// reshape plans that x's elements are y's.
func (c *invocation) reshape(in, out xnnpack.ValueID, x, y *tensor) {
	if slices.Equal(x.order, y.order) && slices.Equal(x.shape, y.shape) {
		c.permuted(in, out, []int{0})
		return
	}
	c.rows(x, y)
	if c.varyingDims(out) > 1 { // a node has one free dimension
		c.hosted(operators.Reshape(y.shape), ids{in}, out)
		return
	}
	c.Add(flow.StaticReshape(xnnpack.StaticReshape{Shape: c.freed(out, y.shape), Input: in, Output: out}))
}

func (c *invocation) permute() { c.permuteBy(c.integers(1)) }

// permuteBy has dimension i of the output be dimension dims[i] of the input.
func (c *invocation) permuteBy(dims []int) {
	x, y := c.tensor(0), c.tensor(c.lastArg())
	in := c.operand(0)
	out := c.result(in)
	if len(dims) != len(x.order) || len(dims) != len(y.order) {
		malformed("%v for %d dimensions", dims, len(x.order))
	}
	order := make([]int, len(dims))
	for i, d := range y.order {
		order[i] = c.axis(x, dims[d])
	}
	if !flow.Permutation(order, len(dims)) {
		malformed("%v is no order of %d dimensions", dims, len(dims))
	}
	c.permuted(in, out, order)
}

// swap exchanges two dimensions.
func (c *invocation) swap() {
	x := c.tensor(0)
	dims := operators.Every(0, len(x.order), 1)
	a, b := 0, len(dims)-1
	if len(c.args) > 3 {
		a, b = c.integer(1), c.integer(2)
	} else if len(dims) > 2 {
		malformed("%d dimensions are transposed", len(dims))
	}
	a, b = counted(a, len(dims)), counted(b, len(dims))
	dims[a], dims[b] = dims[b], dims[a]
	c.permuteBy(dims)
}

// part plans a part of a tensor, of a length along an axis of memory.
func (c *invocation) part(in xnnpack.ValueID, x *tensor, axis, offset, length int, out xnnpack.ValueID) {
	n := xnnpack.StaticSlice{Offsets: make([]int, len(x.shape)), Sizes: slices.Clone(x.shape), Input: in, Output: out}
	n.Offsets[axis], n.Sizes[axis] = offset, length
	if offset < 0 || length <= 0 {
		c.outside()
	}
	c.Add(flow.StaticSlice(n))
}

// bound returns an index of a dimension of some length, where a negative one counts from the end.
func (c *invocation) bound(i, missing, length int) int {
	if c.absent(i) {
		return missing
	}
	n := c.integer(i)
	if n < 0 {
		n += length
	}
	return max(0, min(n, length))
}

// slice is x from one index along a dimension to another, of which negative ones count from the end.
func (c *invocation) slice() {
	x, y := c.tensor(0), c.tensor(c.lastArg())
	c.alike(x, y)
	if first, n, ok := c.readSpan(); ok {
		position, offset := first.operands()
		c.hosted(operators.Span(c.axis(x, c.integer(1)), n, offset), append(ids{c.hostedOperand(0)}, position...),
			c.hostedOperand(c.lastArg()))
		return
	}
	axis, begin, n, step := c.strideOf(1)
	if step != 1 {
		c.hostedOperand(0)
		c.hostResult(operators.Take(axis, operators.Every(begin, n, step)), 0)
		return
	}
	in := c.operand(0)
	out := c.result(in)
	if n == x.shape[axis] {
		c.permuted(in, out, []int{0})
		return
	}
	c.part(in, x, axis, begin, n, out)
}

// strideOf reads arguments from i on: a dimension, the first index, the one after the last, and a
// step.
func (c *invocation) strideOf(i int) (axis, begin, n, step int) {
	x := c.tensor(0)
	axis, step = c.axis(x, c.integer(i)), c.integer(i+3)
	if step < 1 {
		malformed("each %d of %v", step, x.shape)
	}
	length := x.shape[axis]
	begin = c.bound(i+1, 0, length)
	return axis, begin, max(0, (c.bound(i+2, length, length)-begin+step-1)/step), step
}

// selectAt plans x at one index of an axis of memory, which y does not have any more.
func (c *invocation) selectAt(in xnnpack.ValueID, x *tensor, axis, index, dst int) {
	y := c.tensorAt(dst)
	c.rows(x, y)
	out := c.resultAt(dst, in)
	part := c.Inside(in)
	c.part(in, x, axis, index, 1, part)
	c.Add(flow.StaticReshape(xnnpack.StaticReshape{Shape: c.freed(out, y.shape), Input: part, Output: out}))
}

// selected is x at one index of a dimension.
func (c *invocation) selected() {
	x := c.tensor(0)
	axis := c.axis(x, c.integer(1))
	c.selectAt(c.operand(0), x, axis, counted(c.integer(2), x.shape[axis]), c.args[c.lastArg()])
}

// split is x in parts along a dimension, as long as the list of outputs has them.
func (c *invocation) split() {
	x, parts := c.tensor(0), c.tensors(c.lastArg())
	axis := c.axis(x, c.integer(2))
	in := c.operand(0)
	index := 0
	for _, dst := range parts {
		y := c.tensorAt(dst)
		c.alike(x, y)
		out := c.resultAt(dst, in)
		if len(y.shape) != len(x.shape) {
			malformed("parts of shape %v of %v", y.shape, x.shape)
		}
		c.part(in, x, axis, index, y.shape[axis], out)
		index += y.shape[axis]
	}
	if index != x.shape[axis] {
		malformed("parts of %d elements of %d", index, x.shape[axis])
	}
}

// unbind is x at each index of a dimension.
func (c *invocation) unbind() {
	x, parts := c.tensor(0), c.tensors(c.lastArg())
	axis := c.axis(x, c.integer(1))
	in := c.operand(0)
	if len(parts) != x.shape[axis] {
		malformed("%d parts of %d", len(parts), x.shape[axis])
	}
	for i, dst := range parts {
		c.selectAt(in, x, axis, i, dst)
	}
}

// joined is tensors one after the other along a dimension.
func (c *invocation) joined() {
	y := c.tensor(c.lastArg())
	axis := c.axis(y, c.integer(1))
	var inputs []xnnpack.ValueID
	for _, i := range c.tensors(0) {
		if x := c.tensorAt(i); len(x.shape) == 1 && x.shape[0] == 0 {
			continue // PyTorch lets an empty one be of any shape
		}
		c.alike(c.tensorAt(i), y)
		inputs = append(inputs, c.operandAt(i))
	}
	c.join(axis, inputs)
}

// join plans that what the operator computes are values along an axis.
func (c *invocation) join(axis int, inputs ids) {
	if len(inputs) == 0 {
		c.outside()
	}
	flow.Join(c, axis, inputs, c.result(inputs[0]))
}

// stacked is tensors of one shape along a new dimension.
func (c *invocation) stacked() {
	y := c.tensor(c.lastArg())
	c.rows(y)
	dim := counted(c.integer(1), len(y.shape))
	shape := slices.Clone(y.shape)
	shape[dim] = 1
	var inputs []xnnpack.ValueID
	for _, i := range c.tensors(0) {
		x, in := c.tensorAt(i), c.operandAt(i)
		c.rows(x)
		inputs = append(inputs, flow.Reshaped(c, in, shape...))
	}
	c.join(dim, inputs)
}

// expand repeats dimensions of 1.
func (c *invocation) expand() {
	x, y := c.tensor(0), c.tensor(c.lastArg())
	c.rows(x, y)
	in := c.operand(0)
	if slices.Equal(x.shape, y.shape) {
		c.permuted(in, c.result(in), []int{0})
		return
	}
	if y.dynamic {
		c.outside() // it would need a constant for each shape
	}
	in = c.float(0)
	c.binaryNode(xnnpack.Multiply, in, c.filledConstant(y.shape, 1, in))
}

// pad adds elements around; the list has how many before and after, for the last dimension first.
func (c *invocation) pad() {
	x, y := c.tensor(0), c.tensor(c.lastArg())
	c.alike(x, y)
	around := c.integers(1)
	in, number := c.operand(0), c.number(2)
	n := xnnpack.StaticConstantPad{
		Pre: make([]int, len(x.shape)), Post: make([]int, len(x.shape)), Value: float32(number), Input: in}
	if c.plan.values[in].host && float64(n.Value) != number {
		c.outside() // the node has no such integer
	}
	if len(around)%2 != 0 || len(around) > 2*len(x.shape) {
		malformed("%d numbers for %d dimensions", len(around), len(x.shape))
	}
	for i := 0; i+1 < len(around); i += 2 {
		if around[i] < 0 || around[i+1] < 0 {
			c.outside()
		}
		index := c.axis(x, -1-i/2)
		n.Pre[index], n.Post[index] = around[i], around[i+1]
	}
	n.Output = c.result(in)
	c.Add(flow.StaticConstantPad(n))
}

func (c *invocation) flip() {
	c.hostedOperand(0)
	var axes []int
	for _, d := range c.integers(1) {
		axes = append(axes, c.axis(c.tensor(0), d))
	}
	c.hostResult(operators.Reverse(axes), 0)
}

// repeat has a tensor several times along each dimension, to which there may be new ones in front.
func (c *invocation) repeat() { c.hostResult(operators.Tile(c.integers(1)), 0) }

// nearest is an image of another height and width, each pixel that of the input at its place. Factors that are given
// decide which it is.
func (c *invocation) nearest() {
	x, y := c.tensor(0), c.tensor(c.lastArg())
	if len(x.shape) != 4 || len(y.shape) != 4 {
		malformed("%v for %v", x.shape, y.shape)
	}
	c.hostResult(operators.ResizeNearest(y.shape[2:], c.upsampleFactors()), 0)
}

// upsampleFactors returns the factors of a height and a width, or nothing if sizes are given.
func (c *invocation) upsampleFactors() []float64 {
	if c.name == "aten::upsample_nearest2d.vec_out" {
		return c.factors(2)
	}
	if len(c.args) < 5 || c.absent(2) || c.absent(3) {
		return nil
	}
	return []float64{c.number(2), c.number(3)}
}

// indices ends a call whose argument i has no integers.
func (c *invocation) indices(i int) {
	if t := c.tensor(i).dtype; t != Long && t != Int {
		c.outside()
	}
}

func (c *invocation) gather() {
	c.indices(2)
	c.hostResult(operators.GatherElements(c.axis(c.tensor(0), c.integer(1))), 0, 2)
}

func (c *invocation) indexSelect() {
	c.indices(2)
	c.hostResult(operators.Gather(c.axis(c.tensor(0), c.integer(1)), 0), 0, 2)
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
	x := c.hostedOperand(0)
	axes, indices := c.indexing()
	c.hosted(operators.Index(axes), append(ids{x}, indices...), c.hostedOperand(c.lastArg()))
}

// indexPut is a tensor with values at some indices, put there or added.
func (c *invocation) indexPut() {
	in := ids{c.hostedOperand(0), c.hostedOperand(2)}
	axes, indices := c.indexing()
	c.hosted(operators.IndexPut(axes, c.integer(3) != 0), append(in, indices...), c.hostedOperand(c.lastArg()))
}

func (c *invocation) sliceScatter() {
	c.hostedOperand(0)
	axis, begin, n, step := c.strideOf(2)
	c.hostResult(operators.Put(axis, operators.Every(begin, n, step)), 0, 1)
}

func (c *invocation) selectScatter() {
	x := c.tensor(0)
	axis := c.axis(x, c.integer(2))
	c.hostResult(operators.Put(axis, []int{counted(c.integer(3), x.shape[axis])}), 0, 1)
}

// asStrided is elements that lie some steps apart in memory.
func (c *invocation) asStrided() {
	strides, offset := c.integers(2), 0
	if !c.absent(3) {
		offset = c.integer(3)
	}
	y := c.tensor(c.lastArg())
	if len(strides) != len(y.shape) || slices.Min(strides) < 0 {
		c.outside()
	}
	c.hostResult(operators.AsStrided(y.shape, strides, offset), 0)
}

// expanded plans an argument that is broadcast to the shape of the output.
func expanded(i int) func(*invocation) {
	return func(c *invocation) { c.hostResult(operators.Expand(c.tensor(c.lastArg()).shape), i) }
}

// embedding looks rows of a table up; its arguments for training do not matter.
func (c *invocation) embedding() { c.hostResult(operators.Gather(0, 0), 0, 1) }

// unfolded is slices of a size along a dimension, a step apart.
func (c *invocation) unfolded() {
	c.hostResult(operators.Unfold(c.axis(c.tensor(0), c.integer(1)), c.integer(2), c.integer(3)), 0)
}

// copyTensor is a copy into another order of dimensions, or to another type.
func (c *invocation) copyTensor() {
	x, y := c.tensor(0), c.tensor(c.lastArg())
	if len(c.args) < 2 {
		malformed("%d arguments", len(c.args))
	}
	if len(x.order) != len(y.order) {
		malformed("it copies %d dimensions to %d", len(x.order), len(y.order))
	}
	src, dst := c.args[0], c.args[c.lastArg()]
	var source xnnpack.ValueID
	if between := elementTypes[y.dtype]; x.dtype != y.dtype && isFloat(x.dtype) && isFloat(y.dtype) {
		in := c.operand(0)
		source = c.Inside(in)
		c.described(source).Type = between
		c.Add(flow.Convert(in, source))
	} else if x.dtype != y.dtype && !c.asFloat[src] {
		source = c.converted(x, y.dtype)
	} else {
		source = c.operand(0)
	}
	target := c.resultAt(dst, source)
	var permutation []int
	for _, d := range y.order {
		permutation = append(permutation, slices.Index(x.order, d))
	}
	in, out := &c.plan.values[source], &c.plan.values[target]
	if slices.IsSorted(permutation) && in.constant != nil && out.constant == nil && slices.Equal(x.shape, y.shape) {
		out.constant = in.constant
		c.useValue(target)
		return
	}
	c.permuted(source, target, permutation)
}

// converted returns a constant tensor as a value of another type, if it is a constant and can be converted here.
// ExecuTorch's export leaves small constants, such as the numbers of an activation, for the runtime to convert.
func (c *invocation) converted(x *tensor, dst ScalarType) xnnpack.ValueID {
	if x.content == nil || x.state || !convertible(x.dtype, dst) {
		c.outside()
	}
	n := elements(x.shape...)
	k := c.files.constant(x.content, int64(n)*int64(x.dtype.Size()))
	k.elements, k.from, k.to = n, x.dtype, dst
	k.name += fmt.Sprint(converted, dst)
	t := xnnpack.Tensor{Name: k.name, Type: elementTypes[dst], Shape: x.shape}
	return c.plan.value(value{typed: true, constant: k, tensor: t})
}

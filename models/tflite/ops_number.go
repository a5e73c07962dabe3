package tflite

import (
	"math"
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// planUnary plans an operator that computes each element from one.
func planUnary(node xnnpack.Unary) func(*call) {
	return func(c *call) {
		in := c.operand(0)
		c.define(0, in.shape...)
		c.unaryNode(node, c.inputID(0), c.outputID(0))
	}
}

func planOne(op xnnpack.UnaryOperator) func(*call) {
	return planUnary(xnnpack.Unary{Op: op})
}

// LOG. Bytes are computed in Go, for that of a negative number is the lowest byte, and XNNPACK converts it to the
// highest.
func planLog(c *call) {
	if c.operand(0).dtype.isBytes() {
		unsupported("of bytes by XNNPACK")
	}
	planUnary(*operators.Log.Node)(c)
}

// GELU.
func planGELU(c *call) {
	if !c.op.options.Bool(geluApproximate) {
		planOne(xnnpack.GELU)(c)
		return
	}
	c.define(0, c.operand(0).shape...)
	flow.ApproximateGELU(c, c.inputID(0), c.outputID(0))
}

// LEAKY_RELU. XNNPACK's kernels for bytes, which LiteRT has too, take some ratios of the scales.
func planLeakyReLU(c *call) {
	slope := c.op.options.Float32(leakyReluAlpha, 0)
	c.sameTypes(c.operand(0))
	planUnary(xnnpack.Unary{Op: xnnpack.LeakyReLU, NegativeSlope: slope})(c)
	if c.operand(0).dtype.isBytes() {
		scale := func(tensor int) float32 { return c.plan.describe(tensor).Quantization.Scale }
		ratio := scale(c.op.inputs[0]) / scale(c.op.outputs[0])
		below := max(ratio*slope, -ratio*slope)
		c.wide = !(ratio >= 0x1p-8 && ratio <= 0x1p7 && below >= 0x1p-8 && below < 0x1p7-0x1p-8)
	}
}

// SOFTMAX over the last dimension.
func planSoftmax(c *call) {
	in := c.operand(0)
	beta := c.op.options.Float32(softmaxBeta, 0)
	if !(beta > 0 && beta <= math.MaxFloat32) {
		unsupported("a beta of %v", beta)
	}
	if len(in.shape) == 0 {
		malformed("a scalar")
	}
	id := c.inputID(0)
	if beta != 1 {
		id = flow.Combine(c, xnnpack.Multiply, id, c.Number(float64(beta), id))
	}
	c.Add(flow.Softmax(xnnpack.Softmax{Input: id, Output: c.outputID(0)}))
}

func (c *call) binaryNode(op xnnpack.BinaryOperator, a, b, out xnnpack.ValueID, limits xnnpack.Range) {
	c.Add(flow.Binary(xnnpack.Binary{Op: op, A: a, B: b, Output: out, Activation: limits}))
}

// L2_NORMALIZATION divides by the root of the sum of the squares over the last dimension.
func planL2Normalization(c *call) {
	in := c.operand(0)
	limits := c.activation(l2Activation)
	if len(in.shape) == 0 {
		malformed("a scalar")
	}
	x := c.inputID(0)
	squares := flow.Apply(c, xnnpack.Unary{Op: xnnpack.Square}, x)
	sum := flow.Reduced(c, xnnpack.ReduceSum, []int{len(in.shape) - 1}, squares)
	root := flow.Apply(c, xnnpack.Unary{Op: xnnpack.SquareRoot}, sum)
	norm := flow.Combine(c, xnnpack.Maximum, root, c.Number(1e-6, x))
	c.binaryNode(xnnpack.Divide, x, norm, c.outputID(0), limits)
}

// ADD_N.
func planAddN(c *call) {
	values := c.operandList()
	for _, v := range values {
		if !slices.Equal(v.shape, values[0].shape) {
			malformed("shapes %v and %v", values[0].shape, v.shape)
		}
	}
	c.sameTypes(values[0])
	sum, last := c.inputID(0), len(values)-1
	for i := 1; i < last; i++ {
		sum = flow.Combine(c, xnnpack.Add, sum, c.inputID(i))
	}
	if last == 0 {
		c.copies()
		return
	}
	c.binaryNode(xnnpack.Add, sum, c.inputID(last), c.outputID(0), xnnpack.Range{})
}

// planBinary plans an operator that computes each element from two. The slot is its fused activation's, if it can
// have one.
func planBinary(operator xnnpack.BinaryOperator, slot int) func(*call) {
	return func(c *call) {
		a, b := c.operand(0), c.operand(1)
		if a.dtype != b.dtype {
			unsupported("inputs of types %v and %v", c.declared(0), c.declared(1))
		}
		c.sameTypes(a)
		var limits xnnpack.Range
		if slot >= 0 {
			limits = c.activation(slot)
		}
		c.binaryNode(operator, c.inputID(0), c.inputID(1), c.outputID(0), limits)
		if a.dtype.isBytes() && !c.requantizes(operator) {
			c.wide = true
		}
	}
}

// requantizes reports whether XNNPACK's kernels for bytes can compute an operator: the scales of the operands must not
// differ too much from the output's.
func (c *call) requantizes(operator xnnpack.BinaryOperator) bool {
	a, b := c.plan.describe(c.op.inputs[0]).Quantization.Scale, c.plan.describe(c.op.inputs[1]).Quantization.Scale
	out := c.plan.describe(c.op.outputs[0]).Quantization.Scale
	inRange := func(ratio, low float32) bool { return ratio >= low && ratio < 0x1p8 }
	switch operator {
	case xnnpack.Add, xnnpack.Subtract:
		return inRange(a/out, 0x1p-10) && inRange(b/out, 0x1p-10)
	case xnnpack.Multiply:
		return inRange(a*b/out, 0x1p-16)
	}
	return false
}

// PRELU: the slopes of negative elements are broadcast to the elements, as by any operator on two values.
func planPReLU(c *call) {
	c.operand(0)
	c.operand(1)
	c.binaryNode(xnnpack.PReLUOperator, c.inputID(0), c.inputID(1), c.outputID(0), xnnpack.Range{})
}

// DEQUANTIZE of a constant in half precision is the same constant widened: no node, and nothing is computed before
// its content is asked for. Of quantized values it is a conversion.
func planDequantize(c *call) {
	in := c.resolve(0)
	if out := c.outputTensor(0); out.dtype != typeFloat32 {
		unsupported("an output of type %v", out.dtype)
	}
	if in.state == static && in.dtype != typeFloat32 {
		if in.dtype != typeFloat16 {
			in.constant.describe()
		}
		c.alias(0, in.constant.dequantized())
		return
	}
	c.convert()
}

// convert plans QUANTIZE, of single precision or from one quantization to another, and DEQUANTIZE of a computed value.
func (c *call) convert() {
	in, node := c.operand(0), xnnpack.Unary{Op: xnnpack.ConvertElements}
	if in.dtype == typeFloat32 && c.outputTensor(0).element() == typeFloat32 {
		node = c.withinInt16()
	}
	c.unaryNode(node, c.inputID(0), c.outputID(0))
}

// DENSIFY: the same constant, dense. As with DEQUANTIZE, its content is computed when it is asked for.
func planDensify(c *call) {
	in := c.resolve(0)
	if in.state != static {
		unsupported("an input that is not constant")
	}
	if out := c.outputTensor(0); out.dtype != in.dtype {
		malformed("an output of type %v for an input of type %v", out.dtype, in.dtype)
	}
	c.alias(0, in.constant.derived("", func(*constant) {}))
}

// reduction returns along which dimensions of a shape operand 1 and the options reduce, and whether they are kept.
func (c *call) reduction(shape []int) (axes []int, keep bool) {
	axes = c.axes(1, len(shape))
	slices.Sort(axes)
	return slices.Compact(axes), c.op.options.Bool(reducerKeepDims)
}

// reduced defines the output of a reduction.
func (c *call) reduced() (in *value, axes, shape []int, keep bool) {
	in = c.operand(0)
	axes, keep = c.reduction(in.shape)
	for i, d := range in.shape {
		switch {
		case !slices.Contains(axes, i):
			shape = append(shape, d)
		case keep:
			shape = append(shape, 1)
		}
	}
	c.define(0, shape...)
	return in, axes, shape, keep
}

// planReduce plans MEAN and SUM over constant axes.
func planReduce(op xnnpack.ReduceOperator) func(*call) {
	return func(c *call) {
		_, axes, _, keep := c.reduced()
		if len(axes) == 0 {
			c.copies()
			return
		}
		c.Add(flow.StaticReduce(xnnpack.StaticReduce{Op: op, Axes: axes, Input: c.inputID(0), Output: c.outputID(0),
			KeepDims: keep}))
	}
}

// REDUCE_MAX over axes that follow each other: the maximum of a pool of all their elements. REDUCE_MIN is that of the
// negated ones.
func planReduceMax(c *call) {
	operand, axes, shape, _ := c.reduced()
	if operand.dtype == typeFloat32 {
		unsupported("of single precision as nodes") // which take several times as long as a loop
	}
	outer, inner, pool := 1, 1, 1
	for i, d := range operand.shape {
		switch {
		case slices.Contains(axes, i):
			pool *= d
		case len(axes) > 0 && i > axes[0]:
			inner *= d
		default:
			outer *= d
		}
	}
	for i, axis := range axes {
		if axis != axes[0]+i {
			unsupported("axes %v, which do not follow each other", axes)
		}
	}
	c.keepsScale(c.inputID(0))
	if pool == 1 {
		c.shaped(c.inputID(0), c.outputID(0), shape)
		return
	}
	negated := func(id flow.ID) flow.ID {
		if c.op.code != "REDUCE_MIN" {
			return id
		}
		return flow.Apply(c, xnnpack.Unary{Op: xnnpack.Negate}, id)
	}
	c.shaped(negated(flow.Peaks(c, negated(c.inputID(0)), outer, pool, inner)), c.outputID(0), shape)
}

// combined plans in Go an operation on two numbers of one type.
func (c *call) combined(o operators.Operation) {
	if a, b := c.operand(0), c.operand(1); a.dtype != b.dtype {
		malformed("values of types %v and %v", c.declared(0), c.declared(1))
	}
	c.host(operators.Combine(o), 0, 1)
}

// SELECT and SELECT_V2. The older one may have a condition for each row.
func planSelect(c *call) {
	a, b := c.operand(1), c.operand(2)
	if c.operand(0); c.declared(0) != typeBool || a.dtype != b.dtype {
		malformed("values of types %v, %v and %v", c.declared(0), c.declared(1), c.declared(2))
	}
	c.sameTypes(a)
	c.host(operators.Select(c.op.code == "SELECT" && len(a.shape) > 1), 0, 1, 2)
	c.unscaled(1, 2)
}

// planCombined plans an operator on two numbers.
func planCombined(o operators.Operation, slot int) func(*call) {
	return func(c *call) {
		c.combined(o)
		c.sameTypes(c.operand(0))
		if o.Whole == nil && c.plan.graph.tensors[c.op.inputs[0]].inGo() {
			unsupported("of %v", c.declared(0))
		}
		if slot >= 0 && c.op.options.Byte(slot) != activationNone {
			unsupported("a fused activation")
		}
	}
}

// planMapped plans an operator on one integer.
func planMapped(f operators.Function) func(*call) {
	return func(c *call) {
		in := c.operand(0)
		c.sameTypes(in)
		if in.dtype == typeFloat32 || c.wide {
			unsupported("of %v with a scale, or of single precision, in Go", c.declared(0))
		}
		c.host(f.ComputeWhole(), 0)
	}
}

// planFunction plans an operator on one number in Go.
func planFunction(f operators.Function) func(*call) {
	return func(c *call) {
		in := c.operand(0)
		if c.sameTypes(in); in.dtype == typeFloat32 || c.wide {
			c.host(f.Compute(), 0)
		} else {
			planMapped(f)(c)
		}
	}
}

// planReduced plans in Go what is computed of all elements along constant axes.
func planReduced(reduce func(axes []int, keep bool) operators.Operator) func(*call) {
	return func(c *call) {
		in := c.operand(0)
		c.sameTypes(in)
		axes, keep := c.reduction(in.shape)
		c.host(reduce(axes, keep), 0)
	}
}

// reducing returns what reduces by an operation.
func reducing(o operators.Operation) func(axes []int, keep bool) operators.Operator {
	return func(axes []int, keep bool) operators.Operator { return operators.Reduce(o, axes, keep) }
}

// planArg plans ARG_MAX and ARG_MIN.
func planArg(extreme func(axis int) operators.Operator) func(*call) {
	return func(c *call) {
		in := c.operand(0)
		c.host(extreme(c.axis(1, len(in.shape))), 0)
	}
}

// TOPK_V2 of a known number.
func planTopK(c *call) {
	in, k := c.operand(0), c.oneInteger(1)
	c.host(operators.TopK(k), 0)
	if c.plan.graph.tensors[c.op.outputs[0]].dtype != in.dtype ||
		!c.plan.graph.tensors[c.op.outputs[1]].inGo() {
		malformed("outputs of other types")
	}
}

// CUMSUM along a constant axis.
func planCumulativeSum(c *call) {
	in := c.operand(0)
	c.sameTypes(in)
	exclusive, reverse := c.op.options.Bool(cumsumExclusive), c.op.options.Bool(cumsumReverse)
	c.host(operators.CumulativeSum(c.axis(1, len(in.shape)), exclusive, reverse), 0)
}

// LOG_SOFTMAX over the last dimension.
func planLogSoftmax(c *call) {
	in := c.operand(0)
	if len(in.shape) == 0 {
		malformed("a scalar")
	}
	c.define(0, in.shape...)
	flow.LogSoftmax(c, c.inputID(0), in.shape, len(in.shape)-1, c.outputID(0))
}

// CAST. Of a complex number, its real part is cast.
func planCast(c *call) {
	in := c.operand(0)
	for _, n := range append(slices.Clone(c.op.inputs[:1]), c.op.outputs...) {
		if t := &c.plan.graph.tensors[n]; t.element() != t.dtype {
			unsupported("between %v with a scale and others", t.dtype)
		}
	}
	if in.dtype == typeComplex64 {
		planComplex(operators.FromComplex(realPart))(c)
		return
	}
	if c.host(operators.Cast(), 0); c.plan.values[c.op.outputs[0]].dtype == typeComplex64 {
		unsupported("to %v", typeComplex64)
	}
}

// LOCAL_RESPONSE_NORMALIZATION over the channels around each.
func planLocalNormalization(c *call) {
	o := c.op.options
	bias, alpha, beta := o.Float32(localBias, 0), o.Float32(localAlpha, 0), o.Float32(localBeta, 0)
	c.host(operators.LocalNormalization(max(0, int(o.Int32(localRadius, 0))), float64(bias), float64(alpha),
		float64(beta)), 0)
}

// BUCKETIZE: how many boundaries each number has reached.
func planBucketize(c *call) {
	boundaries := c.op.options.Float32s(bucketBoundaries)
	if !slices.IsSorted(boundaries) {
		malformed("boundaries %v in no order", boundaries)
	}
	if out := c.outputTensor(0); out.dtype != typeInt32 {
		unsupported("buckets of type %v", out.dtype)
	}
	c.host(operators.Bucketize(boundaries), 0)
}

// planSegments plans SEGMENT_SUM, and UNSORTED_SEGMENT_SUM and its like. An empty row has a number, perhaps another for
// integers.
func planSegments(o operators.Operation, empty, emptyWhole float64) func(*call) {
	return func(c *call) {
		sorted := c.op.code == "SEGMENT_SUM"
		in, indices, rows := c.operand(0), c.operand(1), 0
		c.integerIndices(1)
		if !sorted {
			rows = c.oneInteger(2)
		} else if list := c.integers(1); len(list) > 0 {
			rows = list[len(list)-1] + 1
		}
		if in.dtype != typeFloat32 && in.dtype != typeInt32 {
			unsupported("segments of type %v", in.dtype)
		}
		if sorted && len(indices.shape) != 1 {
			malformed("indices of shape %v", indices.shape)
		}
		c.sameTypes(in)
		c.host(operators.Segments(o, rows, empty, emptyWhole), 0, 1)
	}
}

// RFFT2D: images [..., height, width], and the height and width to transform.
func planRealFFT2D(c *call) {
	in, size := c.operand(0), c.integers(1)
	if len(size) != 2 || size[0] <= 0 || size[1] <= 0 {
		malformed("a transform of size %v", size)
	}
	const limit = 1 << 22 // of numbers of 16 bytes that are in memory for it
	height, width := size[0], size[1]
	if int64(height)*int64(width) > limit || height&(height-1) != 0 || width&(width-1) != 0 {
		unsupported("a transform of size %v", size)
	}
	if t := c.outputTensor(0); t.dtype != typeComplex64 || in.dtype != typeFloat32 {
		unsupported("a transform from %v to %v", in.dtype, t.dtype)
	}
	c.host(operators.RealFFT2D(height, width), 0)
}

// planComplex plans an operator that computes a real number from each complex one.
func planComplex(op operators.Operator) func(*call) {
	return func(c *call) {
		in := c.operand(0)
		c.host(op, 0)
		if out := c.plan.values[c.op.outputs[0]].dtype; in.dtype != typeComplex64 || out != typeFloat32 {
			unsupported("from %v to %v", in.dtype, out)
		}
	}
}

func realPart(z complex128) float64 { return real(z) }
func imagPart(z complex128) float64 { return imag(z) }

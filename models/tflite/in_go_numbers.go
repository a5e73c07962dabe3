package tflite

import (
	"slices"
	"sort"

	"xpwc/internal/operators"
)

// number returns the only element of operand i, a constant.
func (c *call) number(i int) float64 {
	v := c.resolve(i)
	n, _ := elements(v.shape)
	if v.state != static || n != 1 || elementTypes[v.dtype] == 0 || c.plan.quantized(c.op.inputs[i]) {
		unsupported("input %d is not a constant number", i)
	}
	return c.array(v).Number(0)
}

// unaryRow returns the row of an operator that computes each element from one.
func unaryRow(f operators.Function) operatorRow {
	row := operatorRow{plan: planUnary(*f.Node), takes: widened}
	if f.Whole != nil {
		row.inGo = planMapped(f.Whole)
	}
	return row
}

// binaryRow returns the row of an operator that computes each element from two. The slot is its fused activation's, if it can
// have one.
func binaryRow(o operators.Operation, values takes, slot int) operatorRow {
	row := operatorRow{takes: values, inGo: planCombined(o, slot)}
	if o.Node != nil {
		row.plan = planBinary(*o.Node, slot)
	}
	return row
}

// comparisonRow returns the row of a comparison, or of a logical operation.
func comparisonRow(o operators.Operation) operatorRow {
	return operatorRow{takes: widened, inGo: func(c *call) { c.combined(o) }}
}

// hostedRow returns the row of an operator that Go computes from operand 0.
func hostedRow(op operators.Operator, values takes) operatorRow {
	return operatorRow{takes: values, inGo: func(c *call) { c.host(op, 0) }}
}

// combined plans in Go an operation on two numbers of one type.
func (c *call) combined(o operators.Operation) {
	if a, b := c.data(0), c.data(1); a.dtype != b.dtype {
		malformed("values of types %v and %v", c.declared(0), c.declared(1))
	}
	c.host(operators.Combine(o), 0, 1)
}

// SELECT and SELECT_V2. The older one may have a condition for each row.
func planSelect(c *call) {
	a, b := c.data(1), c.data(2)
	if c.data(0); c.declared(0) != typeBool || a.dtype != b.dtype {
		malformed("values of types %v, %v and %v", c.declared(0), c.declared(1), c.declared(2))
	}
	c.sameTypes(a)
	c.host(operators.Where(c.op.code == "SELECT" && len(a.shape) > 1), 0, 1, 2)
}

// planCombined plans an operator on two numbers.
func planCombined(o operators.Operation, slot int) func(*call) {
	return func(c *call) {
		c.combined(o)
		c.sameTypes(c.data(0))
		if o.Whole == nil && c.plan.graph.tensors[c.op.inputs[0]].inGo() {
			unsupported("of %v", c.declared(0))
		}
		if slot >= 0 && c.op.options.Byte(slot) != activationNone {
			unsupported("a fused activation")
		}
	}
}

// planMapped plans an operator on one integer.
func planMapped(f func(a int64) int64) func(*call) {
	return func(c *call) {
		in := c.data(0)
		c.sameTypes(in)
		if in.dtype == typeFloat32 {
			unsupported("of single precision in Go")
		}
		c.host(operators.Map(f), 0)
	}
}

// planReduced plans in Go what is computed of all elements along constant axes.
func planReduced(reduce func(axes []int, keep bool) operators.Operator) func(*call) {
	return func(c *call) {
		in := c.data(0)
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
		in := c.data(0)
		c.host(extreme(c.axis(1, len(in.shape))), 0)
	}
}

// TOPK_V2 of a known number.
func planTopK(c *call) {
	in, k := c.data(0), c.oneInteger(1)
	c.host(operators.TopK(k), 0)
	if c.plan.graph.tensors[c.op.outputs[0]].dtype != in.dtype ||
		!c.plan.graph.tensors[c.op.outputs[1]].inGo() {
		malformed("outputs of other types")
	}
}

// CUMSUM along a constant axis.
func planCumulativeSum(c *call) {
	in := c.data(0)
	c.sameTypes(in)
	exclusive, reverse := c.op.options.Bool(cumsumExclusive), c.op.options.Bool(cumsumReverse)
	c.host(operators.CumulativeSum(c.axis(1, len(in.shape)), exclusive, reverse), 0)
}

// LOG_SOFTMAX over the last dimension.
func planLogSoftmax(c *call) { c.host(operators.LogSoftmax(len(c.data(0).shape)-1), 0) }

// CAST. Of a complex number, its real part is cast.
func planCast(c *call) {
	in := c.data(0)
	for _, n := range append(slices.Clone(c.op.inputs[:1]), c.op.outputs...) {
		if t := &c.plan.graph.tensors[n]; t.element() != t.dtype {
			unsupported("between %v with a scale and others", t.dtype)
		}
	}
	if in.dtype == typeComplex64 {
		planComplex(realPart)(c)
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
	if out := c.output(0); out.dtype != typeInt32 {
		unsupported("buckets of type %v", out.dtype)
	}
	c.host(operators.Apply(func(x float64) float64 {
		return float64(sort.Search(len(boundaries), func(i int) bool { return x < float64(boundaries[i]) }))
	}), 0)
}

// planSegments plans SEGMENT_SUM, and UNSORTED_SEGMENT_SUM and its like. An empty row has a number, perhaps another for
// integers.
func planSegments(o operators.Operation, empty, emptyWhole float64) func(*call) {
	return func(c *call) {
		sorted := c.op.code == "SEGMENT_SUM"
		in, indices, rows := c.data(0), c.data(1), 0
		c.index(1)
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
	in, size := c.data(0), c.integers(1)
	if len(size) != 2 || size[0] <= 0 || size[1] <= 0 {
		malformed("a transform of size %v", size)
	}
	const most = 1 << 22 // of numbers of 16 bytes that are in memory for it
	height, width := size[0], size[1]
	if int64(height)*int64(width) > most || height&(height-1) != 0 || width&(width-1) != 0 {
		unsupported("a transform of size %v", size)
	}
	if t := c.output(0); t.dtype != typeComplex64 || in.dtype != typeFloat32 {
		unsupported("a transform from %v to %v", in.dtype, t.dtype)
	}
	c.host(operators.RealFFT2D(height, width), 0)
}

// planComplex plans an operator that computes a real number from each complex one.
func planComplex(f func(complex128) float64) func(*call) {
	return func(c *call) {
		in := c.data(0)
		c.host(operators.FromComplex(f), 0)
		if out := c.plan.values[c.op.outputs[0]].dtype; in.dtype != typeComplex64 || out != typeFloat32 {
			unsupported("from %v to %v", in.dtype, out)
		}
	}
}

func realPart(z complex128) float64 { return real(z) }
func imagPart(z complex128) float64 { return imag(z) }

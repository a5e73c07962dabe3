package tflite

import (
	"cmp"
	"slices"
	"sort"

	"xpwc/internal/operators"
	"xpwc/models"
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

// together plans in Go an operator on all its operands, which are broadcast to one shape.
func (c *call) together(operands int) []*value {
	var shape []int
	var values []*value
	for i := range operands {
		v := c.data(i)
		values = append(values, v)
		shape = c.broadcast(shape, v.shape)
	}
	c.define(0, shape...)
	return values
}

// planComparison plans EQUAL and the others, and LOGICAL_AND and LOGICAL_OR.
func planComparison(of operators.Operation) func(*call) {
	return func(c *call) { c.combined(of) }
}

// combined plans in Go an operation on two numbers of one type, which it returns.
func (c *call) combined(of operators.Operation) *value {
	values := c.together(2)
	if values[0].dtype != values[1].dtype {
		malformed("values of types %v and %v", c.declared(0), c.declared(1))
	}
	c.do(func(r *run) { operators.Combine(of, r.out[0], r.in[0], r.in[1]) })
	return values[0]
}

// LOGICAL_NOT.
func planNot(c *call) {
	c.together(1)
	c.do(func(r *run) { operators.Not(r.out[0], r.in[0]) })
}

// SELECT and SELECT_V2. The older one may have a condition for each row.
func planSelect(c *call) {
	condition, a, b := c.data(0), c.data(1), c.data(2)
	shape := condition.shape
	if rank := len(a.shape); c.op.code == "SELECT" && len(shape) == 1 && rank > 1 {
		shape = append(slices.Clone(shape), slices.Repeat([]int{1}, rank-1)...)
	}
	if c.declared(0) != typeBool || a.dtype != b.dtype {
		malformed("values of types %v, %v and %v", c.declared(0), c.declared(1), c.declared(2))
	}
	c.sameTypes(a)
	c.define(0, c.broadcast(shape, c.broadcast(a.shape, b.shape))...)
	c.keepsScale(c.in(1))
	c.keepsScale(c.in(2))
	c.do(func(r *run) {
		r.in[0].Shape = shape
		operators.Where(r.out[0], r.in[0], r.in[1], r.in[2])
	})
}

// planCombined plans an operator on two numbers. The slot is its fused activation's, if it can have one.
func planCombined(operation operators.Operation, slot int) func(*call) {
	return func(c *call) {
		first := c.combined(operation)
		c.sameTypes(first)
		if operation.Whole == nil && c.plan.graph.tensors[c.op.inputs[0]].inGo() {
			unsupported("of %v", first.dtype)
		}
		if slot >= 0 && c.op.options.Byte(slot) != activationNone {
			unsupported("a fused activation")
		}
	}
}

// planMapped plans an operator on one integer.
func planMapped(f func(a int64) int64) func(*call) {
	of := operators.Operation{Whole: func(a, _ int64) int64 { return f(a) }}
	return func(c *call) {
		values := c.together(1)
		c.sameTypes(values[0])
		if values[0].dtype == typeFloat32 {
			unsupported("of single precision in Go")
		}
		c.do(func(r *run) { operators.Combine(of, r.out[0], r.in[0], r.in[0]) })
	}
}

func sign(a int64) int64 { return int64(cmp.Compare(a, 0)) }

// planReduced plans in Go what is computed of all elements along constant axes. The mean of integers is cut off.
func planReduced(of operators.Operation) func(*call) {
	return func(c *call) {
		from, over, _, _ := c.reduction()
		c.sameTypes(from)
		kept := slices.Clone(from.shape)
		for _, d := range over {
			kept[d] = 1
		}
		c.do(func(r *run) {
			out, in := r.out[0], r.in[0]
			if operators.Reduce(of, out, in, kept); c.op.code == "MEAN" {
				n := float64(len(in.Data) / len(out.Data))
				operators.Combine(operators.Quotient, out, out, operators.Number(models.Int64, n))
			}
		})
	}
}

// planArg plans ARG_MAX and ARG_MIN.
func planArg(of func(out, in operators.Array, axis int)) func(*call) {
	return func(c *call) {
		in := c.data(0)
		axis := c.axis(1, len(in.shape))
		c.define(0, slices.Delete(slices.Clone(in.shape), axis, axis+1)...)
		c.do(func(r *run) { of(r.out[0], r.in[0], axis) })
	}
}

// TOPK_V2 of a known number.
func planTopK(c *call) {
	in, k := c.data(0), c.oneInteger(1)
	rank := len(in.shape)
	if rank == 0 || k > in.shape[rank-1] {
		malformed("the largest %d of shape %v", k, in.shape)
	}
	shape := append(slices.Clone(in.shape[:rank-1]), k)
	c.define(0, shape...)
	c.define(1, shape...)
	if c.plan.graph.tensors[c.op.outputs[0]].dtype != in.dtype ||
		!c.plan.graph.tensors[c.op.outputs[1]].inGo() {
		malformed("outputs of other types")
	}
	c.do(func(r *run) { operators.TopK(r.out[0], r.out[1], r.in[0]) })
}

// CUMSUM along a constant axis.
func planCumulativeSum(c *call) {
	in := c.data(0)
	axis := c.axis(1, len(in.shape))
	c.sameTypes(in)
	c.define(0, in.shape...)
	exclusive, reverse := c.op.options.Bool(cumsumExclusive), c.op.options.Bool(cumsumReverse)
	c.do(func(r *run) { operators.CumulativeSum(r.out[0], r.in[0], axis, exclusive, reverse) })
}

// LOG_SOFTMAX over the last dimension.
func planLogSoftmax(c *call) {
	values := c.together(1)
	if len(values[0].shape) == 0 {
		malformed("a scalar")
	}
	c.do(func(r *run) { operators.LogSoftmax(r.out[0], r.in[0], len(r.in[0].Shape)-1) })
}

// CAST. Of a complex number, its real part is cast.
func planCast(c *call) {
	values := c.together(1)
	for _, n := range append(slices.Clone(c.op.inputs[:1]), c.op.outputs...) {
		if t := &c.plan.graph.tensors[n]; t.element() != t.dtype {
			unsupported("between %v with a scale and others", t.dtype)
		}
	}
	if values[0].dtype == typeComplex64 {
		c.fromComplex(values[0], realPart)
		return
	}
	if c.plan.values[c.op.outputs[0]].dtype == typeComplex64 {
		unsupported("to %v", typeComplex64)
	}
	c.do(func(r *run) { operators.Cast(r.out[0], r.in[0]) })
}

// LOCAL_RESPONSE_NORMALIZATION over the channels beside each.
func planLocalNormalization(c *call) {
	values, o := c.together(1), c.op.options
	if len(values[0].shape) == 0 {
		malformed("a scalar")
	}
	radius := max(0, int(o.Int32(localRadius, 0)))
	bias, alpha, beta := o.Float32(localBias, 0), o.Float32(localAlpha, 0), o.Float32(localBeta, 0)
	c.do(func(r *run) {
		operators.LocalNormalization(r.out[0], r.in[0], radius, float64(bias), float64(alpha), float64(beta))
	})
}

// BUCKETIZE: how many boundaries each number has reached.
func planBucketize(c *call) {
	in := c.data(0)
	boundaries := c.op.options.Float32s(bucketBoundaries)
	if !slices.IsSorted(boundaries) {
		malformed("boundaries %v in no order", boundaries)
	}
	if out := c.output(0); out.dtype != typeInt32 {
		unsupported("buckets of type %v", out.dtype)
	}
	c.define(0, in.shape...)
	bucket := func(x float64) float64 {
		return float64(sort.Search(len(boundaries), func(i int) bool { return x < float64(boundaries[i]) }))
	}
	c.do(func(r *run) { operators.Apply(bucket, r.out[0], r.in[0]) })
}

// planSegments plans SEGMENT_SUM, and UNSORTED_SEGMENT_SUM and those like it. A row of nothing has a number, perhaps
// another for integers.
func planSegments(o operators.Operation, empty, emptyWhole float64) func(*call) {
	return func(c *call) {
		sorted := c.op.code == "SEGMENT_SUM"
		in, at := c.data(0), c.data(1)
		c.index(1)
		rows, fill := 0, empty
		if !sorted {
			rows = c.oneInteger(2)
		} else if of := c.integers(1); len(of) > 0 {
			rows = of[len(of)-1] + 1
		}
		switch in.dtype {
		case typeFloat32:
		case typeInt32:
			fill = emptyWhole
		default:
			unsupported("segments of type %v", in.dtype)
		}
		n := len(at.shape)
		if n > len(in.shape) || !slices.Equal(at.shape, in.shape[:n]) || rows < 1 || sorted && n != 1 {
			malformed("rows of %v for %d indices of %v", in.shape, rows, at.shape)
		}
		c.sameTypes(in)
		c.define(0, slices.Insert(slices.Clone(in.shape[n:]), 0, rows)...)
		c.do(func(r *run) { operators.Segments(o, r.out[0], r.in[0], r.in[1], fill) })
	}
}

package tflite

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// call is one operator while it is being planned. The first error ends that, see package fault.
type call struct {
	plan    *plan
	op      *operator
	takes   takes
	inGo    bool  // it is planned for Go, not for XNNPACK
	wide    bool  // quantized values are computed in single precision, between conversions
	asked   int   // how many operands were looked at
	defined []int // outputs that have a shape
	nodes   []flow.Node
	inner   map[flow.ID]flow.ID // the tensors that values inside of the operator are like
	compute func(*run)          // in place of nodes
	reads   []int               // operands that compute reads
}

func malformed(format string, args ...any) { fault.Because(ErrMalformed, format, args...) }

func unsupported(format string, args ...any) { fault.Because(ErrUnsupported, format, args...) }

// checked has the errors of other packages be some of this one.
func checked(do func()) { flow.Checked(do, ErrMalformed, ErrUnsupported) }

// tensor returns the index of the tensor that operand i names, or absent.
func (c *call) tensor(i int) int {
	if c.asked = max(c.asked, i+1); i < 0 || i >= len(c.op.inputs) {
		return absent
	}
	return c.op.inputs[i]
}

// resolve returns the value of operand i, which must have been computed before or be a constant.
func (c *call) resolve(i int) *value {
	n := c.tensor(i)
	if n == absent {
		malformed("input %d is missing", i)
	}
	v := &c.plan.values[n]
	if v.state == refused {
		fault.Check(errRefused)
	}
	if v.state == empty {
		unsupported("input %d has no elements", i)
	}
	if v.state != undefined {
		return v
	}
	t := &c.plan.graph.tensors[n]
	if c.plan.vacant(n) {
		unsupported("input %d, %q, has no elements", i, t.name)
	}
	if t.data.Size == 0 {
		malformed("input %d, %q, is not computed before it is used", i, t.name)
	}
	var k *constant
	fault.Within(func() { k = newConstant(t) }, "input %d, %q", i, t.name)
	k.name = c.plan.firstName(t)
	if t.element() != t.dtype {
		k = c.fromInt16(k)
	}
	*v = value{state: static, shape: k.shape, dtype: k.dtype, constant: k}
	return v
}

// vacant reports whether a tensor is known to have no elements.
func (p *plan) vacant(n int) bool {
	t := &p.graph.tensors[n]
	state := p.values[n].state
	return state == empty || state == undefined && t.data.Size == 0 && slices.Contains(t.shape, 0)
}

// data returns operand i as something that is read at inference, whether computed or constant.
func (c *call) data(i int) *value {
	v := c.resolve(i)
	t := &c.plan.graph.tensors[c.tensor(i)]
	if c.accept(t, v.dtype); c.inGo {
		if v.state == static && c.wide && v.dtype.isBytes() {
			v.constant.scaled()
		}
		if !slices.Contains(c.reads, i) {
			c.reads = append(c.reads, i)
		}
		c.bounded(v.shape)
		return v
	}
	if v.state == static && v.dtype.isBytes() && len(v.constant.quant.scales) > 1 {
		unsupported("input %d, %q, with a scale for each channel", i, t.name)
	}
	return v
}

// all returns all operands, of which there are not too many, as values like the first.
func (c *call) all() []*value {
	if n := len(c.op.inputs); n > mostJoined {
		unsupported("%d values", n)
	}
	values := []*value{c.data(0)}
	for i := 1; i < len(c.op.inputs); i++ {
		v := c.data(i)
		if v.dtype != values[0].dtype {
			malformed("inputs of %v and %v", values[0].dtype, v.dtype)
		}
		values = append(values, v)
	}
	return values
}

// bounded checks that Go computes with a shape.
func (c *call) bounded(shape []int) {
	if c.inGo && slices.ContainsFunc(shape, func(d int) bool { return d > operators.MostIndices }) {
		unsupported("in Go, of shape %v", shape)
	}
}

// accept checks that the operator takes values of a type, a tensor's.
func (c *call) accept(t *tensor, dtype elementType) {
	switch {
	case t.dtype == typeComplex64 && (!c.inGo || c.takes&complexes == 0):
		unsupported("values of type %v", t.dtype)
	case t.inGo() && c.inGo, dtype == typeFloat32, !t.inGo() && dtype.isBytes() && c.takes&bytes8 != 0:
	case !t.inGo() && dtype.isBytes() && c.takes&widened != 0:
		c.wide = true
	default:
		unsupported("values of type %v", t.dtype)
	}
}

// rank4 is data of shape [batch, height, width, channels].
func (c *call) rank4(i int) *value {
	v := c.data(i)
	if len(v.shape) != 4 {
		malformed("input %d has shape %v, not [batch, height, width, channels]", i, v.shape)
	}
	return v
}

// packed returns operand i as weights that XNNPACK packs, of the given rank.
func (c *call) packed(i, rank int) *value {
	v := c.resolve(i)
	if v.state != static {
		unsupported("input %d, %q, is not constant", i, c.plan.graph.tensors[c.tensor(i)].name)
	} else if len(v.shape) != rank {
		malformed("input %d has shape %v, not %d dimensions", i, v.shape, rank)
	}
	return v
}

// bias returns whether operand i, a bias of n elements, is given.
func (c *call) bias(i, n int) bool {
	if c.tensor(i) == absent {
		return false
	}
	v := c.resolve(i)
	if v.state != static {
		unsupported("the bias, %q, is not constant", c.plan.graph.tensors[c.tensor(i)].name)
	} else if len(v.shape) != 1 || v.shape[0] != n {
		malformed("a bias of shape %v for %d output channels", v.shape, n)
	}
	return true
}

// integers returns the elements of operand i, a constant of shape or index numbers, which may have none.
func (c *call) integers(i int) []int {
	if n := c.tensor(i); n != absent && c.plan.vacant(n) {
		return nil
	}
	v := c.resolve(i)
	const most = 256
	width := v.dtype.Size()
	if v.state != static || v.dtype != typeInt32 && v.dtype != typeInt64 || v.constant.size > most*width {
		unsupported("input %d is not a short constant of integers", i)
	}
	all := c.array(v)
	out := make([]int, len(all.Data)/width)
	for k := range out {
		n := all.Whole(k)
		// No number that is good as a shape or an index is greater, and sums of these cannot overflow.
		if n > math.MaxInt32 || n < math.MinInt32 {
			malformed("input %d has the element %d", i, n)
		}
		out[k] = int(n)
	}
	return out
}

// array returns a constant for Go, with its content.
func (c *call) array(v *value) operators.Array {
	return operators.Array{Element: elementTypes[v.dtype], Shape: v.shape, Data: v.constant.bytes(c.plan.file)}
}

// define gives output i its shape. The type is the file's, which operators that compute on values must agree with.
func (c *call) define(i int, shape ...int) {
	if _, err := elements(shape); err != nil {
		fault.Check(fmt.Errorf("%w: output %d: %w", ErrMalformed, i, err))
	}
	t := c.output(i)
	c.bounded(shape)
	fault.Within(func() { t.computable(shape) }, "output %d, %q", i, t.name)
	c.accept(t, t.element())
	c.plan.values[c.op.outputs[i]] = value{state: dynamic, shape: slices.Clone(shape), dtype: t.element()}
	c.defined = append(c.defined, i)
}

// alias makes output i a constant that is not in the file as such.
func (c *call) alias(i int, k *constant) {
	k = k.derived(c.output(i).name, func(*constant) {})
	c.plan.values[c.op.outputs[i]] = value{state: static, shape: k.shape, dtype: k.dtype, constant: k}
	c.defined = append(c.defined, i)
}

// output returns the tensor that is output i, which nothing may have computed before.
func (c *call) output(i int) *tensor {
	if i >= len(c.op.outputs) {
		malformed("%d outputs", len(c.op.outputs))
	}
	t := &c.plan.graph.tensors[c.op.outputs[i]]
	if c.plan.values[c.op.outputs[i]].state != undefined || t.data.Size != 0 {
		malformed("output %d, %q, is computed twice, or constant", i, t.name)
	}
	return t
}

// activation returns the range to which a fused activation limits an output; no activation is the zero Range, no
// limits.
func (c *call) activation(slot int) xnnpack.Range {
	a := c.op.options.Byte(slot)
	if limits, is := activations[a]; is {
		return limits
	}
	unsupported("the fused activation %s", cmp.Or(otherActivations[a], fmt.Sprint(a)))
	return xnnpack.Range{}
}

var activations = map[byte]xnnpack.Range{activationNone: {}, activationReLU: {Max: float32(math.Inf(1))},
	activationReLUN1: {Min: -1, Max: 1}, activationReLU6: {Max: 6}}

var otherActivations = map[byte]string{activationTanh: "TANH", activationSignBit: "SIGN_BIT"}

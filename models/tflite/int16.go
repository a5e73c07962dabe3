package tflite

import (
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/models"
	"xpwc/xnnpack"
)

// XNNPACK has no kernels for int16. What the file has as int16 with a scale (its activations, for weights of int8)
// is computed in single precision, with weights that are dequantized when they are packed. XNNPACK's operators limit
// their results to the range of int16, as LiteRT does. They do not round them. Inputs and outputs of int16 are
// converted in Go.

// fromInt16 is a constant of int16 in single precision.
func (c *call) fromInt16(k *constant) *constant {
	if k.scatter != nil {
		unsupported("sparse values of type %v", k.stored)
	}
	k.scaled()
	return c.plan.derive(k.dequantized())
}

// accumulated is the bias of an operator with an input of int16. LiteRT adds its integers to sums of products, whatever
// their scale in the file: TensorFlow's converter gives a bias that several operators share the scale of one of them.
func (c *call) accumulated(bias *constant, inputAt int, kernel *constant) *constant {
	if bias.dtype == typeFloat32 || len(kernel.quant.scales) == 0 {
		return bias
	}
	step := c.plan.graph.tensors[c.op.inputs[inputAt]].int16Step()
	return bias.derived(bias.name, func(k *constant) {
		k.quant = quantization{}
		for _, scale := range kernel.quant.scales {
			k.quant.scales = append(k.quant.scales, step*scale)
		}
	})
}

// unscaled has an operator in Go that moves int16 take the integers of operands as if they had the output's scale, as
// LiteRT does.
func (c *call) unscaled(operands ...int) {
	out, compute := &c.plan.graph.tensors[c.op.outputs[0]], c.compute
	if out.dtype != typeInt16 || out.element() != typeFloat32 {
		return
	}
	c.do(func(r *run) {
		for _, i := range operands {
			ratio := float64(out.int16Step() / c.plan.graph.tensors[c.op.inputs[i]].int16Step())
			if ratio == 1 {
				continue
			}
			scaled := operators.New(models.Float32, r.in[i].Shape...)
			for k := range len(scaled.Data) / scaled.Element.Size() {
				scaled.Put(k, r.in[i].Number(k)*ratio)
			}
			r.in[i] = scaled
		}
		compute(r)
	})
}

// limited makes the nodes of an operator write into inner values in place of outputs of int16, unless they only move
// elements. It returns the nodes that limit the inner values to int16. XNNPACK merges the two nodes where it can.
func (c *call) limited() (limits []flow.Node) {
	if c.op.code == "QUANTIZE" || !slices.ContainsFunc(c.nodes, func(n flow.Node) bool { return !n.Moves() }) {
		return nil
	}
	for _, t := range c.op.outputs {
		tensor := &c.plan.graph.tensors[t]
		if tensor.dtype != typeInt16 || tensor.element() != typeFloat32 {
			continue
		}
		free := c.Inside(flow.ID(t))
		c.plan.valueOf(free).inside.Shape = c.plan.values[t].shape
		for i, node := range c.nodes {
			inputs, outputs := node.Operands()
			operands := slices.Concat(inputs, outputs)
			for k := range operands {
				if operands[k] == flow.ID(t) {
					operands[k] = free
				}
			}
			c.nodes[i] = node.With(operands...)
		}
		limit := c.withinInt16()
		limit.Input, limit.Output = free, flow.ID(t)
		limits = append(limits, flow.Unary(limit))
	}
	return limits
}

// withinInt16 limits single precision to the range of the output's int16, or else the input's.
func (c *call) withinInt16() xnnpack.Unary {
	t := &c.plan.graph.tensors[c.op.outputs[0]]
	if t.dtype != typeInt16 {
		t = &c.plan.graph.tensors[c.op.inputs[0]]
	}
	step := float64(t.int16Step())
	return clamp(math.MinInt16*step, math.MaxInt16*step)
}

// int16Step is what int16 of a tensor counts.
func (t *tensor) int16Step() float32 {
	q := t.quantization
	if t.dtype != typeInt16 || len(q.scales) != 1 || !(q.scales[0] > 0 && q.scales[0] < math.MaxFloat32/math.MaxInt16) {
		unsupported("values of type %v with the scales %v", t.dtype, q.scales)
	}
	for _, z := range q.zeroPoints {
		if z != 0 {
			unsupported("values of type %v with the zero point %d", t.dtype, z)
		}
	}
	return q.scales[0]
}

// inputsOfInt16 puts a tensor of integers before each input of int16, which has its name then.
func (n *inliner) inputsOfInt16() {
	for i, t := range n.graph.inputs {
		if n.graph.tensors[t].element() == n.graph.tensors[t].dtype {
			continue
		}
		outside := n.outside(t, "input")
		n.values[outside] = value{state: dynamic, shape: n.values[t].shape, dtype: typeInt16}
		n.values[t] = value{}
		n.edge(outside, t)
		n.graph.inputs[i] = outside
	}
}

// outputsOfInt16 puts a tensor of integers after each output of int16.
func (n *inliner) outputsOfInt16() {
	for i, t := range n.graph.outputs {
		if n.graph.tensors[t].element() != n.graph.tensors[t].dtype {
			n.graph.outputs[i] = n.outside(t, "output")
			n.edge(t, n.graph.outputs[i])
		}
	}
}

// outside adds a tensor of integers that has a tensor's name from now on.
func (n *inliner) outside(t int, role string) int {
	var step float32
	fault.Wrap(func() { step = n.graph.tensors[t].int16Step() }, "%s %q", role, n.graph.tensors[t].name)
	copied := n.tensor(tensor{name: n.graph.tensors[t].name, dtype: typeInt16, step: step})
	in, out := &n.graph.tensors[t], &n.graph.tensors[copied]
	in.name, out.name = out.name, in.name
	return copied
}

// edge plans the conversion of a tensor to the one outside, or from it.
func (n *inliner) edge(src, dst int) {
	op := &operator{code: "DEQUANTIZE", inputs: []int{src}, outputs: []int{dst}}
	n.add(op, operatorRow{inGo: func(c *call) {
		in := c.operand(0)
		c.define(0, in.shape...)
		c.do(func(r *run) {
			for i := range len(r.in[0].Data) / r.in[0].Element.Size() {
				x := r.in[0].Number(i)
				if step := n.graph.tensors[src].step; step > 0 {
					r.out[0].Put(i, x*float64(step))
					continue
				}
				x = math.RoundToEven(x / float64(n.graph.tensors[dst].step))
				r.out[0].Put(i, min(max(x, math.MinInt16), math.MaxInt16))
			}
		})
	}})
}

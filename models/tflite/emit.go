package tflite

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// Values of the flow are the tensors, by their indices, and those inside of operators, from this number on.
const firstInside = 1 << 31

// of returns a value of the flow.
func (p *plan) of(id flow.ID) *value {
	if id >= firstInside {
		return &p.inside[id-firstInside]
	}
	return &p.values[id]
}

// shape returns the shape of a value of the flow, as far as it is known.
func (p *plan) shape(id flow.ID) []int {
	v := p.of(id)
	if v.inside != nil {
		return v.inside.Shape
	}
	return v.shape
}

// flow makes what the plan computes of its steps. It leaves out what no output needs.
func (p *plan) flow() flow.Part {
	ids := func(tensors []int) (out flow.IDs) {
		for _, t := range tensors {
			out = append(out, flow.ID(t))
		}
		return out
	}
	whole := flow.Part{Values: p, Steps: p.steps, Inputs: ids(p.graph.inputs), Outputs: ids(p.graph.outputs),
		States: p.states}
	return whole.Pruned()
}

// Add implements [flow.Composer]: it plans a node, or what it moves in Go. An output that has a shape keeps it.
func (c *call) Add(op flow.Operation) {
	node := op.(flow.Node)
	inputs, outputs := node.Operands()
	var shapes [][]int
	for _, id := range inputs {
		shapes = append(shapes, c.plan.shape(id))
	}
	out, inside := outputs[0], outputs[0] >= firstInside
	if i := slices.Index(c.op.outputs, int(out)); inside || !slices.Contains(c.defined, i) {
		var shape []int
		if checked(func() { shape = node.Shape(shapes) }); !inside {
			c.define(i, shape...)
		} else {
			checked(func() { fault.Value(elements(shape)) })
			c.plan.of(out).inside.Shape = slices.Clone(shape)
		}
	}
	c.nodes = append(c.nodes, node)
}

// finish plans what Go computes, or the nodes with conversions of what they read and compute.
func (c *call) finish() {
	steps := func(ops ...flow.Node) {
		for _, op := range ops {
			c.plan.steps = append(c.plan.steps, &flow.Step{Name: c.op.title(), Operation: op})
		}
	}
	if !slices.ContainsFunc(c.nodes, func(n flow.Node) bool { return !n.Moves() }) {
		for _, node := range c.nodes {
			inputs, _ := node.Operands()
			for _, id := range inputs {
				if id < firstInside {
					c.keepsScale(id)
				}
			}
		}
	}
	if !c.inGo {
		before, after := c.widened()
		for id, like := range c.inner {
			of := c.plan.describe(int(like))
			if c.wide {
				of = inFloats(of)
			}
			of.Name, of.Shape = of.Name+", inside", c.plan.shape(id)
			*c.plan.of(id).inside = of
		}
		steps(slices.Concat(before, c.nodes, after)...)
		return
	}
	if c.compute == nil && len(c.nodes) > 0 {
		c.compute = c.move
	}
	if c.compute == nil || c.fold() {
		return
	}
	var inputs, results flow.IDs
	for _, i := range c.reads {
		inputs = append(inputs, flow.ID(c.op.inputs[i]))
	}
	for _, t := range c.op.outputs {
		results = append(results, flow.ID(t))
	}
	hosted := flow.Hosted{Inputs: inputs, Results: results, Compute: c.run}
	c.plan.steps = append(c.plan.steps, &flow.Step{Name: c.op.title(), Operation: hosted})
}

// widened has the nodes of an operator that is wide compute with single precision in the place of bytes. It returns the
// conversions before and after them.
func (c *call) widened() (before, after []flow.Node) {
	wide := map[flow.ID]flow.ID{}
	for i, node := range c.nodes {
		inputs, outputs := node.Operands()
		operands := slices.Concat(inputs, outputs)
		for k, id := range operands {
			if !c.wide || id >= firstInside || !c.plan.values[id].dtype.isBytes() {
				continue
			}
			if _, known := wide[id]; !known {
				wide[id] = c.Inside(id)
				c.plan.of(wide[id]).inside.Shape = c.plan.values[id].shape
				if k < len(inputs) {
					before = append(before, flow.Convert(id, wide[id]))
				} else {
					after = append(after, flow.Convert(wide[id], id))
				}
			}
			operands[k] = wide[id]
		}
		c.nodes[i] = node.With(operands...)
	}
	return before, after
}

// Inside implements [flow.Composer].
func (c *call) Inside(like flow.ID) flow.ID {
	id := c.described(xnnpack.Tensor{})
	if c.inner == nil {
		c.inner = map[flow.ID]flow.ID{}
	}
	c.inner[id] = c.kind(like)
	return id
}

// kind returns the tensor that a value is like, or is.
func (c *call) kind(id flow.ID) flow.ID {
	if like, inside := c.inner[id]; inside {
		return like
	}
	return id
}

// Number implements [flow.Composer]. The number is in no file.
func (c *call) Number(x float64, _ flow.ID) flow.ID {
	single := float32(x)
	return c.constant(c.plan.derive(&constant{name: fmt.Sprint("the number ", single), stored: typeFloat32,
		dtype: typeFloat32, size: 4, data: binary.LittleEndian.AppendUint32(nil, math.Float32bits(single))}))
}

// described adds a value inside of the operator.
func (c *call) described(t xnnpack.Tensor) flow.ID {
	c.plan.inside = append(c.plan.inside, value{inside: &t})
	return flow.ID(firstInside + len(c.plan.inside) - 1)
}

// constant returns the value of a constant: of an operand, or what was made of one.
func (c *call) constant(k *constant) flow.ID {
	for _, t := range c.op.inputs {
		if t != absent && c.plan.values[t].constant == k {
			return flow.ID(t)
		}
	}
	id, known := c.plan.internal[k]
	if !known {
		id = c.described(k.describe())
		c.plan.of(id).constant, c.plan.internal[k] = k, id
	}
	return id
}

// in returns operand i, and out output i.
func (c *call) in(i int) flow.ID { return flow.ID(c.op.inputs[i]) }

func (c *call) out(i int) flow.ID {
	if i >= len(c.op.outputs) {
		malformed("%d outputs", len(c.op.outputs))
	}
	return flow.ID(c.op.outputs[i])
}

func (c *call) unary(node xnnpack.Unary, in, out flow.ID) {
	node.Input, node.Output = in, out
	c.Add(flow.Unary(node))
}

func (c *call) shaped(in, out flow.ID, shape []int) {
	c.Add(flow.StaticReshape(xnnpack.StaticReshape{Shape: slices.Clone(shape), Input: in, Output: out}))
}

package tflite

import (
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

// add plans a node, or what it moves in Go.
func (c *call) add(op flow.Operation) {
	if mover, is := op.(flow.Mover); is && c.inGo {
		c.compute, c.movers = c.move, append(c.movers, mover)
		return
	}
	c.plan.steps = append(c.plan.steps, &flow.Step{Name: c.op.title(), Operation: op})
}

// finish plans what Go computes, or the conversions of what the nodes compute.
func (c *call) finish() {
	for _, op := range c.narrow {
		c.add(op)
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
	c.add(flow.Hosted{Inputs: inputs, Results: results, Compute: c.run})
}

// inside adds a value inside of the operator.
func (c *call) inside(t xnnpack.Tensor) flow.ID {
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
	id, known := c.plan.known[k]
	if !known {
		id = c.inside(fault.Value(k.describe()))
		c.plan.of(id).constant, c.plan.known[k] = k, id
	}
	return id
}

// in returns operand i, in single precision if the operator computes so.
func (c *call) in(i int) flow.ID {
	t := c.op.inputs[i]
	if !c.widens(t) {
		return flow.ID(t)
	}
	wide := c.inside(c.like(t))
	c.add(flow.Convert(flow.ID(t), wide))
	return wide
}

// out returns output i, which is converted in the end if the operator computes in single precision.
func (c *call) out(i int) flow.ID {
	t := c.op.outputs[i]
	if !c.widens(t) {
		return flow.ID(t)
	}
	wide := c.inside(c.like(t))
	c.narrow = append(c.narrow, flow.Convert(wide, flow.ID(t)))
	return wide
}

// widens reports whether the operator computes with another value in the place of a tensor.
func (c *call) widens(tensor int) bool {
	return c.wide && !c.inGo && c.plan.values[tensor].dtype.isBytes()
}

// like describes what the operator has in place of a tensor, or a value of the same kind, without content.
func (c *call) like(tensor int, shape ...int) xnnpack.Tensor {
	var d xnnpack.Tensor
	if !c.inGo { // which may have what XNNPACK does not
		d = c.describe(tensor)
	}
	if c.wide {
		d = inFloats(d)
	}
	if shape != nil {
		d.Shape = slices.Clone(shape)
	}
	d.Name += ", inside"
	return d
}

func (c *call) unary(node xnnpack.Unary, in, out flow.ID) {
	node.Input, node.Output = in, out
	c.add(flow.Unary(node))
}

// reshaped returns the ID of a value that is tensor t in another shape.
func (c *call) reshaped(id flow.ID, t int, shape ...int) flow.ID {
	out := c.inside(c.like(t, shape...))
	c.shaped(id, out, shape)
	return out
}

func (c *call) shaped(in, out flow.ID, shape []int) {
	c.add(flow.StaticReshape(xnnpack.StaticReshape{Shape: slices.Clone(shape), Input: in, Output: out}))
}

package tflite

import (
	"fmt"
	"slices"

	"xpwc/internal/compute"
	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// emitter makes the nodes of steps. Values of the flow are the tensors, by their indices, and then those inside of
// steps. The first error ends that, see package fault.
type emitter struct {
	plan   *plan
	steps  []*flow.Step
	known  map[*constant]flow.ID
	name   string           // of the step
	wide   bool             // likewise
	narrow []flow.Operation // conversions of the step's outputs
}

// flow makes what the plan computes of its steps. It leaves out what no output needs.
func (p *plan) flow() flow.Part {
	e := &emitter{plan: p, known: map[*constant]flow.ID{}}
	for i, v := range p.values {
		if v.constant != nil {
			e.known[v.constant] = flow.ID(i)
		}
	}
	for i := range p.steps {
		step := &p.steps[i]
		e.name = fmt.Sprintf("operator %d, %s", step.op.index, step.op.name())
		fault.Within(func() { e.step(step) }, "%s", e.name)
	}
	ids := func(tensors []int) (out flow.IDs) {
		for _, t := range tensors {
			out = append(out, flow.ID(t))
		}
		return out
	}
	whole := flow.Part{Values: p, Steps: e.steps, Inputs: ids(p.graph.inputs), Outputs: ids(p.graph.outputs),
		States: p.states}
	return whole.Pruned()
}

func (e *emitter) step(s *step) {
	if s.compute != nil {
		var inputs, results flow.IDs
		for _, i := range s.reads {
			inputs = append(inputs, flow.ID(s.op.inputs[i]))
		}
		for _, t := range s.op.outputs {
			results = append(results, flow.ID(t))
		}
		e.add(flow.Hosted{Inputs: inputs, Results: results,
			Compute: func(out, in []compute.Array) error { return e.plan.compute(s, out, in) }})
		return
	}
	e.wide, e.narrow = s.wide, nil
	s.emit(e)
	for _, n := range e.narrow {
		e.add(n)
	}
}

func (e *emitter) add(op flow.Operation) {
	e.steps = append(e.steps, &flow.Step{Name: e.name, Operation: op})
}

// define adds a value inside of a step.
func (e *emitter) define(t xnnpack.Tensor) flow.ID {
	e.plan.values = append(e.plan.values, value{inside: &t})
	return flow.ID(len(e.plan.values) - 1)
}

// constant returns the value of a constant.
func (e *emitter) constant(c *constant) flow.ID {
	id, known := e.known[c]
	if !known {
		id = e.define(fault.Value(c.describe()))
		e.plan.values[id].constant, e.known[c] = c, id
	}
	return id
}

func (e *emitter) input(c *call, i int) xnnpack.ValueID {
	id, wide, converted := e.widened(c.op.inputs[i])
	if converted {
		e.add(flow.Convert(id, wide))
	}
	return wide
}

func (e *emitter) output(c *call, i int) xnnpack.ValueID {
	id, wide, converted := e.widened(c.op.outputs[i])
	if converted {
		e.narrow = append(e.narrow, flow.Convert(wide, id))
	}
	return wide
}

// widened returns a tensor's value, and the one that the step computes with in its place: another one, which is to be
// converted, if the step computes in single precision and the tensor has bytes.
func (e *emitter) widened(tensor int) (id, wide xnnpack.ValueID, converted bool) {
	id = flow.ID(tensor)
	if !e.wide || !e.plan.values[tensor].dtype.isBytes() {
		return id, id, false
	}
	return id, e.define(e.like(tensor)), true
}

// like describes what the step has in place of a tensor, or a value of the same kind, without content.
func (e *emitter) like(tensor int, shape ...int) xnnpack.Tensor {
	d := fault.Value(e.plan.describe(tensor))
	if e.wide {
		d = inFloats(d)
	}
	if shape != nil {
		d.Shape = slices.Clone(shape)
	}
	d.Name += ", inside"
	return d
}

func (e *emitter) unary(node xnnpack.Unary, in, out xnnpack.ValueID) {
	node.Input, node.Output = in, out
	e.add(flow.Unary(node))
}

// reshaped returns the ID of a value that is tensor t in another shape.
func (e *emitter) reshaped(id xnnpack.ValueID, t int, shape ...int) xnnpack.ValueID {
	out := e.define(e.like(t, shape...))
	e.reshape(id, out, shape)
	return out
}

func (e *emitter) reshape(in, out xnnpack.ValueID, shape []int) {
	e.add(flow.StaticReshape(xnnpack.StaticReshape{Shape: slices.Clone(shape), Input: in, Output: out}))
}

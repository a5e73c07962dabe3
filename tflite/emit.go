package tflite

import (
	"errors"

	"xpwc/internal/fault"
	"xpwc/xnnpack"
)

// emitter adds the steps of a plan to a subgraph. The first error ends that, see package fault.
type emitter struct {
	s       *xnnpack.Subgraph
	plan    *plan
	load    func(name string, c *constant) ([]byte, error)
	ids     []xnnpack.ValueID // by tensor index
	defined []bool
	loaded  map[*constant]xnnpack.ValueID
	wide    bool            // of the step
	narrow  []xnnpack.Unary // conversions of the step's outputs
}

func (p *plan) emit(load func(string, *constant) ([]byte, error)) (*xnnpack.Subgraph, error) {
	inputs, outputs := len(p.graph.inputs), len(p.graph.outputs)
	s, err := xnnpack.NewSubgraph(inputs + outputs)
	if err != nil {
		return nil, err
	}
	e := &emitter{
		s: s, plan: p, load: load, ids: make([]xnnpack.ValueID, len(p.values)), defined: make([]bool, len(p.values)),
		loaded: map[*constant]xnnpack.ValueID{},
	}
	if err := fault.Try(e.emit); err != nil {
		return nil, errors.Join(err, s.Delete())
	}
	return s, nil
}

func (e *emitter) emit() {
	copies := e.externals()
	for i := range e.plan.steps {
		step := &e.plan.steps[i]
		fault.Within(func() { e.step(step) }, "operator %d, %s", step.op.index, step.op.name())
	}
	for _, c := range copies {
		if c.Input == xnnpack.InvalidValue {
			c.Input = e.value(e.plan.graph.outputs[int(c.Output)-len(e.plan.graph.inputs)])
		}
		fault.Check(e.s.Add(c))
	}
}

func (e *emitter) step(s *step) {
	e.wide, e.narrow = s.wide, nil
	s.emit(e)
	for _, n := range e.narrow {
		fault.Check(e.s.Add(n))
	}
}

// externals defines the model's inputs and outputs, whose IDs are their positions, inputs first. An output that is an
// input, a constant or another output as well is a copy, which it returns.
func (e *emitter) externals() []xnnpack.Copy {
	g := e.plan.graph
	for i, t := range g.inputs {
		fault.Check(e.s.Input(xnnpack.ValueID(i), e.describe(t)))
		e.ids[t], e.defined[t] = xnnpack.ValueID(i), true
	}
	var copies []xnnpack.Copy
	for i, t := range g.outputs {
		id := xnnpack.ValueID(len(g.inputs) + i)
		fault.Check(e.s.Output(id, e.describe(t)))
		switch {
		case e.defined[t]:
			copies = append(copies, xnnpack.Copy{Input: e.ids[t], Output: id})
		case e.plan.values[t].state == static:
			copies = append(copies, xnnpack.Copy{Input: xnnpack.InvalidValue, Output: id})
		default:
			e.ids[t], e.defined[t] = id, true
		}
	}
	return copies
}

// describe returns a tensor's description for XNNPACK.
func (e *emitter) describe(tensor int) xnnpack.Tensor {
	return fault.Value(e.plan.describe(tensor))
}

func (e *emitter) define(t xnnpack.Tensor) xnnpack.ValueID { return fault.Value(e.s.Tensor(t)) }

// value returns the ID of a tensor, which it defines when it is first used; a constant's content is asked for then.
func (e *emitter) value(t int) xnnpack.ValueID {
	if e.defined[t] {
		return e.ids[t]
	}
	if c := e.plan.values[t].constant; c != nil {
		e.ids[t] = e.constant(c)
	} else {
		e.ids[t] = e.define(e.describe(t))
	}
	e.defined[t] = true
	return e.ids[t]
}

// constant returns the ID of a constant, which it loads and defines when it is first used.
func (e *emitter) constant(c *constant) xnnpack.ValueID {
	id, known := e.loaded[c]
	if !known {
		d := fault.Value(c.describe())
		d.Data = fault.Value(e.load(c.name, c))
		id = e.define(d)
		e.loaded[c] = id
	}
	return id
}

func (e *emitter) input(c *call, i int) xnnpack.ValueID {
	id, wide, converted := e.widened(c.op.inputs[i])
	if converted {
		e.unary(xnnpack.Unary{Op: xnnpack.ConvertElements}, id, wide)
	}
	return wide
}

func (e *emitter) output(c *call, i int) xnnpack.ValueID {
	id, wide, converted := e.widened(c.op.outputs[i])
	if converted {
		e.narrow = append(e.narrow, xnnpack.Unary{Op: xnnpack.ConvertElements, Input: wide, Output: id})
	}
	return wide
}

// widened returns a tensor's value, and the one that the step computes with in its place: another one, which is to be
// converted, if the step computes in single precision and the tensor has bytes.
func (e *emitter) widened(tensor int) (id, wide xnnpack.ValueID, converted bool) {
	id = e.value(tensor)
	if !e.wide || !e.plan.values[tensor].dtype.isBytes() {
		return id, id, false
	}
	return id, e.define(e.like(tensor)), true
}

// like describes what the step has in place of a tensor, or a value of the same kind, without content.
func (e *emitter) like(tensor int, shape ...int) xnnpack.Tensor {
	d := e.describe(tensor)
	if e.wide {
		d = inFloats(d)
	}
	if shape != nil {
		d.Shape = shape
	}
	d.Name += ", inside"
	return d
}

func (e *emitter) unary(node xnnpack.Unary, in, out xnnpack.ValueID) {
	node.Input, node.Output = in, out
	fault.Check(e.s.Add(node))
}

// reshaped returns the ID of a value that is tensor t in another shape.
func (e *emitter) reshaped(id xnnpack.ValueID, t int, shape ...int) xnnpack.ValueID {
	out := e.define(e.like(t, shape...))
	e.reshape(id, out, shape)
	return out
}

func (e *emitter) reshape(in, out xnnpack.ValueID, shape []int) {
	fault.Check(e.s.Add(xnnpack.StaticReshape{Shape: shape, Input: in, Output: out}))
}

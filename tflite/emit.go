package tflite

import (
	"fmt"

	"xpwc/xnnpack"
)

// emitter adds the steps of a plan to a subgraph. It keeps the first error of defining a value; the node that was to
// use the value is then refused too, and the first error is the one to report.
type emitter struct {
	s       *xnnpack.Subgraph
	plan    *plan
	load    func(name string, c *constant) ([]byte, error)
	ids     []xnnpack.ValueID // by tensor index
	defined []bool
	err     error
}

func (p *plan) emit(load func(string, *constant) ([]byte, error)) (*xnnpack.Subgraph, error) {
	inputs, outputs := len(p.graph.inputs), len(p.graph.outputs)
	s, err := xnnpack.NewSubgraph(inputs + outputs)
	if err != nil {
		return nil, err
	}
	e := &emitter{
		s: s, plan: p, load: load, ids: make([]xnnpack.ValueID, len(p.values)), defined: make([]bool, len(p.values)),
	}
	if err := e.emit(); err != nil {
		return nil, fmt.Errorf("%w%s", err, deleted(s))
	}
	return s, nil
}

// deleted deletes an incomplete subgraph, and returns the text of the error if that fails too.
func deleted(s *xnnpack.Subgraph) string {
	if err := s.Delete(); err != nil {
		return "; " + err.Error()
	}
	return ""
}

func (e *emitter) emit() error {
	copies := e.externals()
	for i := range e.plan.steps {
		step := &e.plan.steps[i]
		if e.err == nil {
			if err := step.emit(e); e.err == nil {
				e.err = err
			}
		}
		if e.err != nil {
			return fmt.Errorf("operator %d, %s: %w", step.op.index, step.op.name(), e.err)
		}
	}
	for _, c := range copies {
		if c.Input == xnnpack.InvalidValue {
			c.Input = e.value(e.plan.graph.outputs[int(c.Output)-len(e.plan.graph.inputs)])
		}
		if e.err == nil {
			e.err = e.s.Copy(c)
		}
	}
	return e.err
}

// externals defines the model's inputs and outputs, whose IDs are their positions, inputs first. An output that is an
// input, a constant or another output as well is a copy, which it returns.
func (e *emitter) externals() []xnnpack.Copy {
	g := e.plan.graph
	for i, t := range g.inputs {
		if e.err == nil {
			e.err = e.s.Input(xnnpack.ValueID(i), e.describe(t))
		}
		e.ids[t], e.defined[t] = xnnpack.ValueID(i), true
	}
	var copies []xnnpack.Copy
	for i, t := range g.outputs {
		id := xnnpack.ValueID(len(g.inputs) + i)
		if e.err == nil {
			e.err = e.s.Output(id, e.describe(t))
		}
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
	t, err := e.plan.describe(tensor)
	if e.err == nil {
		e.err = err
	}
	return t
}

func (e *emitter) define(t xnnpack.Tensor) xnnpack.ValueID {
	if e.err != nil {
		return xnnpack.InvalidValue
	}
	var id xnnpack.ValueID
	id, e.err = e.s.Tensor(t)
	return id
}

// value returns the ID of a tensor, which it defines when it is first used; a constant's content is asked for then.
func (e *emitter) value(t int) xnnpack.ValueID {
	if e.defined[t] || e.err != nil {
		return e.ids[t]
	}
	d := e.describe(t)
	if c := e.plan.values[t].constant; c != nil && e.err == nil {
		d.Data, e.err = e.load(d.Name, c)
	}
	e.ids[t], e.defined[t] = e.define(d), true
	return e.ids[t]
}

func (e *emitter) input(c *call, i int) xnnpack.ValueID  { return e.value(c.op.inputs[i]) }
func (e *emitter) output(c *call, i int) xnnpack.ValueID { return e.value(c.op.outputs[i]) }

// optional returns no value for an operand that is not given.
func (e *emitter) optional(c *call, i int, given bool) xnnpack.ValueID {
	if !given {
		return xnnpack.InvalidValue
	}
	return e.input(c, i)
}

// reshaped returns the ID of a value that is tensor t in another shape.
func (e *emitter) reshaped(id xnnpack.ValueID, t int, shape ...int) xnnpack.ValueID {
	d := e.describe(t)
	d.Shape, d.Name = shape, d.Name+", reshaped"
	out := e.define(d)
	if e.err == nil {
		e.err = e.s.StaticReshape(xnnpack.StaticReshape{Shape: shape, Input: id, Output: out})
	}
	return out
}

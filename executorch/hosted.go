package executorch

import (
	"fmt"
	"slices"

	"xpwc/internal/compute"
	"xpwc/models"
	"xpwc/xnnpack"
)

// hosted is an operator that XNNPACK does not have, which is computed in Go between subgraphs.
type hosted struct {
	inputs   []xnnpack.ValueID
	output   xnnpack.ValueID
	computed []int // its shape
	compute  func(out compute.Array, in []compute.Array) error
}

func (n hosted) operands() ([]xnnpack.ValueID, xnnpack.ValueID) { return n.inputs, n.output }
func (n hosted) shape(shapes) ([]int, error)                    { return n.computed, nil }
func (n hosted) add(*xnnpack.Subgraph, func(xnnpack.ValueID) xnnpack.ValueID) error {
	return models.ErrStaged
}

// isHosted reports whether Go computes a step.
func (p *plan) isHosted(step int) bool {
	_, is := p.steps[step].operation.(hosted)
	return is
}

// staged reports whether a part is more than one subgraph.
func (p part) staged() bool {
	hosted := func(value int) bool { return p.values[value].host }
	return slices.ContainsFunc(p.steps, p.plan.isHosted) ||
		slices.ContainsFunc(p.inputs, hosted) || slices.ContainsFunc(p.outputs, hosted)
}

// cutAtHosted divides a part at the steps that Go computes, each of which is alone.
func (p part) cutAtHosted() (segments []part) {
	open := false
	for _, i := range p.steps {
		is := p.plan.isHosted(i)
		if is || !open {
			segments = append(segments, part{plan: p.plan})
		}
		s := &segments[len(segments)-1]
		s.steps, open = append(s.steps, i), !is
	}
	needed := map[int]bool{}
	for _, i := range p.outputs {
		needed[i] = true
	}
	for k := range slices.Backward(segments) {
		s := &segments[k]
		inside := map[int]bool{}
		for _, i := range s.steps {
			_, out := p.plan.steps[i].operands()
			inside[int(out)] = true
			if needed[int(out)] {
				s.outputs = append(s.outputs, int(out))
			}
		}
		for _, i := range s.steps {
			inputs, _ := p.plan.steps[i].operands()
			for _, in := range inputs {
				id := int(in)
				if !inside[id] && p.values[id].constant == nil && !slices.Contains(s.inputs, id) {
					s.inputs = append(s.inputs, id)
					needed[id] = true
				}
			}
		}
	}
	return segments
}

// element returns what Go has a value of the plan as, or 0.
func (v *value) element() models.Element {
	if v.host {
		return declared[v.dtype]
	}
	return models.Value{Type: v.tensor.Type}.Element()
}

// bytes returns the size of a value's content, which was checked.
func (v *value) bytes() int {
	n := v.element().Size()
	for _, d := range v.tensor.Shape {
		n *= d
	}
	return n
}

// stager makes the stages of a method.
type stager struct {
	*Method
	buffers map[int]int // of values
	between []int
	stages  []models.Stage
}

// Stages returns what the method computes where XNNPACK does not have all of its operators: subgraphs, and what Go
// computes between them. See [models.Staged].
func (m *Method) Stages() (stages []models.Stage, between []int) {
	if m.fault != nil || !m.whole.staged() {
		return nil, nil
	}
	s := &stager{Method: m, buffers: map[int]int{}}
	for i, n := range m.whole.inputs {
		s.buffers[n] = i
	}
	for i, n := range m.whole.outputs {
		if _, known := s.buffers[n]; !known && m.whole.values[n].constant == nil {
			s.buffers[n] = len(m.whole.inputs) + i
		}
	}
	for _, p := range m.whole.cutAtHosted() {
		s.add(p)
	}
	for i, n := range m.whole.outputs {
		if to := len(m.whole.inputs) + i; s.buffers[n] != to || m.whole.values[n].constant != nil {
			s.copied(n, to)
		}
	}
	return s.stages, s.between
}

// buffer returns the buffer of a value.
func (s *stager) buffer(n int) int {
	b, known := s.buffers[n]
	if !known {
		b = len(s.whole.inputs) + len(s.whole.outputs) + len(s.between)
		s.buffers[n] = b
		s.between = append(s.between, s.whole.values[n].bytes())
	}
	return b
}

func (s *stager) add(p part) {
	var stage models.Stage
	for _, n := range p.inputs {
		stage.Inputs = append(stage.Inputs, s.buffer(n))
	}
	for _, n := range p.outputs {
		stage.Outputs = append(stage.Outputs, s.buffer(n))
	}
	if step := &p.plan.steps[p.steps[0]]; p.plan.isHosted(p.steps[0]) {
		stage.Compute = s.hosted(step.name, step.operation.(hosted))
	} else {
		stage.Subgraph = func(l models.Loader) (*xnnpack.Subgraph, error) { return s.program.subgraph(p, l) }
	}
	s.stages = append(s.stages, stage)
}

// copied adds a stage for an output that is an input, a constant, or given twice.
func (s *stager) copied(n, to int) {
	v := &s.whole.values[n]
	op := hosted{inputs: []xnnpack.ValueID{xnnpack.ValueID(n)}, output: xnnpack.ValueID(n), computed: v.tensor.Shape,
		compute: func(out compute.Array, in []compute.Array) error { copy(out.Data, in[0].Data); return nil }}
	stage := models.Stage{Outputs: []int{to}, Compute: s.hosted("an output", op)}
	if v.constant == nil {
		stage.Inputs = []int{s.buffer(n)}
	}
	s.stages = append(s.stages, stage)
}

// hosted returns what computes an operator: from the stage's inputs, and from constants where the files have them.
func (s *stager) hosted(name string, op hosted) func(inputs, outputs [][]byte) error {
	array := func(id xnnpack.ValueID) compute.Array {
		v := &s.whole.values[id]
		return compute.Array{Element: v.element(), Shape: v.tensor.Shape}
	}
	return func(inputs, outputs [][]byte) error {
		in := make([]compute.Array, len(op.inputs))
		given := map[xnnpack.ValueID][]byte{}
		for i, id := range op.inputs {
			in[i] = array(id)
			if s.whole.values[id].constant == nil && given[id] == nil {
				given[id], inputs = inputs[0], inputs[1:]
			}
			in[i].Data = given[id]
		}
		out := array(op.output)
		out.Data = outputs[0]
		err := s.withConstants(op.inputs, in, func() error { return op.compute(out, in) })
		if err != nil {
			return fmt.Errorf("%s: %s: %w", s.program.Path(), name, err)
		}
		return nil
	}
}

// withConstants calls do when the contents of all constants among the arrays are there.
func (s *stager) withConstants(ids []xnnpack.ValueID, in []compute.Array, do func() error) error {
	for i, id := range ids {
		c := s.whole.values[id].constant
		if c == nil || in[i].Data != nil {
			continue
		}
		size := s.whole.values[id].bytes()
		if !c.inFile() || c.converts() {
			in[i].Data = make([]byte, size)
			if !c.inFile() {
				if err := c.fill(in[i].Data, nil); err != nil {
					return err
				}
				continue
			}
			var wrong error
			if err := s.program.files.read(c.stored, func(b []byte) { wrong = c.fill(in[i].Data, b) }); err != nil {
				return err
			}
			if wrong != nil {
				return wrong
			}
			continue
		}
		var result error
		err := s.program.files.read(c.stored, func(b []byte) {
			in[i].Data = b[:size]
			result = s.withConstants(ids, in, do)
		})
		if err != nil {
			return err
		}
		return result
	}
	return do()
}

package executorch

import (
	"fmt"
	"slices"

	"xpwc/internal/compute"
	"xpwc/internal/staging"
	"xpwc/models"
	"xpwc/xnnpack"
)

// An array is a tensor that Go computes with.
type array = compute.Array

// hosted is an operator that XNNPACK does not have, which is computed in Go between subgraphs.
type hosted struct {
	inputs   ids
	output   xnnpack.ValueID
	computed []int // its shape
	compute  func(out array, in []array) error
}

func (n hosted) shape(shapes) []int { return n.computed }

// same computes the same bytes.
func same(out array, in []array) error { copy(out.Data, in[0].Data); return nil }

func (n duplicate) move(out array, in []array) error { return same(out, in) }
func (n reshape) move(out array, in []array) error   { return same(out, in) }

func (n transpose) move(out array, in []array) error {
	from, strides := compute.Rows(in[0].Shape), make([]int, len(n.Permutation))
	for i, d := range n.Permutation {
		strides[i] = from[d]
	}
	return compute.Strided(out, in[0], 0, strides)
}

func (n slice) move(out array, in []array) error {
	offset, strides := 0, compute.Rows(in[0].Shape)
	for d, first := range n.Offsets {
		offset += first * strides[d]
	}
	return compute.Strided(out, in[0], offset, strides)
}

func (n pad) move(out array, in []array) error {
	places := compute.Everywhere(in[0].Shape)
	for d := range places {
		places[d] = slices.Concat(slices.Repeat([]int{-1}, n.Pre[d]), places[d], slices.Repeat([]int{-1}, n.Post[d]))
	}
	return compute.Take(out, in[0], places, compute.Number(out.Element, float64(n.Value)).Data)
}

func (n concatenate) move(out array, in []array) error { return compute.Join(out, n.Axis, in...) }

// isHosted reports whether Go computes a step.
func (p *plan) isHosted(step int) bool {
	_, is := p.steps[step].operation.(hosted)
	return is
}

// staged reports whether a part is more than one subgraph.
func (p part) staged() bool {
	hosted := func(value int) bool { return p.values[value].host }
	return len(p.states) > 0 || slices.ContainsFunc(p.steps, p.plan.isHosted) ||
		slices.ContainsFunc(p.inputs, hosted) || slices.ContainsFunc(p.outputs, hosted)
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

// Stages returns what the method computes where XNNPACK does not have all of its operators: subgraphs, and what Go
// computes between them. See [models.Staged].
func (m *Method) Stages() (stages []models.Stage, between []models.Buffer) {
	p := m.whole
	if m.fault != nil || !p.staged() {
		return nil, nil
	}
	of := staging.Model{Inputs: p.inputs, Outputs: p.outputs, Size: func(n int) int { return p.values[n].bytes() }}
	of.Constant = func(n int) func([]byte) error {
		if p.values[n].constant == nil {
			return nil
		}
		id := xnnpack.ValueID(n)
		write := m.hosted("an output", hosted{inputs: ids{id}, output: id, compute: same})
		return func(dst []byte) error { return write(nil, [][]byte{dst}) }
	}
	of.Subgraph = func(steps, inputs, outputs []int, l models.Loader) (*xnnpack.Subgraph, error) {
		segment := part{plan: p.plan, inputs: inputs, outputs: outputs}
		for _, i := range steps {
			segment.steps = append(segment.steps, p.steps[i])
		}
		return m.program.subgraph(segment, l)
	}
	for _, state := range p.states {
		zeros := func(dst []byte) error { clear(dst); return nil }
		of.States = append(of.States, staging.State{Value: state.value, Next: state.next, Initial: zeros})
	}
	for _, i := range p.steps {
		s := &p.plan.steps[i]
		inputs, out := s.operands()
		step := staging.Step{Outputs: []int{int(out)}}
		for k, in := range inputs {
			if p.values[in].constant == nil && !slices.Contains(inputs[:k], in) {
				step.Inputs = append(step.Inputs, int(in))
			}
		}
		if op, is := s.operation.(hosted); is {
			step.Compute = m.hosted(s.name, op)
		}
		of.Steps = append(of.Steps, step)
	}
	return of.Stages()
}

// hosted returns what computes an operator: from the stage's inputs, and from constants where the files have them.
func (m *Method) hosted(name string, op hosted) func(inputs, outputs [][]byte) error {
	array := func(id xnnpack.ValueID) compute.Array {
		v := &m.whole.values[id]
		return compute.Array{Element: v.element(), Shape: v.tensor.Shape}
	}
	return func(inputs, outputs [][]byte) error {
		in := make([]compute.Array, len(op.inputs))
		given := map[xnnpack.ValueID][]byte{}
		for i, id := range op.inputs {
			in[i] = array(id)
			if m.whole.values[id].constant == nil && given[id] == nil {
				given[id], inputs = inputs[0], inputs[1:]
			}
			in[i].Data = given[id]
		}
		out := array(op.output)
		out.Data = outputs[0]
		err := m.withConstants(op.inputs, in, func() error { return op.compute(out, in) })
		if err != nil {
			return fmt.Errorf("%s: %s: %w", m.program.Path(), name, err)
		}
		return nil
	}
}

// withConstants calls do when the contents of all constants among the arrays are there.
func (m *Method) withConstants(ids []xnnpack.ValueID, in []compute.Array, do func() error) error {
	for i, id := range ids {
		c := m.whole.values[id].constant
		if c == nil || in[i].Data != nil {
			continue
		}
		size := m.whole.values[id].bytes()
		if !c.inFile() || c.converts() {
			in[i].Data = make([]byte, size)
			if err := m.program.files.fill(c, in[i].Data); err != nil {
				return err
			}
			continue
		}
		var result error
		err := m.program.files.read(c.stored, func(b []byte) {
			in[i].Data = b[:size]
			result = m.withConstants(ids, in, do)
		})
		if err != nil {
			return err
		}
		return result
	}
	return do()
}

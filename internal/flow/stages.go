package flow

import (
	"fmt"
	"slices"

	"xpwc/internal/staging"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Hosted is what Go computes, since XNNPACK does not have it.
type Hosted struct {
	Inputs, Results IDs
	Computed        []int // the shape of the only result; nil if there are several
	Compute         func(out, in []Array) error
}

// Operands implements [Operation].
func (n Hosted) Operands() (inputs, outputs IDs) { return n.Inputs, n.Results }

// Shape implements [Operation].
func (n Hosted) Shape([][]int) []int { return n.Computed }

func (n Hosted) add(*xnnpack.Subgraph, func(ID) ID) error { return models.ErrStaged }

// Staged reports whether the part is more than one subgraph.
func (p Part) Staged() bool {
	hosted := func(s *Step) bool { _, is := s.Operation.(Hosted); return is }
	return len(p.States) > 0 || slices.ContainsFunc(p.Steps, hosted) ||
		slices.ContainsFunc(p.Inputs, p.InGo) || slices.ContainsFunc(p.Outputs, p.InGo)
}

// Bytes returns the size of a value's content, which was checked.
func (p Part) Bytes(id ID) int {
	a := p.Array(id)
	return xnnpack.Elements(a.Shape) * a.Element.Size()
}

// Stages returns subgraphs, and what Go computes between them, if the part is Staged. See [models.Staged]. Within says
// what an error is about.
func (p Part) Stages(within string) (stages []models.Stage, between []models.Buffer) {
	if !p.Staged() {
		return nil, nil
	}
	of := staging.Model{Inputs: p.Inputs, Outputs: p.Outputs, Size: p.Bytes, States: p.States}
	of.Constant = func(id ID) func([]byte) error {
		if !p.constant(id) {
			return nil
		}
		return func(dst []byte) error { return p.WriteContent(dst, id) }
	}
	of.Subgraph = func(steps []int, inputs, outputs IDs, l models.Loader) (*xnnpack.Subgraph, error) {
		segment := Part{Values: p.Values, Inputs: inputs, Outputs: outputs}
		for _, i := range steps {
			segment.Steps = append(segment.Steps, p.Steps[i])
		}
		s, err := segment.Subgraph(l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", within, err)
		}
		return s, nil
	}
	for _, s := range p.Steps {
		inputs, outputs := s.Operands()
		step := staging.Step{Outputs: outputs}
		for k, in := range inputs {
			if !p.constant(in) && !slices.Contains(inputs[:k], in) {
				step.Inputs = append(step.Inputs, in)
			}
		}
		if op, is := s.Operation.(Hosted); is {
			step.Compute = func(inputs, outputs [][]byte) error {
				if err := p.View(func() error { return p.compute(op, inputs, outputs) }); err != nil {
					return fmt.Errorf("%s: %s: %w", within, s.Name, err)
				}
				return nil
			}
		}
		of.Steps = append(of.Steps, step)
	}
	return of.Stages()
}

// WriteContent writes the content of a constant.
func (p Part) WriteContent(dst []byte, id ID) error {
	return p.View(func() error {
		b, err := p.Content(id)
		copy(dst, b)
		return err
	})
}

// compute computes in Go: from the values that are given, each once, and from constants where the files have them.
func (p Part) compute(op Hosted, inputs, outputs [][]byte) (err error) {
	in, out := make([]Array, len(op.Inputs)), make([]Array, len(op.Results))
	for i, id := range op.Inputs {
		in[i] = p.Array(id)
		switch first := slices.Index(op.Inputs, id); {
		case first < i:
			in[i].Data = in[first].Data
		case !p.constant(id):
			in[i].Data, inputs = inputs[0], inputs[1:]
		default:
			if in[i].Data, err = p.Content(id); err != nil {
				return err
			}
			in[i].Data = in[i].Data[:p.Bytes(id)]
		}
	}
	for i, id := range op.Results {
		out[i] = p.Array(id)
		out[i].Data = outputs[i]
	}
	return op.Compute(out, in)
}

package flow

import (
	"slices"

	"xpwc/internal/fault"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Hosted is what Go computes, since XNNPACK does not have it.
type Hosted struct {
	Inputs, Results IDs
	Computed        []int // the shape of the only result; nil if there are several
	Compute         func(out, in []Array)
	Updates         bool // Compute updates the first input if the result lies in its memory
}

// Operands implements [Operation].
func (n Hosted) Operands() (inputs, outputs IDs) { return n.Inputs, n.Results }

// Shape implements [Operation].
func (n Hosted) Shape([][]int) []int { return n.Computed }

func (n Hosted) add(*xnnpack.Subgraph, func(ID) ID) error { return models.ErrStaged }

// hosted reports whether Go computes the step.
func (s *Step) hosted() bool { _, ok := s.Operation.(Hosted); return ok }

// Staged reports whether the part is more than one subgraph.
func (p Part) Staged() bool {
	return len(p.States) > 0 || slices.ContainsFunc(p.Steps, (*Step).hosted) ||
		slices.ContainsFunc(p.Inputs, p.InGo) || slices.ContainsFunc(p.Outputs, p.InGo)
}

// Whole returns the part as its only stage, if it is not Staged.
func (p Part) Whole() models.Stage {
	whole := models.Stage{Subgraph: p.Subgraph, Structure: p.Structure, Shapes: p.shapes()}
	for i := range p.Inputs {
		whole.Inputs = append(whole.Inputs, i)
	}
	for i := range p.Outputs {
		whole.Outputs = append(whole.Outputs, len(p.Inputs)+i)
	}
	return whole
}

// shapes returns the shapes of the inputs and outputs.
func (p Part) shapes() (shapes [][]int) {
	for _, id := range slices.Concat(p.Inputs, p.Outputs) {
		shapes = append(shapes, p.Bare(id).Shape)
	}
	return shapes
}

// Bytes returns the size of a value's content, which was checked.
func (p Part) Bytes(id ID) int {
	a := p.Array(id)
	return xnnpack.Elements(a.Shape) * a.Element.Size()
}

// Stages returns subgraphs, as few as can be, and what Go computes between them, if the part is Staged. See
// [models.Staged].
func (p Part) Stages() (stages []models.Stage, between []models.Buffer) {
	if !p.Staged() {
		return nil, nil
	}
	if p.Constants == nil {
		p.Constants = &Constants{}
	}
	s := &stager{Part: p, buffers: map[ID]int{}, readers: map[ID][]int{}, fixed: map[ID]bool{}}
	for i, step := range p.Steps {
		read := step.reads()
		for k, id := range read {
			if !p.constant(id) && !slices.Contains(read[:k], id) {
				s.readers[id] = append(s.readers[id], i)
			}
		}
	}
	for i, id := range p.Inputs {
		s.buffers[id] = i
	}
	for i, id := range p.Outputs {
		if _, ok := s.buffers[id]; !ok && !p.constant(id) {
			s.buffers[id] = len(p.Inputs) + i
		}
	}
	for _, state := range p.States {
		b := s.buffer(state.Value)
		s.between[b-len(p.Inputs)-len(p.Outputs)].Initial = state.Initial
		if s.updatesInPlace(state) {
			s.buffers[state.Next] = b
		}
	}
	s.group(s.schedule())
	for i, id := range p.Outputs {
		if dst := len(p.Inputs) + i; p.constant(id) || s.buffers[id] != dst {
			s.copied(id, dst)
		}
	}
	for _, state := range p.States {
		if b := s.buffer(state.Value); s.constant(state.Next) || s.buffer(state.Next) != b {
			s.copied(state.Next, b)
		}
	}
	return s.stages, share(s.stages, s.between, len(p.Inputs)+len(p.Outputs))
}

// stager makes the stages of a part.
type stager struct {
	Part
	readers map[ID][]int // the steps that read each value, each once
	buffers map[ID]int   // of values
	fixed   map[ID]bool  // values that are the same in each run
	between []models.Buffer
	stages  []models.Stage
}

// updatesInPlace reports whether a state can become the next one in its own memory: the only step that reads it changes
// some places of it.
func (s *stager) updatesInPlace(state State) bool {
	readers := s.readers[state.Value]
	if _, elsewhere := s.buffers[state.Next]; elsewhere || len(readers) != 1 {
		return false
	}
	op, ok := s.Steps[readers[0]].Operation.(Hosted)
	return ok && op.Updates && op.Inputs[0] == state.Value && !slices.Contains(op.Inputs[1:], state.Value) &&
		op.Results[0] == state.Next
}

// schedule returns the steps in groups, each after the steps that it needs: one step that Go computes, or as many as
// XNNPACK can compute in one subgraph, on the same conditions.
func (s *stager) schedule() (groups [][]int) {
	waits := make([]int, len(s.Steps))
	for _, steps := range s.readers {
		for _, i := range steps {
			waits[i]++
		}
	}
	inputs := slices.Clone(s.Inputs)
	for _, state := range s.States {
		inputs = append(inputs, state.Value)
	}
	for _, id := range inputs {
		for _, i := range s.readers[id] {
			waits[i]--
		}
	}
	var inGo, nodes []int
	ready := func(i int) {
		if s.Steps[i].hosted() {
			inGo = append(inGo, i)
		} else {
			nodes = append(nodes, i)
		}
	}
	done := func(i int) {
		_, computed := s.Steps[i].Operands()
		for _, id := range computed {
			for _, reader := range s.readers[id] {
				if waits[reader]--; waits[reader] == 0 {
					ready(reader)
				}
			}
		}
	}
	for i, n := range waits {
		if n == 0 {
			ready(i)
		}
	}
	for len(inGo)+len(nodes) > 0 {
		for len(inGo) > 0 {
			i := inGo[0]
			inGo = inGo[1:]
			groups = append(groups, []int{i})
			done(i)
		}
		var group, others []int
		for k := 0; k < len(nodes); k++ {
			if !slices.Equal(s.Steps[nodes[k]].Guards, s.Steps[nodes[0]].Guards) {
				others = append(others, nodes[k])
				continue
			}
			group = append(group, nodes[k])
			done(nodes[k])
		}
		if nodes = others; len(group) > 0 {
			slices.Sort(group)
			groups = append(groups, group)
		}
	}
	return groups
}

// group makes the stages of groups of steps.
func (s *stager) group(groups [][]int) {
	groupOf := make([]int, len(s.Steps))
	for g, steps := range groups {
		for _, i := range steps {
			groupOf[i] = g
		}
	}
	for g, steps := range groups {
		segment := Part{Values: s.Values, Name: s.Name, Constants: s.Constants}
		seen := map[ID]bool{}
		for _, i := range steps {
			segment.Steps = append(segment.Steps, s.Steps[i])
			_, computed := s.Steps[i].Operands()
			for _, id := range computed {
				seen[id] = true
				leaves := func(reader int) bool { return groupOf[reader] != g }
				stays := func(state State) bool { return state.Next == id }
				if segment.Steps[0].hosted() || slices.Contains(s.Outputs, id) ||
					slices.ContainsFunc(s.readers[id], leaves) || slices.ContainsFunc(s.States, stays) {
					segment.Outputs = append(segment.Outputs, id)
				}
			}
		}
		for _, step := range segment.Steps {
			read, _ := step.Operands()
			for _, id := range read {
				if !seen[id] && !s.constant(id) {
					seen[id] = true
					segment.Inputs = append(segment.Inputs, id)
				}
			}
		}
		s.add(segment)
	}
}

// add adds the stage of one step in Go, or of the nodes of a subgraph.
func (s *stager) add(segment Part) {
	stage := models.Stage{}
	for _, id := range segment.Inputs {
		stage.Inputs = append(stage.Inputs, s.buffer(id))
	}
	for _, id := range segment.Outputs {
		stage.Outputs = append(stage.Outputs, s.buffer(id))
	}
	first := segment.Steps[0]
	for _, g := range first.Guards {
		stage.Guards = append(stage.Guards, models.Guard{Buffer: s.buffer(g.Value), Holds: g.Holds})
	}
	if op, ok := first.Operation.(Hosted); ok {
		stage.Compute = segment.computation(first, op, s.settled(op))
		stage.Updates = op.Updates && !s.constant(op.Inputs[0]) && !slices.Contains(op.Inputs[1:], op.Inputs[0])
	} else {
		stage.Subgraph, stage.Structure, stage.Shapes = segment.Subgraph, segment.Structure, segment.shapes()
	}
	s.stages = append(s.stages, stage)
}

// mostSettled is the largest size of results, in bytes, that are kept of one step.
const mostSettled = 16 << 20

// settled reports whether a step in Go has the same results in each run: it reads nothing but constants, or results of
// such steps.
func (s *stager) settled(op Hosted) bool {
	size := 0
	for _, id := range op.Results {
		size += s.Bytes(id)
	}
	reads := func(id ID) bool { return !s.constant(id) && !s.fixed[id] }
	if size > mostSettled || slices.ContainsFunc(op.Inputs, reads) {
		return false
	}
	for _, id := range op.Results {
		s.fixed[id] = true
	}
	return true
}

// buffer returns the buffer of a value.
func (s *stager) buffer(id ID) int {
	b, ok := s.buffers[id]
	if !ok {
		b = len(s.Inputs) + len(s.Outputs) + len(s.between)
		s.buffers[id] = b
		s.between = append(s.between, models.Buffer{Size: s.Bytes(id)})
	}
	return b
}

// copied adds a stage for a state, or an output that is an input, a constant, or given twice.
func (s *stager) copied(id ID, dst int) {
	stage := models.Stage{Outputs: []int{dst}}
	if p := s.Part; p.constant(id) {
		stage.Compute = func(_, outputs [][]byte) error { return p.WriteContent(outputs[0], id) }
	} else {
		stage.Inputs = []int{s.buffer(id)}
		stage.Compute = func(inputs, outputs [][]byte) error { copy(outputs[0], inputs[0]); return nil }
	}
	s.stages = append(s.stages, stage)
}

// WriteContent writes the content of a constant.
func (p Part) WriteContent(dst []byte, id ID) error {
	return fault.Try(func() { p.View(func() { copy(dst, p.Content(id)) }) })
}

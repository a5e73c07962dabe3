// Package staging divides what a model computes into stages ([models.Stage]): subgraphs of XNNPACK, as few as can be,
// and what Go computes between them.
package staging

import (
	"slices"

	"xpwc/models"
	"xpwc/xnnpack"
)

// A Step computes values from others. Constants are none of them.
type Step struct {
	Inputs, Outputs []xnnpack.ValueID
	// Compute computes Outputs from Inputs; it is nil of what XNNPACK computes.
	Compute func(inputs, outputs [][]byte) error
}

// A Model is what is to be divided.
type Model struct {
	Inputs, Outputs []xnnpack.ValueID
	Steps           []Step // each after those whose values it needs
	// Size returns the size of a value in bytes.
	Size func(value xnnpack.ValueID) int
	// Constant returns what writes a value that is a constant, and nil of any other.
	Constant func(value xnnpack.ValueID) func(dst []byte) error
	// States are kept from one inference to the next.
	States []State
	// Subgraph makes the subgraph of some steps, by number, with these inputs and after them outputs.
	Subgraph func(steps []int, inputs, outputs []xnnpack.ValueID, l models.Loader) (*xnnpack.Subgraph, error)
}

// A State is a value that is there when an inference begins, and becomes another one when it ends.
type State struct {
	Value, Next xnnpack.ValueID
	Initial     func(dst []byte) error
}

// stager makes the stages of a model.
type stager struct {
	*Model
	buffers map[xnnpack.ValueID]int // of values
	between []models.Buffer
	stages  []models.Stage
}

// Stages returns the stages and the sizes of the buffers between them, as [models.Staged] says.
func (m *Model) Stages() (stages []models.Stage, between []models.Buffer) {
	s := &stager{Model: m, buffers: map[xnnpack.ValueID]int{}}
	for i, n := range m.Inputs {
		s.buffers[n] = i
	}
	for i, n := range m.Outputs {
		if _, known := s.buffers[n]; !known && m.Constant(n) == nil {
			s.buffers[n] = len(m.Inputs) + i
		}
	}
	for _, state := range m.States {
		s.between[s.buffer(state.Value)-len(m.Inputs)-len(m.Outputs)].Initial = state.Initial
	}
	s.group(m.schedule())
	for i, n := range m.Outputs {
		if to := len(m.Inputs) + i; m.Constant(n) != nil || s.buffers[n] != to {
			s.copied(n, to)
		}
	}
	for _, state := range m.States {
		s.copied(state.Next, s.buffer(state.Value))
	}
	return s.stages, s.between
}

// schedule returns the steps in groups, each after those that it needs: one step that Go computes, or as many as
// XNNPACK can compute in one subgraph.
func (m *Model) schedule() (groups [][]int) {
	readers, waits := m.readers(), make([]int, len(m.Steps))
	for _, steps := range readers {
		for _, i := range steps {
			waits[i]++
		}
	}
	given := slices.Clone(m.Inputs)
	for _, state := range m.States {
		given = append(given, state.Value)
	}
	for _, n := range given {
		for _, i := range readers[n] {
			waits[i]--
		}
	}
	var inGo, nodes []int
	ready := func(i int) {
		if m.Steps[i].Compute != nil {
			inGo = append(inGo, i)
		} else {
			nodes = append(nodes, i)
		}
	}
	done := func(i int) {
		for _, n := range m.Steps[i].Outputs {
			for _, reader := range readers[n] {
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
		for k := 0; k < len(nodes); k++ {
			done(nodes[k])
		}
		if len(nodes) > 0 {
			slices.Sort(nodes)
			groups, nodes = append(groups, nodes), nil
		}
	}
	return groups
}

// readers returns the steps that read each value, each once.
func (m *Model) readers() map[xnnpack.ValueID][]int {
	out := map[xnnpack.ValueID][]int{}
	for i, s := range m.Steps {
		for k, n := range s.Inputs {
			if !slices.Contains(s.Inputs[:k], n) {
				out[n] = append(out[n], i)
			}
		}
	}
	return out
}

// group makes the stages of groups of steps.
func (s *stager) group(groups [][]int) {
	of := make([]int, len(s.Steps))
	for g, steps := range groups {
		for _, i := range steps {
			of[i] = g
		}
	}
	readers := s.readers()
	for g, steps := range groups {
		if first := &s.Steps[steps[0]]; first.Compute != nil {
			s.add(models.Stage{Compute: first.Compute}, first.Inputs, first.Outputs)
			continue
		}
		var inputs, outputs []xnnpack.ValueID
		seen := map[xnnpack.ValueID]bool{}
		for _, i := range steps {
			for _, n := range s.Steps[i].Outputs {
				seen[n] = true
				leaves := func(reader int) bool { return of[reader] != g }
				stays := func(state State) bool { return state.Next == n }
				if slices.Contains(s.Outputs, n) || slices.ContainsFunc(readers[n], leaves) ||
					slices.ContainsFunc(s.States, stays) {
					outputs = append(outputs, n)
				}
			}
		}
		for _, i := range steps {
			for _, n := range s.Steps[i].Inputs {
				if !seen[n] {
					seen[n] = true
					inputs = append(inputs, n)
				}
			}
		}
		subgraph := func(l models.Loader) (*xnnpack.Subgraph, error) { return s.Subgraph(steps, inputs, outputs, l) }
		s.add(models.Stage{Subgraph: subgraph}, inputs, outputs)
	}
}

func (s *stager) add(stage models.Stage, inputs, outputs []xnnpack.ValueID) {
	for _, n := range inputs {
		stage.Inputs = append(stage.Inputs, s.buffer(n))
	}
	for _, n := range outputs {
		stage.Outputs = append(stage.Outputs, s.buffer(n))
	}
	s.stages = append(s.stages, stage)
}

// buffer returns the buffer of a value.
func (s *stager) buffer(n xnnpack.ValueID) int {
	b, known := s.buffers[n]
	if !known {
		b = len(s.Inputs) + len(s.Outputs) + len(s.between)
		s.buffers[n] = b
		s.between = append(s.between, models.Buffer{Size: s.Size(n)})
	}
	return b
}

// copied adds a stage for a state, or an output that is an input, a constant, or given twice.
func (s *stager) copied(n xnnpack.ValueID, to int) {
	stage := models.Stage{Outputs: []int{to}}
	if write := s.Constant(n); write != nil {
		stage.Compute = func(_, outputs [][]byte) error { return write(outputs[0]) }
	} else {
		stage.Inputs = []int{s.buffer(n)}
		stage.Compute = func(inputs, outputs [][]byte) error { copy(outputs[0], inputs[0]); return nil }
	}
	s.stages = append(s.stages, stage)
}

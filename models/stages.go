package models

import (
	"errors"
	"slices"

	"xpwc/xnnpack"
)

// ErrStaged is matched by the error of Subgraph of a model that is more than one: a [Staged] one.
var ErrStaged = errors.New("the model is more than one subgraph: run it with package inference, or by its stages")

// A Staged model may have operators that XNNPACK does not have. Then it computes in stages, one after the other, and
// has no Subgraph of all of it. All runtimes made of it can share a cache, with a session for each.
type Staged interface {
	Model
	// Stages returns the stages and the buffers between them. The stages are nil if Subgraph makes all of the model.
	Stages() (stages []Stage, between []Buffer)
}

// A Buffer lies between stages.
type Buffer struct {
	Size int // in bytes
	// Initial writes what a state begins with: a buffer whose content stays from one inference to the next. It is nil
	// of any other.
	Initial func(dst []byte) error
}

// A Stage computes some values from others. They are named by their buffers: first the model's inputs, then
// its outputs, then buffers between stages.
type Stage struct {
	Inputs, Outputs []int
	// Subgraph makes the stage's subgraph, as [Model.Subgraph] does. Its external values are Inputs and, after them,
	// Outputs. It is nil if Compute is not.
	Subgraph func(Loader) (*xnnpack.Subgraph, error)
	// Shapes are those of Inputs, and after them of Outputs, in a stage with a Subgraph of a [Resizable] model.
	Shapes [][]int
	// Structure returns what a Subgraph is apart from its shapes. A runtime of a subgraph of equal structure computes
	// the stage once its inputs are reshaped. It is nil in a model that is not [Resizable].
	Structure func() string
	// Compute computes the stage in Go. It may be called while no other stage of the same buffers is. The error tells
	// what of the inputs is wrong, for instance that a token is not in the vocabulary.
	Compute func(inputs, outputs [][]byte) error
	// Updates reports that the only output is the first input with other elements in some places. Compute writes these
	// places alone if both are given the same memory.
	Updates bool
	// Guards are conditions that decide whether the stage is computed: all of them must hold, the outermost first. The
	// outputs of a stage that is not computed are undefined, and no stage that is computed needs them.
	Guards []Guard
}

// A Guard is a condition on which a [Stage] is computed: the first byte of a buffer, which an earlier stage in Go
// computes or which is an input, is 1 if Holds, and 0 if not.
type Guard struct {
	Buffer int
	Holds  bool
}

// StagesOf returns the stages of any model: if it is one subgraph, that is the only one.
func StagesOf(m Model) (stages []Stage, between []Buffer) {
	if s, ok := m.(Staged); ok {
		if stages, between = s.Stages(); stages != nil {
			return stages, between
		}
	}
	whole := Stage{Subgraph: m.Subgraph}
	for i := range m.Inputs() {
		whole.Inputs = append(whole.Inputs, i)
	}
	for i := range m.Outputs() {
		whole.Outputs = append(whole.Outputs, len(whole.Inputs)+i)
	}
	return []Stage{whole}, nil
}

// InPlace reports whether an output may lie in the memory of an input, both named as stages name buffers: the stages
// then change some places of it, and copy nothing.
func InPlace(stages []Stage, input, output int) bool {
	writer := slices.IndexFunc(stages, func(s Stage) bool { return slices.Contains(s.Outputs, output) })
	if writer < 0 || !stages[writer].Updates || stages[writer].Inputs[0] != input {
		return false
	}
	return !slices.ContainsFunc(stages[writer+1:], func(s Stage) bool {
		return slices.Contains(s.Inputs, input) || slices.Contains(s.Outputs, output)
	})
}

// SubgraphsOf returns what makes the subgraphs of any model, for [Pack]: of all stages.
func SubgraphsOf(m Model) (loads []func(Loader) (*xnnpack.Subgraph, error)) {
	stages, _ := StagesOf(m)
	for _, s := range stages {
		if s.Subgraph != nil {
			loads = append(loads, s.Subgraph)
		}
	}
	return loads
}

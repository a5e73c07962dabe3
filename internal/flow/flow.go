// Package flow is what a reader of models makes of a model before XNNPACK sees it: steps between values that have
// numbers. A step is a node of package xnnpack, or what Go computes. Of a part of a flow it makes a subgraph, or stages
// where Go computes something.
package flow

import (
	"slices"
	"sync"

	"xpwc"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

type (
	// ID is the number of a value.
	ID = xnnpack.ValueID
	// IDs are several.
	IDs = []xnnpack.ValueID
	// An Array is a value that Go computes with.
	Array = operators.Array
)

// Values are the values of a flow. A method that cannot return its result ends the work with a fault (package fault).
type Values interface {
	// Tensor describes a value for XNNPACK: with scales, and without content. It is not called within View.
	Tensor(ID) xnnpack.Tensor
	// Bare is Tensor without the scales that lie in a file. It is no fault.
	Bare(ID) xnnpack.Tensor
	// Array describes a value for Go, without content.
	Array(ID) Array
	// InGo reports whether XNNPACK has no such values.
	InGo(ID) bool
	// Constant returns the name by which a loader has the content of a value, and whether it has any.
	Constant(ID) (name string, ok bool)
	// Content returns the content as XNNPACK sees it. It may be longer, and may only be read within View.
	Content(ID) []byte
	// View calls do, until whose end no file is closed.
	View(do func())
}

// A Step is one of a flow.
type Step struct {
	Name string // what errors call it
	Operation
	Guards []Guard // the step is computed if all of them hold, the outermost first
}

// A Guard is a condition on which a step is computed. Value is a boolean that Go computes, of one element.
type Guard struct {
	Value ID
	Holds bool // what the value must be
}

// reads returns the values that must be there before the step: its inputs, and those of its guards.
func (s *Step) reads() IDs {
	inputs, _ := s.Operands()
	if len(s.Guards) == 0 {
		return inputs
	}
	reads := slices.Clone(inputs)
	for _, g := range s.Guards {
		reads = append(reads, g.Value)
	}
	return reads
}

// A State is a value that is there when an inference begins, and becomes another one when it ends.
type State struct {
	Value, Next ID
	Initial     func(dst []byte) error
}

// A Part is some steps of a flow, each after the steps whose values it reads, with their inputs and outputs.
type Part struct {
	Values
	Name            string // of the file, which errors begin with; none if it is ""
	Steps           []*Step
	Inputs, Outputs IDs
	States          []State
	Constants       *Constants // that Go reads at a run
}

// Constants keeps the constants that Go reads at a run, and what it computes of constants alone, so that both are
// computed once for all runs and instances. It has no constant that only XNNPACK reads.
type Constants struct{ contents sync.Map }

// Content returns what was computed for a key first.
func (c *Constants) Content(key any, compute func() []byte) []byte {
	if content, ok := c.contents.Load(key); ok {
		return content.([]byte)
	}
	content, _ := c.contents.LoadOrStore(key, compute())
	return content.([]byte)
}

// Pruned returns the part without the steps whose results nothing needs: XNNPACK may end the process when it finds one.
func (p Part) Pruned() Part {
	used := map[ID]bool{}
	for _, id := range p.Outputs {
		used[id] = true
	}
	for _, s := range p.States {
		used[s.Next] = true
	}
	var steps []*Step
	for _, s := range slices.Backward(p.Steps) {
		_, outputs := s.Operands()
		if !slices.ContainsFunc(outputs, func(id ID) bool { return used[id] }) {
			continue
		}
		steps = append(steps, s)
		for _, in := range s.reads() {
			used[in] = true
		}
	}
	slices.Reverse(steps)
	p.Steps = steps
	return p
}

// constant reports whether a value has a content.
func (p Part) constant(id ID) bool { _, ok := p.Constant(id); return ok }

// Packs reports whether a node packs weights: whether its kernel is a constant.
func (p Part) Packs(op Operation) bool {
	n, ok := op.(Node)
	if !ok || !n.Weighs() {
		return false
	}
	kernel, _ := n.Weights()
	return p.constant(kernel)
}

// A Use is how XNNPACK reads a constant. It decides when the content must be there and how long it must stay.
type Use uint8

// The ways to use a constant.
const (
	// Packed by an operator that looks into the weights cache first, so read only if it misses there.
	Packed Use = 1 << iota
	// PackedBlind: by an operator that does not look up first, or without being named in the key.
	PackedBlind
	// AtInference: read each time.
	AtInference
)

// EachUse calls do for each constant that a step reads.
func (p Part) EachUse(s *Step, do func(id ID, use Use)) {
	inputs, _ := s.Operands()
	for k, in := range inputs {
		if !p.constant(in) {
			continue
		}
		use := AtInference
		if k > 0 && p.Packs(s.Operation) {
			n := s.Operation.(Node)
			hidden := k == 2 && p.Bare(inputs[0]).Type == xnnpack.DynamicQInt8
			switch _, multiplied := n.N.(xnnpack.BatchMatrixMultiply); {
			case multiplied: // it depends on its type whether it is packed
				use |= PackedBlind
			case hidden || !n.LooksUp(p.Bare(inputs[1]).Shape) || p.Bare(in).Type == xnnpack.Float16:
				use = PackedBlind
			default:
				use = Packed
			}
		}
		do(in, use)
	}
}

// Uses returns how XNNPACK uses each constant, by name, and all values that are constants which it reads, in the order
// in which it does. Those that are outputs are read at inference.
func (p Part) Uses() (uses map[string]Use, read IDs) {
	uses = map[string]Use{}
	add := func(id ID, use Use) {
		if name, ok := p.Constant(id); ok {
			uses[name] |= use
			read = append(read, id)
		}
	}
	for _, s := range p.Steps {
		if !s.hosted() {
			p.EachUse(s, add)
		}
	}
	for _, id := range p.Outputs {
		add(id, AtInference)
	}
	return uses, read
}

// options returns the options to load a constant with this use.
func (u Use) options() []xpwc.LoadOption {
	var options []xpwc.LoadOption
	if u&(PackedBlind|AtInference) != 0 {
		options = append(options, xpwc.Eager())
	}
	if u&AtInference != 0 {
		return append(options, xpwc.Retain())
	}
	return append(options, xpwc.PackOnly())
}

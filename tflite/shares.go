package tflite

import (
	"slices"

	"xpwc/internal/divide"
	"xpwc/xnnpack"
)

// A Share is some of a model's operators with packed weights, cut out of its graph. A runtime made of it packs their weights and
// nothing else, and asks a weights cache for just the keys that a runtime of the whole model asks it for. It is for packing ahead of
// time, with a runtime and a goroutine for each share; what is computed between the operators is missing, so it is not to be executed.
type Share struct {
	model *Model
	plan  *plan
	size  int64
}

// Shares divides the operators with packed weights among n shares of about the same number of bytes, or fewer if there are fewer
// operators. Operators that pack the same kernel come into one share, so that its runtime sees, as that of the whole model would,
// whether they pack it alike. The largest share is the first. There is none if the model has no such operators.
func (m *Model) Shares(n int) []Share {
	groups := m.plan.weighted()
	sizes := make([]int64, len(groups))
	for i, g := range groups {
		sizes[i] = g.size
	}
	var shares []Share
	for _, part := range divide.Evenly(sizes, n) {
		s := Share{model: m}
		var steps []int
		for _, i := range part {
			steps = append(steps, groups[i].steps...)
			s.size += groups[i].size
		}
		s.plan = m.plan.cut(steps)
		shares = append(shares, s)
	}
	return shares
}

// Bytes returns the size of the unpacked weights, as XNNPACK sees them: those in half precision are counted widened. A bias that
// several operators add counts for each.
func (s Share) Bytes() int64 { return s.size }

// Subgraph makes a new subgraph of the share, as [Model.Subgraph] does of the model: it loads the weights under the same names with
// the same options. What the operators compute from and what they compute are external values, from 0.
func (s Share) Subgraph(l Loader) (*xnnpack.Subgraph, error) { return s.model.subgraph(s.plan, l) }

// A group is steps that belong together, by their positions in the plan.
type group struct {
	steps []int
	size  int64
}

// weighted groups the steps with packed weights by their kernels.
func (p *plan) weighted() []*group {
	var groups []*group
	of := map[*constant]*group{}
	for i, s := range p.steps {
		var kernel *constant
		var size int64
		for _, u := range s.uses {
			if u.how&(usePacked|usePackedBlind) == 0 {
				continue
			}
			if len(u.constant.shape) > 1 { // a bias has one dimension, and any number of operators may share one of zeros
				kernel = u.constant
			}
			size += int64(u.constant.size)
		}
		switch g := of[kernel]; {
		case kernel == nil:
		case g != nil:
			g.steps = append(g.steps, i)
			g.size += size - int64(kernel.size)
		default:
			of[kernel] = &group{steps: []int{i}, size: size}
			groups = append(groups, of[kernel])
		}
	}
	return groups
}

// cut makes a plan of some of the steps. Its inputs are what these read and none of them computes, its outputs what they compute.
func (p *plan) cut(steps []int) *plan {
	g := *p.graph
	g.inputs, g.outputs = nil, nil
	part := &plan{graph: &g, values: p.values}
	slices.Sort(steps)
	seen := map[int]bool{absent: true}
	for _, i := range steps {
		for _, t := range p.steps[i].op.outputs {
			seen[t] = true
			g.outputs = append(g.outputs, t)
		}
		part.steps = append(part.steps, p.steps[i])
	}
	for _, s := range part.steps {
		for _, t := range s.op.inputs {
			if !seen[t] && p.values[t].state == dynamic {
				seen[t] = true
				g.inputs = append(g.inputs, t)
			}
		}
	}
	return part
}

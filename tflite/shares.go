package tflite

import (
	"slices"

	"xpwc/internal/divide"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Shares divides the operators with packed weights, cut out of the graph, as [models.Model] says. Operators that pack
// the same kernel come into one share, so that its runtime sees, as that of the whole model would, whether they pack
// it alike. Weights in half precision count widened, and a bias that several operators add counts for each.
func (m *Model) Shares(n int) []models.Share {
	return divide.Shares(m.plan.weighted(), n, func(steps []int) func(models.Loader) (*xnnpack.Subgraph, error) {
		cut := m.plan.cut(steps)
		return func(l models.Loader) (*xnnpack.Subgraph, error) { return m.subgraph(cut, l) }
	})
}

// weighted groups the steps with packed weights by their kernels.
func (p *plan) weighted() []*divide.Group {
	var groups []*divide.Group
	of := map[string]*divide.Group{} // by the kernel's name
	for i, s := range p.steps {
		var kernel *constant
		var size int64
		for _, u := range s.uses {
			if u.how&(usePacked|usePackedBlind) == 0 {
				continue
			}
			// A bias has one dimension, and any number of operators may share one of zeros.
			if len(u.constant.shape) > 1 {
				kernel = u.constant
			}
			size += int64(u.constant.size)
		}
		if kernel == nil {
			continue
		}
		switch g := of[kernel.name]; {
		case g != nil:
			g.Steps = append(g.Steps, i)
			g.Bytes += size - int64(kernel.size)
		default:
			of[kernel.name] = &divide.Group{Steps: []int{i}, Bytes: size}
			groups = append(groups, of[kernel.name])
		}
	}
	return groups
}

// cut makes a plan of some of the steps. Its inputs are what these read and none of them computes, its outputs what
// they compute.
func (p *plan) cut(steps []int) *plan {
	slices.Sort(steps)
	var inputs, outputs []int
	seen := map[int]bool{}
	for _, i := range steps {
		for _, t := range p.steps[i].op.outputs {
			seen[t] = true
			outputs = append(outputs, t)
		}
	}
	for _, i := range steps {
		for _, t := range p.dynamic(&p.steps[i]) {
			if !seen[t] {
				seen[t] = true
				inputs = append(inputs, t)
			}
		}
	}
	return p.part(steps, inputs, outputs)
}

// part makes a plan of some of the steps, with these inputs and outputs.
func (p *plan) part(steps, inputs, outputs []int) *plan {
	g := *p.graph
	g.inputs, g.outputs = inputs, outputs
	part := &plan{graph: &g, values: p.values}
	for _, i := range steps {
		part.steps = append(part.steps, p.steps[i])
	}
	return part
}

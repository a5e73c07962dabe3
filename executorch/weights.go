package executorch

import (
	"maps"
	"slices"

	"xpwc/models"
	"xpwc/xnnpack"
)

// Weights returns what makes subgraphs whose runtimes, one after the other, pack all weights of the program, for
// [models.Pack]. Those of a method that can be run are the method's own. Of other methods, and of nodes whose results
// no output needs, ExecuTorch packs the weights too: these nodes are cut out, without what is computed between them.
// Only what no method before has packed alike is packed.
func (p *Program) Weights() (all []func(models.Loader) (*xnnpack.Subgraph, error)) {
	for _, m := range p.methods {
		steps := m.all.packing()
		if m.fault == nil {
			all = append(all, models.SubgraphsOf(m)...)
			packed := map[int]bool{}
			for _, i := range m.whole.steps {
				packed[i] = true
			}
			steps = slices.DeleteFunc(steps, func(i int) bool { return packed[i] })
		}
		if len(steps) > 0 {
			cut := p.plan.cut(steps)
			all = append(all, func(l models.Loader) (*xnnpack.Subgraph, error) { return p.subgraph(cut, l) })
		}
	}
	return all
}

// WeightBytes returns the bytes of the kernels and biases that the program's methods pack.
func (p *Program) WeightBytes() int64 { return p.plan.all().weightBytes() }

// WeightBytes returns the bytes of the kernels and biases that the method packs.
func (m *Method) WeightBytes() int64 { return m.whole.weightBytes() }

// all is everything of the plan.
func (p *plan) all() part {
	all := part{plan: p}
	for i := range p.steps {
		all.steps = append(all.steps, i)
	}
	return all
}

// weightBytes counts each constant once.
func (p part) weightBytes() (n int64) {
	counted := map[string]bool{}
	for _, i := range p.packing() {
		p.use(&p.plan.steps[i], func(c *constant, how use) {
			if how&(usePacked|usePackedBlind) != 0 && !counted[c.name] {
				counted[c.name] = true
				n += c.at.Size
			}
		})
	}
	return n
}

// packing returns the steps that pack a kernel.
func (p part) packing() (steps []int) {
	for _, i := range p.steps {
		if w, ok := p.plan.steps[i].operation.(weighted); ok {
			if kernel, _ := w.weights(); p.values[kernel].constant != nil {
				steps = append(steps, i)
			}
		}
	}
	return steps
}

// cut makes a part of some steps, and of those that quantise what they read, whose output cannot leave a subgraph.
// Its inputs are what these read and none of them computes, its outputs what they compute.
func (p *plan) cut(steps []int) part {
	quantised := map[xnnpack.ValueID]int{}
	for i := range p.steps {
		if _, out := p.steps[i].operands(); p.values[out].tensor.Type == xnnpack.DynamicQInt8 {
			quantised[out] = i
		}
	}
	all := map[int]bool{}
	for _, i := range steps {
		all[i] = true
		inputs, _ := p.steps[i].operands()
		for _, in := range inputs {
			if by, ok := quantised[in]; ok {
				all[by] = true
			}
		}
	}
	c := part{plan: p, steps: slices.Sorted(maps.Keys(all))}
	seen := map[xnnpack.ValueID]bool{}
	for _, i := range c.steps {
		_, out := p.steps[i].operands()
		seen[out] = true
		if _, inside := quantised[out]; !inside {
			c.outputs = append(c.outputs, int(out))
		}
	}
	for _, i := range c.steps {
		inputs, _ := p.steps[i].operands()
		for _, in := range inputs {
			if !seen[in] && p.values[in].constant == nil {
				seen[in] = true
				c.inputs = append(c.inputs, int(in))
			}
		}
	}
	return c
}

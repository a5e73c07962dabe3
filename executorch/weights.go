package executorch

import (
	"slices"

	"xpwc/internal/flow"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Weights returns what makes subgraphs whose runtimes, one after the other, pack all weights of the program, for
// [models.Pack]. Those of a method that can be run are the method's own. Of other methods, and of nodes whose results
// no output needs, ExecuTorch packs the weights too: these nodes alone are made, without what is computed between them.
// Only what no method before has packed alike is packed.
func (p *Program) Weights() (all []func(models.Loader) (*xnnpack.Subgraph, error)) {
	for _, m := range p.methods {
		steps := packing(m.all)
		if m.fault == nil {
			all = append(all, models.SubgraphsOf(m)...)
			packed := map[*flow.Step]bool{}
			for _, s := range m.whole.Steps {
				packed[s] = true
			}
			steps = slices.DeleteFunc(steps, func(s *flow.Step) bool { return packed[s] })
		}
		if len(steps) > 0 {
			all = append(all, func(l models.Loader) (*xnnpack.Subgraph, error) { return p.packed(steps, l) })
		}
	}
	return all
}

// WeightBytes returns the bytes of the kernels and biases that the program's methods pack.
func (p *Program) WeightBytes() int64 { return p.plan.weightBytes(p.plan.all()) }

// WeightBytes returns the bytes of the kernels and biases that the method packs.
func (m *Method) WeightBytes() int64 { return m.program.plan.weightBytes(m.whole) }

// all is everything of the plan.
func (p *plan) all() flow.Part { return flow.Part{Values: p, Steps: p.steps} }

// weightBytes counts each constant once.
func (p *plan) weightBytes(of flow.Part) (n int64) {
	counted := map[string]bool{}
	for _, s := range packing(of) {
		of.EachUse(s, func(id xnnpack.ValueID, how flow.Use) {
			c := p.values[id].constant
			if how&(flow.Packed|flow.PackedBlind) != 0 && !counted[c.name] {
				counted[c.name] = true
				n += c.at.Size
			}
		})
	}
	return n
}

// packing returns the steps that pack a kernel.
func packing(of flow.Part) []*flow.Step {
	return slices.DeleteFunc(slices.Clone(of.Steps), func(s *flow.Step) bool { return !of.Packs(s.Operation) })
}

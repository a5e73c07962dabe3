package executorch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"xpwc/internal/divide"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Shares divides the nodes with packed weights of all methods among n shares, as [models.Model] says of one. What
// several methods pack alike is in one of the shares; where they pack a kernel differently there are more shares than
// n, since one session must not see both. The methods need not be runnable, and weights whose results no method uses
// are packed too, as ExecuTorch packs them.
func (p *Program) Shares(n int) []models.Share {
	// Each round has a kernel only once.
	var rounds [][]*divide.Group
	known := map[string]bool{}
	of := map[string]int{}
	for _, m := range p.methods {
		for _, g := range m.all.weighted() {
			if signature := p.plan.signature(g.Steps); known[signature] {
				continue
			} else {
				known[signature] = true
			}
			round := of[g.Kernel]
			of[g.Kernel]++
			if round == len(rounds) {
				rounds = append(rounds, nil)
			}
			rounds[round] = append(rounds[round], g)
		}
	}
	var shares []models.Share
	for _, groups := range rounds {
		shares = append(shares, p.shares(groups, n)...)
	}
	slices.SortStableFunc(shares, func(a, b models.Share) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return shares
}

// Shares divides the nodes with packed weights among n shares, as [models.Model] says, also of a method that is not
// runnable. Nodes that pack the same kernel come into one share, so that its runtime sees, as that of the whole
// method would, whether they pack it alike. A bias that several nodes add counts for each.
func (m *Method) Shares(n int) []models.Share { return m.program.shares(m.whole.weighted(), n) }

func (p *Program) shares(groups []*divide.Group, n int) []models.Share {
	return divide.Shares(groups, n, func(steps []int) func(models.Loader) (*xnnpack.Subgraph, error) {
		cut := p.plan.cut(steps)
		return func(l models.Loader) (*xnnpack.Subgraph, error) { return p.subgraph(cut, l) }
	})
}

// weighted groups the steps with packed weights by their kernels, in the order of their first steps. The bytes are
// those of the kernel and of the biases.
func (p part) weighted() []*divide.Group {
	var groups []*divide.Group
	of := map[string]*divide.Group{}
	for _, i := range p.steps {
		w, ok := p.plan.steps[i].operation.(weighted)
		if !ok {
			continue
		}
		id, bias := w.weights()
		kernel := p.values[id].constant
		if kernel == nil {
			continue
		}
		g := of[kernel.name]
		if g == nil {
			g = &divide.Group{Kernel: kernel.name, Bytes: kernel.at.Size}
			of[kernel.name] = g
			groups = append(groups, g)
		}
		g.Steps = append(g.Steps, i)
		if bias != xnnpack.InvalidValue && p.values[bias].constant != nil {
			g.Bytes += p.values[bias].constant.at.Size
		}
	}
	return groups
}

// signature says what steps pack and how, for as much as the constants are known by their places.
func (p *plan) signature(steps []int) string {
	var parts []string
	for _, i := range steps {
		w := p.steps[i].operation.(weighted)
		id := packingOf(w, func(id xnnpack.ValueID) (t xnnpack.Tensor) {
			if id != xnnpack.InvalidValue {
				t = p.values[id].tensor
			}
			return t
		})
		of := []string{id.Digest().String()}
		kernel, bias := w.weights()
		for _, id := range []xnnpack.ValueID{kernel, bias} {
			if id != xnnpack.InvalidValue {
				v := &p.values[id]
				of = append(of, v.places())
			}
		}
		parts = append(parts, strings.Join(of, " "))
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), "\n")
}

// places says where a value's content and scales are.
func (v *value) places() string {
	var c, s stored
	if v.constant != nil {
		c = v.constant.stored
	}
	if v.scales != nil {
		s = *v.scales
	}
	return fmt.Sprint(c, s)
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

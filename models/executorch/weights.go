package executorch

import (
	"errors"
	"maps"
	"slices"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/models"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// Weights returns what makes subgraphs whose runtimes, one after the other, pack all weights of the program, for
// [models.Pack]: all of [Program.DelegateWeights], and of the methods that can be run here where these are
// others. Of several that pack alike only the first packs.
func (p *Program) Weights() []func(models.Loader) (*xnnpack.Subgraph, error) {
	loads := p.DelegateWeights()
	for _, m := range p.methods {
		if m.fault == nil && !m.isDelegate() {
			loads = append(loads, models.SubgraphsOf(m)...)
		}
	}
	return loads
}

// DelegateWeights returns what makes a subgraph of each delegate that packs weights, as the stock runtime does, for
// [models.Pack]. XNNPACK chooses how to pack a node by the nodes around it, so a subgraph of a whole method may pack
// otherwise. Of a delegate with nodes that package xnnpack does not have, and of nodes whose results no output needs,
// the nodes that pack are made alone.
func (p *Program) DelegateWeights() (loads []func(models.Loader) (*xnnpack.Subgraph, error)) {
	for _, m := range p.methods {
		for _, d := range m.stock {
			visited := map[*flow.Step]bool{}
			part := d.Pruned()
			if packs := packingSteps(part); d.complete && len(packs) > 0 {
				loads = append(loads, part.Subgraph)
				for _, s := range packs {
					visited[s] = true
				}
			}
			alone := slices.DeleteFunc(packingSteps(d.Part), func(s *flow.Step) bool { return visited[s] })
			if len(alone) > 0 {
				loads = append(loads, func(l models.Loader) (*xnnpack.Subgraph, error) { return p.packed(alone, l) })
			}
		}
	}
	return loads
}

// DelegateData returns the constants of [Program.DelegateWeights] as the stock runtime has them: it maps each constant
// with a name by itself, so that each keeps its name where several have one place in a file. It is for one goroutine.
func (p *Program) DelegateData() xpwc.DataMap { return separateNames{p.data, map[stored]string{}} }

// A PackedWeight identifies packed weights: by the names of kernel and bias in the data map, and by the digest of the
// packing identity. The bias is "" if there is none, or if the identity has its content.
type PackedWeight struct {
	Kernel, Bias string
	Packing      packing.Digest
}

// PackingDelegates returns the delegates that pack each weight, as digests of the bytes that ExecuTorch gives to its
// backend. These bytes and the named constants decide how the delegate packs. A weight is left out if its delegate has
// nodes that package xnnpack does not have, or packs the kernel in several ways: then the bytes do not show which
// packed weights a node uses. It is left out, too, if a node reads the kernel at inference: a host may free the kernels
// of the others.
func (p *Program) PackingDelegates() (map[PackedWeight][]xpwc.Digest, error) {
	delegates := map[PackedWeight][]xpwc.Digest{}
	for _, m := range p.methods {
		for _, d := range m.stock {
			if !d.complete {
				continue
			}
			var weights []PackedWeight
			packings := map[string]packing.Digest{} // by kernel
			several := map[string]bool{}
			read := p.inferenceReads(d)
			err := d.EachPacking(func(kernel, bias string, id packing.Identity) {
				if id.HiddenBias != nil {
					bias = ""
				}
				w := PackedWeight{kernel, bias, id.Digest()}
				first, ok := packings[kernel]
				several[kernel] = several[kernel] || ok && first != w.Packing
				packings[kernel] = w.Packing
				weights = append(weights, w)
			})
			if err != nil {
				return nil, err
			}
			var digest xpwc.Digest
			err = p.files.program().read(func(file []byte) { digest = xpwc.DigestOf(d.blob.In(file)) })
			if err != nil {
				return nil, err
			}
			for _, w := range weights {
				if !several[w.Kernel] && !read[w.Kernel] && !slices.Contains(delegates[w], digest) {
					delegates[w] = append(delegates[w], digest)
				}
			}
		}
	}
	return delegates, nil
}

// isDelegate reports whether the method computes what one delegate does, and nothing else.
func (m *Method) isDelegate() bool {
	return len(m.stock) == 1 && m.stock[0].complete && !m.whole.Staged() &&
		slices.Equal(m.whole.Steps, m.stock[0].Pruned().Steps)
}

// FreedConstants returns the names of constants that nodes of delegates read at inference, such as the slopes of a
// PReLU, in the order of the names. With any weights cache, the stock runtimes of [Releases] free all constants that
// have a name when the delegate is made, and crash when a node reads one of these.
func (p *Program) FreedConstants() []string {
	freed := map[string]bool{}
	for _, m := range p.methods {
		for _, d := range m.stock {
			maps.Copy(freed, p.inferenceReads(d))
		}
	}
	return slices.Sorted(maps.Keys(freed))
}

// inferenceReads returns the names of constants that nodes of a delegate read at inference.
func (p *Program) inferenceReads(d delegatePart) map[string]bool {
	names := map[string]bool{}
	for _, s := range d.Steps {
		d.EachUse(s, func(id xnnpack.ValueID, use flow.Use) {
			v := &p.plan.values[id]
			if v.internal && use&flow.AtInference != 0 && use&flow.PackedBlind == 0 && Named(v.constant.name) {
				names[v.constant.name] = true
			}
		})
	}
	return names
}

// WeightBytes returns the bytes of the kernels and biases that the program's methods pack.
func (p *Program) WeightBytes() int64 { return p.plan.weightBytes(p.plan.part()) }

// WeightBytes returns the bytes of the kernels and biases that the method packs.
func (m *Method) WeightBytes() int64 { return m.plan.weightBytes(m.whole) }

// part is everything of the plan.
func (p *plan) part() flow.Part { return flow.Part{Values: p, Steps: p.steps} }

// weightBytes counts each constant once.
func (p *plan) weightBytes(part flow.Part) (n int64) {
	counted := map[string]bool{}
	for _, s := range packingSteps(part) {
		part.EachUse(s, func(id xnnpack.ValueID, use flow.Use) {
			c := p.values[id].constant
			if use&(flow.Packed|flow.PackedBlind) != 0 && !counted[c.name] {
				counted[c.name] = true
				n += c.at.Size
			}
		})
	}
	return n
}

// packingSteps returns the steps that pack a kernel.
func packingSteps(part flow.Part) []*flow.Step {
	return slices.DeleteFunc(slices.Clone(part.Steps), func(s *flow.Step) bool { return !part.Packs(s.Operation) })
}

// addPacking appends a step that packs weights. What is packed does not depend on the shapes of its operands and
// computes. So it is also appended if these are not known, or contradict the weights, which is why the method cannot be
// run then.
func (p *planner) addPacking(name string, op flow.Node) {
	contradicts := fault.Try(func() { p.add(name, op) })
	if contradicts == nil {
		return
	}
	step, values := &flow.Step{Name: p.named(name), Operation: op}, len(p.plan.values)
	err := fault.Try(func() { p.plan.alone([]*flow.Step{step}) })
	p.plan.values = p.plan.values[:values]
	if err != nil && !errors.Is(contradicts, errNotComputed) {
		err = contradicts
	}
	fault.Check(err)
	p.plan.steps = append(p.plan.steps, step)
	p.notPlanned(name, contradicts)
}

// packed makes a subgraph that packs what some steps do, and computes nothing else.
func (p *Program) packed(steps []*flow.Step, l models.Loader) (*xnnpack.Subgraph, error) {
	values, part := &plan{files: p.files, values: slices.Clone(p.plan.values)}, flow.Part{}
	if err := fault.Try(func() { part = values.alone(steps) }); err != nil {
		return nil, err
	}
	return part.Subgraph(l)
}

// alone makes a part of nodes, each of which reads the least that it can, and adds the values for that.
func (p *plan) alone(steps []*flow.Step) flow.Part {
	part := flow.Part{Values: p, Name: p.files.program().Path()}
	checked(func() {
		for _, s := range steps {
			p.addAlone(&part, s.Name, s.Operation.(flow.Node))
		}
	})
	return part
}

func (p *plan) addAlone(part *flow.Part, name string, w flow.Node) {
	inputs, outputs := w.Operands()
	in, out := p.values[inputs[0]].tensor, p.values[outputs[0]].tensor
	for _, t := range []*xnnpack.Tensor{&in, &out} {
		if scales, _ := scaleCount(t); scales > 0 || p.values[outputs[0]].constant != nil {
			malformed("it computes with constants alone")
		}
	}
	in.Shape = w.Least(p.values[inputs[1]].tensor.Shape)
	for len(in.Shape) < in.Quantization.NonBatchDims && len(in.Shape) < xnnpack.MaxTensorDims {
		in.Shape = append([]int{1}, in.Shape...)
	}
	shapes := [][]int{in.Shape}
	for _, id := range inputs[1:] {
		shapes = append(shapes, p.values[id].tensor.Shape)
	}
	out.Shape = w.Shape(shapes)
	elements(out.Shape...)
	input, output := p.internal(in), p.internal(out)
	src := input
	if in.Type == xnnpack.DynamicQInt8 {
		in.Quantization, in.Type = xnnpack.Quantization{}, xnnpack.Float32
		if out.Type == xnnpack.Float16 {
			in.Type = xnnpack.Float16
		}
		src = p.internal(in)
		part.Steps = append(part.Steps, &flow.Step{Name: name, Operation: flow.Convert(src, input)})
	}
	alone := w.With(slices.Concat(flow.IDs{input}, inputs[1:], flow.IDs{output})...)
	part.Steps = append(part.Steps, &flow.Step{Name: name, Operation: alone})
	part.Inputs, part.Outputs = append(part.Inputs, src), append(part.Outputs, output)
}

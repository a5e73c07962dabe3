package executorch

import (
	"errors"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// addPacking appends a step that packs weights. What is packed does not depend on the shapes of what the step reads and
// computes. So if these are not known, or contradict the weights, it is packed between values of its own.
func (p *planner) addPacking(name string, op flow.Operation) error {
	contradicts := p.add(name, op)
	if contradicts == nil {
		return nil
	}
	err := fault.Try(func() {
		fault.Check(p.add(name, p.alone(op.(flow.Weighted))))
	})
	if err == nil {
		p.notPlanned(name, contradicts)
	} else if !errors.Is(contradicts, errNotComputed) {
		err = contradicts
	}
	return err
}

// alone returns a node that reads the least that it can, from a value of its own, and computes another of its own.
func (p *planner) alone(w flow.Weighted) flow.Operation {
	kernel, _ := w.Weights()
	shape := w.Least(p.shapeAt(kernel))
	inputs, outputs := w.Operands()
	in, computed := p.plan.values[inputs[0]].tensor, p.plan.values[outputs[0]]
	for _, t := range []*xnnpack.Tensor{&in, &computed.tensor} {
		if scales, _, err := scaleCount(t); err != nil || scales > 0 || computed.constant != nil {
			fault.Check(errors.Join(malformed("it computes with constants alone"), err))
		}
	}
	for len(shape) < in.Quantization.NonBatchDims && len(shape) < xnnpack.MaxTensorDims {
		shape = append([]int{1}, shape...)
	}
	in.Name, in.Shape = in.Name+", the least", shape
	output := p.internal(computed.tensor)
	if in.Type != xnnpack.DynamicQInt8 {
		return w.With(slices.Concat(flow.IDs{p.given(in)}, inputs[1:], flow.IDs{output})...)
	}
	quantised := p.internal(in)
	in.Quantization, in.Type = xnnpack.Quantization{}, xnnpack.Float32
	if computed.tensor.Type == xnnpack.Float16 {
		in.Type = xnnpack.Float16
	}
	fault.Check(p.add(in.Name, flow.Convert(p.given(in), quantised)))
	return w.With(slices.Concat(flow.IDs{quantised}, inputs[1:], flow.IDs{output})...)
}

// given appends a value that no step computes.
func (p *planner) given(t xnnpack.Tensor) xnnpack.ValueID {
	id := p.internal(t)
	p.plan.values[id].computed = true
	return id
}

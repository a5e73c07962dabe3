package executorch

import (
	"errors"

	"xpwc/internal/fault"
	"xpwc/xnnpack"
)

// packs reports whether a node packs weights: whether its kernel is a constant.
func (p *planner) packs(op operation) bool {
	w, ok := op.(weighted)
	if !ok {
		return false
	}
	kernel, _ := w.weights()
	return kernel != xnnpack.InvalidValue && p.plan.values[kernel].constant != nil
}

// addPacking appends a step that packs weights. What is packed does not depend on the shapes of what the step reads and
// computes. So if these are not known, or contradict the weights, it is packed between values of its own.
func (p *planner) addPacking(s step) error {
	contradicts := p.add(s)
	if contradicts == nil {
		return nil
	}
	err := fault.Try(func() {
		fault.Check(p.add(step{name: s.name, operation: p.alone(s.operation.(weighted))}))
	})
	if err == nil {
		p.notPlanned(s.name, contradicts)
	} else if !errors.Is(contradicts, errNotComputed) {
		err = contradicts
	}
	return err
}

// alone returns a node that reads the least that it can, from a value of its own, and computes another of its own.
func (p *planner) alone(w weighted) operation {
	shape := w.least(p.shapeAt)
	inputs, out := operands(w)
	in, computed := p.plan.values[inputs[0]].tensor, p.plan.values[out]
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
		return w.between(p.given(in), output)
	}
	quantised := p.internal(in)
	in.Quantization, in.Type = xnnpack.Quantization{}, xnnpack.Float32
	if computed.tensor.Type == xnnpack.Float16 {
		in.Type = xnnpack.Float16
	}
	fault.Check(p.add(step{name: in.Name, operation: conversion(p.given(in), quantised)}))
	return w.between(quantised, output)
}

// given appends a value that no step computes.
func (p *planner) given(t xnnpack.Tensor) xnnpack.ValueID {
	id := p.internal(t)
	p.plan.values[id].internal = false
	return id
}

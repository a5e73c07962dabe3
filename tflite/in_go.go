package tflite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"xpwc"
	"xpwc/internal/compute"
	"xpwc/internal/staging"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Integers, booleans and what XNNPACK does not have are computed in Go, between subgraphs, or when the model is opened
// if all that an operator reads is constant.

// A run is one computation of an operator in Go.
type run struct {
	file []byte
	in   []compute.Array // by operand; without content where it is not read
	out  []compute.Array
}

// staged reports whether Go computes something of the plan, or keeps something.
func (p *plan) staged() bool {
	inGo := func(t int) bool { return p.graph.tensors[t].inGo() }
	return len(p.states) > 0 || slices.ContainsFunc(p.steps, func(s step) bool { return s.compute != nil }) ||
		slices.ContainsFunc(p.graph.inputs, inGo) || slices.ContainsFunc(p.graph.outputs, inGo)
}

// Stages returns what the model computes where XNNPACK does not have all of it. See [models.Staged].
func (m *Model) Stages() (stages []models.Stage, between []models.Buffer) {
	p := m.plan
	if !p.staged() {
		return nil, nil
	}
	of := staging.Model{Inputs: p.graph.inputs, Outputs: p.graph.outputs, Size: p.bytes}
	content := func(c *constant) func([]byte) error {
		return func(dst []byte) error {
			return m.view(func(file []byte) error {
				b, err := c.bytes(file)
				copy(dst, b)
				return err
			})
		}
	}
	of.Constant = func(t int) func([]byte) error {
		if c := p.values[t].constant; c != nil {
			return content(c)
		}
		return nil
	}
	of.Subgraph = func(steps, inputs, outputs []int, l models.Loader) (*xnnpack.Subgraph, error) {
		return m.subgraph(p.part(steps, inputs, outputs), l)
	}
	for _, s := range p.states {
		initial := func(dst []byte) error { clear(dst); return nil }
		if s.initial != nil {
			initial = content(s.initial)
		}
		of.States = append(of.States, staging.State{Value: s.value, Next: s.next, Initial: initial})
	}
	for i := range p.steps {
		s := &p.steps[i]
		step := staging.Step{Inputs: p.dynamic(s), Outputs: s.op.outputs}
		if s.compute != nil {
			step.Compute = func(inputs, outputs [][]byte) error {
				return m.view(func(file []byte) error {
					if err := p.compute(s, file, inputs, outputs); err != nil {
						return fmt.Errorf("%s: operator %d, %s: %w", m.file.Path(), s.op.index, s.op.name(), err)
					}
					return nil
				})
			}
		}
		of.Steps = append(of.Steps, step)
	}
	return of.Stages()
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

// dynamic returns the values that a step reads and other steps compute.
func (p *plan) dynamic(s *step) (tensors []int) {
	for i, t := range s.op.inputs {
		if t != absent && p.values[t].state == dynamic && (s.compute == nil || slices.Contains(s.reads, i)) {
			tensors = append(tensors, t)
		}
	}
	return tensors
}

// bytes returns the size of a value, which was checked.
func (p *plan) bytes(t int) int {
	n, _ := elements(p.values[t].shape)
	return n * p.values[t].dtype.Size()
}

// array returns a value as Go computes with it, without its content: quantized ones in single precision if wide.
func (p *plan) array(t int, wide bool) compute.Array {
	v := &p.values[t]
	a := compute.Array{Element: elementTypes[v.dtype], Shape: v.shape}
	if wide && p.quantized(t) {
		a.Element = models.Float32
	}
	return a
}

func (p *plan) quantized(t int) bool {
	return p.values[t].dtype.isBytes() && !p.graph.tensors[t].inGo()
}

// compute computes a step from the values that it reads and that are no constants.
func (p *plan) compute(s *step, file []byte, inputs, outputs [][]byte) error {
	r := run{file: file, in: make([]compute.Array, len(s.op.inputs))}
	for i, t := range s.op.inputs {
		if t == absent {
			continue
		}
		r.in[i] = p.array(t, s.wide)
		if !slices.Contains(s.reads, i) {
			continue
		}
		c := p.values[t].constant
		if c != nil {
			if s.wide && p.quantized(t) {
				c = c.dequantized()
			}
			var err error
			if r.in[i].Data, err = c.bytes(file); err != nil {
				return err
			}
			continue
		}
		if r.in[i].Data, inputs = inputs[0], inputs[1:]; s.wide && p.quantized(t) {
			content := make([]byte, 4*len(r.in[i].Data))
			of := constant{stored: p.values[t].dtype, quant: p.graph.tensors[t].quantization}
			of.dequantize(content, r.in[i].Data, 0)
			r.in[i].Data = content
		}
	}
	for i, t := range s.op.outputs {
		a := p.array(t, s.wide)
		if a.Data = outputs[i]; s.wide && p.quantized(t) {
			a.Data = make([]byte, 4*len(outputs[i]))
		}
		r.out = append(r.out, a)
	}
	if err := s.compute(&r); err != nil {
		return err
	}
	for i, t := range s.op.outputs {
		if s.wide && p.quantized(t) {
			p.quantize(t, outputs[i], r.out[i].Data)
		}
	}
	return nil
}

// quantize computes bytes from single precision, rounded as TensorFlow Lite rounds.
func (p *plan) quantize(t int, dst, floats []byte) {
	_, q, _ := p.datatype(t) // planning has seen that there is one
	low, high := zeroPoints(p.values[t].dtype)
	for i := range dst {
		x := math.Float32frombits(binary.LittleEndian.Uint32(floats[4*i:]))
		n := math.Round(float64(x/q.Scale)) + float64(q.ZeroPoint)
		dst[i] = byte(int64(min(max(n, float64(low)), float64(high))))
	}
}

// mostFolded bounds the bytes of constants that are computed when a model is opened: a small file must not take much
// memory then.
const mostFolded = 16 << 20

// fold computes a step at once if all that it reads is constant, and makes its outputs constants.
func (c *call) fold(s *step) {
	p := c.plan
	if len(p.dynamic(s)) > 0 {
		return
	}
	var outputs [][]byte
	for _, t := range s.op.outputs {
		n := p.bytes(t)
		if p.folded += n; p.folded > mostFolded {
			return
		}
		outputs = append(outputs, make([]byte, n))
	}
	if err := p.compute(s, c.file, nil, outputs); err != nil {
		malformed("%v", err)
	}
	for i, t := range s.op.outputs {
		of := &p.graph.tensors[t]
		if p.values[t].state == empty {
			continue
		}
		p.values[t].state = static
		p.values[t].constant = &constant{name: of.name, stored: of.element(), dtype: of.element(), data: outputs[i],
			shape: p.values[t].shape, size: len(outputs[i]), quant: of.quantization}
	}
	s.compute = nil
}

// view calls do with the model's file.
func (m *Model) view(do func(file []byte) error) error {
	err := m.file.View(do)
	if errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("%s: %w", m.file.Path(), xpwc.ErrClosed)
	}
	return err
}

package tflite

import (
	"encoding/binary"
	"math"
	"slices"

	"xpwc/internal/compute"
	"xpwc/internal/fault"
	"xpwc/internal/flow"
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

func (p *plan) quantized(t int) bool {
	return p.values[t].dtype.isBytes() && !p.graph.tensors[t].inGo()
}

// compute computes a step from the operands that it reads: quantized ones in single precision if it is wide.
func (p *plan) compute(s *step, out, in []compute.Array) error {
	r := run{file: p.file, in: make([]compute.Array, len(s.op.inputs)), out: slices.Clone(out)}
	for i, t := range s.op.inputs {
		if t != absent {
			r.in[i] = p.Array(flow.ID(t))
		}
	}
	for k, i := range s.reads {
		if r.in[i] = in[k]; s.wide && p.quantized(s.op.inputs[i]) {
			r.in[i] = p.floats(s.op.inputs[i], in[k])
		}
	}
	for i, t := range s.op.outputs {
		if s.wide && p.quantized(t) {
			r.out[i] = compute.New(models.Float32, out[i].Shape...)
		}
	}
	if err := s.compute(&r); err != nil {
		return err
	}
	for i, t := range s.op.outputs {
		if s.wide && p.quantized(t) {
			p.quantize(t, out[i].Data, r.out[i].Data)
		}
	}
	return nil
}

// floats returns a quantized value in single precision.
func (p *plan) floats(t int, stored compute.Array) compute.Array {
	of := constant{stored: p.values[t].dtype, quant: p.graph.tensors[t].quantization, shape: stored.Shape}
	if k := p.values[t].constant; k != nil {
		of.quant = k.quant
	}
	wide := compute.New(models.Float32, stored.Shape...)
	of.dequantize(wide.Data, stored.Data, 0)
	return wide
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
	var in, out []compute.Array
	for _, i := range s.reads {
		t := s.op.inputs[i]
		if p.values[t].constant == nil {
			return
		}
		a := p.Array(flow.ID(t))
		a.Data = fault.Value(p.Content(flow.ID(t)))
		in = append(in, a)
	}
	for _, t := range s.op.outputs {
		a := p.Array(flow.ID(t))
		n := xnnpack.Elements(a.Shape) * a.Element.Size()
		if p.folded += n; p.folded > mostFolded {
			return
		}
		a.Data = make([]byte, n)
		out = append(out, a)
	}
	if err := p.compute(s, out, in); err != nil {
		malformed("%v", err)
	}
	for i, t := range s.op.outputs {
		of := &p.graph.tensors[t]
		if p.values[t].state == empty {
			continue
		}
		p.values[t].state = static
		p.values[t].constant = &constant{name: of.name, stored: of.element(), dtype: of.element(), data: out[i].Data,
			shape: p.values[t].shape, size: len(out[i].Data), quant: of.quantization}
	}
	s.compute = nil
}

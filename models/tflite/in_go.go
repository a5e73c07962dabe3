package tflite

import (
	"encoding/binary"
	"math"
	"slices"

	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Integers, booleans and what XNNPACK does not have are computed in Go, between subgraphs, or when the model is opened
// if all that an operator reads is constant.

// A run is one computation of an operator in Go.
type run struct {
	file []byte
	in   []operators.Array // by operand; without content where it is not read
	out  []operators.Array
}

// do plans that Go computes the operator.
func (c *call) do(f func(*run)) { c.compute = f }

// host plans that Go computes the outputs from operands. Outputs that have no shape get it.
func (c *call) host(op operators.Operator, operands ...int) {
	var shapes [][]int
	for _, i := range operands {
		shapes = append(shapes, c.data(i).shape)
	}
	var kernel operators.Kernel
	checked(func() { kernel = op(shapes) })
	for i, shape := range kernel.Shapes {
		if !slices.Contains(c.defined, i) {
			c.define(i, shape...)
		}
	}
	for _, k := range kernel.Moves {
		c.keepsScale(c.in(operands[k]))
	}
	c.do(func(r *run) {
		in, out := make([]operators.Array, len(operands)), slices.Clone(r.out)
		for k, i := range operands {
			in[k] = r.in[i]
		}
		for i, shape := range kernel.Shapes {
			out[i].Shape = shape
		}
		kernel.Run(out, in)
	})
}

func (p *plan) quantized(t int) bool {
	return p.values[t].dtype.isBytes() && !p.graph.tensors[t].inGo()
}

// run computes from the operands that are read: quantized ones in single precision if the operator is wide.
func (c *call) run(out, in []operators.Array) {
	p := c.plan
	r := run{file: p.file, in: make([]operators.Array, len(c.op.inputs)), out: slices.Clone(out)}
	for i, t := range c.op.inputs {
		if t != absent {
			r.in[i] = p.Array(flow.ID(t))
		}
	}
	for k, i := range c.reads {
		if r.in[i] = in[k]; c.wide && p.quantized(c.op.inputs[i]) {
			r.in[i] = p.floats(c.op.inputs[i], in[k])
		}
	}
	for i, t := range c.op.outputs {
		if c.wide && p.quantized(t) {
			r.out[i] = operators.New(models.Float32, out[i].Shape...)
		}
	}
	c.compute(&r)
	for i, t := range c.op.outputs {
		if c.wide && p.quantized(t) {
			p.quantize(t, out[i].Data, r.out[i].Data)
		}
	}
}

// move moves elements as the nodes would. Values inside of the operator have elements like those that they are of.
func (c *call) move(r *run) {
	values := map[flow.ID]operators.Array{}
	for _, i := range c.reads {
		values[flow.ID(c.op.inputs[i])] = r.in[i]
	}
	for i, t := range c.op.outputs {
		values[flow.ID(t)] = r.out[i]
	}
	for _, op := range c.nodes {
		inputs, outputs := op.Operands()
		var in []operators.Array
		for _, id := range inputs {
			in = append(in, values[id])
		}
		out, is := values[outputs[0]]
		if !is {
			out = operators.New(in[0].Element, c.plan.of(outputs[0]).inside.Shape...)
			values[outputs[0]] = out
		}
		op.Move(out, in)
	}
}

// floats returns a quantized value in single precision.
func (p *plan) floats(t int, stored operators.Array) operators.Array {
	of := constant{stored: p.values[t].dtype, quant: p.graph.tensors[t].quantization, shape: stored.Shape}
	if k := p.values[t].constant; k != nil {
		of.quant = k.quant
	}
	wide := operators.New(models.Float32, stored.Shape...)
	of.dequantize(wide.Data, stored.Data, 0)
	return wide
}

// quantize computes bytes from single precision, rounded as TensorFlow Lite rounds.
func (p *plan) quantize(t int, dst, floats []byte) {
	q := p.describe(t).Quantization
	as := quantizedTypes[p.values[t].dtype]
	for i := range dst {
		x := math.Float32frombits(binary.LittleEndian.Uint32(floats[4*i:]))
		n := math.Round(float64(x/q.Scale)) + float64(q.ZeroPoint)
		dst[i] = byte(int64(min(max(n, float64(as.low)), float64(as.high))))
	}
}

// mostFolded bounds the bytes of constants that are computed when a model is opened: a small file must not take much
// memory then.
const mostFolded = 16 << 20

// fold computes in Go at once if all that is read is constant, makes the outputs constants, and reports that.
func (c *call) fold() bool {
	p := c.plan
	var in, out []operators.Array
	var parent *constant
	for _, i := range c.reads {
		t := c.op.inputs[i]
		if p.values[t].constant == nil {
			return false
		}
		if parent == nil {
			parent = p.values[t].constant
		}
		a := p.Array(flow.ID(t))
		a.Data = p.Content(flow.ID(t))
		in = append(in, a)
	}
	for _, t := range c.op.outputs {
		a := p.Array(flow.ID(t))
		n := xnnpack.Elements(a.Shape) * a.Element.Size()
		if p.folded += n; p.folded > mostFolded {
			return false
		}
		a.Data = make([]byte, n)
		out = append(out, a)
	}
	checked(func() { c.run(out, in) })
	for i, t := range c.op.outputs {
		of := &p.graph.tensors[t]
		if p.values[t].state == empty {
			continue
		}
		p.values[t].state = static
		p.values[t].constant = &constant{name: of.name, stored: of.element(), dtype: of.element(), data: out[i].Data,
			parent: parent, shape: p.values[t].shape, size: len(out[i].Data), quant: of.quantization}
	}
	return true
}

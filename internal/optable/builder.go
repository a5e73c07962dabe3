package optable

import (
	"fmt"
	"math"

	"xpwc/packing"
	"xpwc/xnnpack"
)

// maxPorts is how many inputs and outputs a case may have.
const maxPorts = 4

// A port is an external value of a case.
type port struct {
	id   xnnpack.ValueID
	as   tensor
	data []byte // of an input
	size int    // in bytes
	want []float64
	tol  []float64 // of an output: how far each number may be from what is wanted
}

// check compares an output with what a plain computation in double precision gives. What may differ follows from the
// datatypes: one step of a quantised output, the rounding of dynamically quantised inputs, the precision of floats.
func (p *port) check(output []byte) error {
	for i, got := range p.as.decode(output) {
		if diff := got - p.want[i]; !(math.Abs(diff) <= p.tol[i]) {
			return fmt.Errorf("element %d is %g, want %g ± %.2g", i, got, p.want[i], p.tol[i])
		}
	}
	return nil
}

// builder defines a case's subgraph and collects its inputs and outputs.
type builder struct {
	*random
	place Place
	g     *xnnpack.Subgraph
	ports []port
}

// input defines an input with the given content.
func (b *builder) input(t tensor) (xnnpack.ValueID, error) {
	id := xnnpack.ValueID(len(b.ports))
	b.ports = append(b.ports, port{id: id, as: t, data: t.content, size: len(t.content)})
	return id, b.g.Input(id, t.Tensor)
}

// dynamic defines an input and its conversion to a dynamically quantised value, which nodes then consume.
func (b *builder) dynamic(t tensor, nonBatchDims int) (xnnpack.ValueID, error) {
	in, err := b.input(t)
	if err != nil {
		return 0, err
	}
	id, err := b.g.Tensor(xnnpack.Tensor{Name: "quantised input", Type: xnnpack.DynamicQInt8, Shape: t.Shape,
		Quantization: xnnpack.Quantization{NonBatchDims: nonBatchDims}})
	if err != nil {
		return 0, err
	}
	return id, b.g.Add(xnnpack.Unary{Op: xnnpack.ConvertElements, Input: in, Output: id})
}

// output defines an output that must hold r.
func (b *builder) output(kind xnnpack.Datatype, r *result) (xnnpack.ValueID, tensor, error) {
	t := tensor{Tensor: xnnpack.Tensor{Name: "output", Type: kind, Shape: r.shape}}
	t.quantise(r.real)
	id := xnnpack.ValueID(len(b.ports))
	size, err := kind.ByteSize(r.shape)
	if err != nil {
		return 0, t, err
	}
	p := port{id: id, as: t, size: size, want: r.real, tol: make([]float64, len(r.real))}
	for i := range p.tol {
		p.tol[i] = r.weight[i]
		switch kind {
		case xnnpack.Float32:
			p.tol[i] += 1e-5*r.magnitude[i] + 1e-6
		case xnnpack.Float16: // some kernels add up in half precision
			p.tol[i] += 1e-2*r.magnitude[i] + 1e-3
		default:
			p.tol[i] += 1.01 * float64(t.Quantization.Scale)
		}
	}
	// What does not fit a quantised output saturates.
	if kind == xnnpack.QInt8 || kind == xnnpack.QUint8 {
		lo, hi := -128.0, 127.0
		if kind == xnnpack.QUint8 {
			lo, hi = 0, 255
		}
		zero, scale := float64(t.Quantization.ZeroPoint), float64(t.Quantization.Scale)
		for i, v := range p.want {
			p.want[i] = min(max(v, (lo-zero)*scale), (hi-zero)*scale)
		}
	}
	b.ports = append(b.ports, p)
	return id, t, b.g.Output(id, t.Tensor)
}

// reading is when XNNPACK reads a static tensor.
type reading int

const (
	onMiss      reading = iota // only if its weights cache has no packed weights of it
	atCreation                 // always while the runtime is created
	atInference                // and afterwards
)

// static defines a static tensor where the case was given a place for it.
func (b *builder) static(t tensor, when reading, packed packing.Identity) (xnnpack.ValueID, error) {
	data, err := b.place(Weight{Name: t.Name, Content: t.content, Eager: when != onMiss, Retain: when == atInference,
		Packing: packed})
	if err != nil {
		return 0, fmt.Errorf("place %s: %w", t.Name, err)
	}
	t.Data = data
	return b.g.Tensor(t.Tensor)
}

// A packer is the Packing method of a node.
type packer func(kernel, bias, input, output xnnpack.Tensor) packing.Identity

// weights defines a kernel and, if there is one, a bias, of a node with the given input and output.
func (b *builder) weights(
	node packer, kernel tensor, bias *tensor, in, out tensor, dynamic int, when reading,
) (k, c xnnpack.ValueID, err error) {
	if kernel.Type == xnnpack.Float16 { // XNNPACK of 2026 converts it first, where the CPU has no arithmetic for it
		when = max(when, atCreation)
	}
	input, biasWhen := in.Tensor, when
	if dynamic > 0 {
		input = xnnpack.Tensor{Type: xnnpack.DynamicQInt8, Quantization: xnnpack.Quantization{NonBatchDims: dynamic}}
		biasWhen = max(when, atCreation) // XNNPACK packs it without naming it
	}
	biased := xnnpack.Tensor{}
	if bias != nil {
		biased = bias.Tensor
		biased.Data = bias.content
	}
	if k, err = b.static(kernel, when, node(kernel.Tensor, biased, input, out.Tensor)); err != nil {
		return 0, 0, err
	}
	if bias == nil {
		return k, xnnpack.InvalidValue, nil
	}
	c, err = b.static(*bias, biasWhen, packing.Identity{})
	return k, c, err
}

package optable

import (
	"fmt"

	"xpwc/packing"
	"xpwc/xnnpack"
)

const maxPorts = 4

// builder defines a case's subgraph and collects its inputs and outputs.
type builder struct {
	*random
	place   Place
	g       *xnnpack.Subgraph
	ports   int
	inputs  []Port
	outputs []Port
}

func (b *builder) port() (xnnpack.ValueID, error) {
	if b.ports == maxPorts {
		return 0, fmt.Errorf("more than %d inputs and outputs", maxPorts)
	}
	b.ports++
	return xnnpack.ValueID(b.ports - 1), nil
}

// input defines an input with the given content.
func (b *builder) input(t tensor) (xnnpack.ValueID, error) {
	id, err := b.port()
	if err != nil {
		return 0, err
	}
	b.inputs = append(b.inputs, Port{ID: id, Data: t.content, Size: len(t.content), as: t})
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
	return id, b.g.Convert(xnnpack.Convert{Input: in, Output: id})
}

// output defines an output that must hold r.
func (b *builder) output(kind xnnpack.Datatype, r *result) (xnnpack.ValueID, tensor, error) {
	t := tensor{Tensor: xnnpack.Tensor{Name: "output", Type: kind, Shape: r.shape}}
	t.quantise(r.real)
	id, err := b.port()
	if err != nil {
		return 0, t, err
	}
	size, err := kind.ByteSize(r.shape)
	if err != nil {
		return 0, t, err
	}
	p := Port{ID: id, Size: size, want: r.real, tol: make([]float64, len(r.real)), as: t}
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
	b.outputs = append(b.outputs, p)
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

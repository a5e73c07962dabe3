package optable

import (
	"fmt"
	"math"

	"xpwc/internal/fault"
	"xpwc/packing"
	"xpwc/xnnpack"
)

// maxPorts is how many inputs and outputs a case may have.
const maxPorts = 4

// A port is an external value of a case.
type port struct {
	id   xnnpack.ValueID
	as   tensor // its content is an input's, or has the size of an output's
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

// builder defines a case's subgraph and collects its inputs and outputs. Its first error ends the work, as package
// fault has it.
type builder struct {
	*random
	place Place
	g     *xnnpack.Subgraph
	ports []port
}

// input defines an input with the given content.
func (b *builder) input(t tensor) xnnpack.ValueID {
	id := xnnpack.ValueID(len(b.ports))
	b.ports = append(b.ports, port{id: id, as: t})
	fault.Check(b.g.Input(id, t.Tensor))
	return id
}

// output defines an output that must hold r.
func (b *builder) output(kind xnnpack.Datatype, r *result) (xnnpack.ValueID, tensor) {
	t := tensor{Tensor: xnnpack.Tensor{Name: "output", Type: kind, Shape: r.shape}}
	t.quantise(r.real)
	t.content = make([]byte, fault.Value(kind.ByteSize(r.shape)))
	p := port{id: xnnpack.ValueID(len(b.ports)), as: t, want: r.real, tol: r.weight}
	for i := range p.tol {
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
	fault.Check(b.g.Output(p.id, t.Tensor))
	return p.id, t
}

// reading is when XNNPACK reads a static tensor.
type reading int

const (
	onMiss      reading = iota // only if its weights cache has no packed weights of it
	atCreation                 // always while the runtime is created
	atInference                // and afterwards
)

// static defines a static tensor where the case was given a place for it.
func (b *builder) static(t tensor, when reading, packed packing.Identity) xnnpack.ValueID {
	data, err := b.place(Weight{Name: t.Name, Content: t.content, Eager: when != onMiss, Retain: when == atInference,
		Packing: packed})
	if err != nil {
		fault.Check(fmt.Errorf("place %s: %w", t.Name, err))
	}
	t.Data = data
	return fault.Value(b.g.Tensor(t.Tensor))
}

// The operands of a layer's node, which are given the values' IDs when it is added.
const (
	inputOf xnnpack.ValueID = iota
	kernelOf
	biasOf
	outputOf
)

// A layer is a weight-bearing node with all that is around it.
type layer struct {
	scheme
	node     xnnpack.WeightedNode
	in       []int // the shape of its input
	together int   // how many of the input's last dimensions are quantised together at inference
	shape    []int // of its kernel
	channel  int   // the dimension of the kernel that has scales
	biases   int   // how many there are
	limits   xnnpack.Range
	when     reading
	compute  func(x, kernel image) *result
}

func (b *builder) layer(l layer) {
	x := b.activation(l.scheme.in, l.in...)
	in, input := b.input(x), x.Tensor
	from := image{l.in, x.real, make([]float64, len(x.real))}
	if l.dynamic {
		from.errors = dynamicError(x.real, xnnpack.Elements(l.in[len(l.in)-l.together:]))
		input = xnnpack.Tensor{Name: "quantised input", Type: xnnpack.DynamicQInt8, Shape: l.in,
			Quantization: xnnpack.Quantization{NonBatchDims: l.together}}
		quantised := fault.Value(b.g.Tensor(input))
		fault.Check(b.g.Add(xnnpack.Unary{Op: xnnpack.ConvertElements, Input: in, Output: quantised}))
		in = quantised
	}
	k := b.kernel(l.scheme.kernel, l.channel, l.zero, l.block, l.shape...)
	r := l.compute(from, image{shape: l.shape, real: k.real})
	var c tensor
	biased := xnnpack.Tensor{}
	if l.biases > 0 {
		c = b.bias(l.scheme.bias, &x, &k, l.biases)
		biased = c.Tensor
		biased.Data = c.content
		if l.scaledBias {
			for i := range c.real {
				c.real[i] *= float64(k.Quantization.Scales[i])
			}
		}
		r.addBias(&c)
	}
	r.clamp(l.limits)
	out, y := b.output(l.out, r)
	when := l.when
	if k.Type == xnnpack.Float16 { // XNNPACK of 2026 converts it first, where the CPU has no arithmetic for it
		when = max(when, atCreation)
	}
	biasWhen := when
	if l.dynamic {
		biasWhen = max(when, atCreation) // XNNPACK packs it without naming it
	}
	ids := []xnnpack.ValueID{in, b.static(k, when, l.node.Packing(k.Tensor, biased, input, y.Tensor)),
		xnnpack.InvalidValue, out}
	if l.biases > 0 {
		ids[biasOf] = b.static(c, biasWhen, packing.Identity{})
	}
	fault.Check(b.g.AddRenamed(l.node, func(id xnnpack.ValueID) xnnpack.ValueID { return ids[id] }))
}

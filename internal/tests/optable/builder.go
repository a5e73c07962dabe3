package optable

import (
	"fmt"
	"math"

	"xpwc/internal/fault"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// The external values of every case.
const (
	inputID xnnpack.ValueID = iota
	outputID
	externals
)

// builder defines a case's subgraph. Its first error ends the work, as package fault has it.
type builder struct {
	*random
	place         Place
	g             *xnnpack.Subgraph
	input, output tensor
	layers        []layer // as they were defined, the first one with the input
	mean          bool    // the output is the mean over the pixels of the last layer's
}

// defineInput defines the input with the given content.
func (b *builder) defineInput(t tensor) {
	b.input = t
	fault.Check(b.g.Input(inputID, t.Tensor))
}

// defineOutput defines the output, of which each number adds up so many products.
func (b *builder) defineOutput(kind xnnpack.Datatype, shape []int, terms int) {
	t := xnnpack.Tensor{Name: "output", Type: kind, Shape: shape}
	// A little less than the whole range of the sums, so that some saturate.
	scale := float32(math.Sqrt(float64(terms)) / 120)
	switch kind {
	case xnnpack.QInt8:
		t.Quantization = xnnpack.Quantization{Scale: scale, ZeroPoint: int32(b.between(-9, 9))}
	case xnnpack.QUint8:
		t.Quantization = xnnpack.Quantization{Scale: scale, ZeroPoint: int32(b.between(120, 135))}
	}
	b.output = tensor{Tensor: t, content: make([]byte, fault.Value(kind.ByteSize(shape)))}
	fault.Check(b.g.Output(outputID, t))
}

// reading is when XNNPACK reads a static tensor.
type reading int

const (
	onMiss      reading = iota // only if its weights cache has no packed weights of it
	atCreation                 // always while the runtime is created
	atInference                // and afterwards
)

// static defines a static tensor where the case was given a place for it.
func (b *builder) static(t tensor, mode reading, packed packing.Identity) xnnpack.ValueID {
	data, err := b.place(Weight{Name: t.Name, Content: t.content, Eager: mode != onMiss, Retain: mode == atInference,
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
	out      []int // the shape of its output
	mode     reading

	kernel, bias tensor // as they were defined
}

// layer defines a case of one layer.
func (b *builder) layer(l layer) {
	b.defineInput(b.activation(l.scheme.in, l.in...))
	in, input := inputID, b.input.Tensor
	if l.dynamic {
		input = xnnpack.Tensor{Name: "quantised input", Type: xnnpack.DynamicQInt8, Shape: l.in,
			Quantization: xnnpack.Quantization{NonBatchDims: l.together}}
		in = fault.Value(b.g.Tensor(input))
		fault.Check(b.g.Add(xnnpack.Unary{Op: xnnpack.ConvertElements, Input: inputID, Output: in}))
	}
	l.kernel = b.randomKernel(l.scheme.kernel, l.channel, l.zero, l.block, l.shape...)
	biased := xnnpack.Tensor{}
	if l.biases > 0 {
		l.bias = b.randomBias(l.scheme.bias, &b.input, &l.kernel, l.biases)
		biased = l.bias.Tensor
		biased.Data = l.bias.content
	}
	b.defineOutput(l.scheme.out, l.out, xnnpack.Elements(l.shape)/l.out[len(l.out)-1])
	mode := l.mode
	if l.kernel.Type == xnnpack.Float16 { // XNNPACK of 2026 converts it first, where the CPU has no arithmetic for it
		mode = max(mode, atCreation)
	}
	biasWhen := mode
	if l.dynamic {
		biasWhen = max(mode, atCreation) // XNNPACK packs it without naming it
	}
	ids := []xnnpack.ValueID{inputOf: in, biasOf: xnnpack.InvalidValue, outputOf: outputID,
		kernelOf: b.static(l.kernel, mode, l.node.Packing(l.kernel.Tensor, biased, input, b.output.Tensor))}
	if l.biases > 0 {
		ids[biasOf] = b.static(l.bias, biasWhen, packing.Identity{})
	}
	b.add(l, ids)
}

// add adds a layer's node with operands.
func (b *builder) add(l layer, operands []xnnpack.ValueID) {
	fault.Check(b.g.AddRenamed(l.node, func(id xnnpack.ValueID) xnnpack.ValueID { return operands[id] }))
	b.layers = append(b.layers, l)
}

package xnnpack

import "xpwc/xnnpack/packing"

// A WeightedNode is a Node that packs a static kernel.
//
// Packing describes what XNNPACK will pack: all that decides the bytes, except the kernel's own content. A host gives
// the identity to its cache (xpwc.PackedAs), because the key that XNNPACK gives has almost nothing of it. The tensors
// are the node's operands, with the types they have in the subgraph; of bias, which is a zero Tensor if there is none,
// input and output neither name nor shape count. Where the input is dynamically quantised XNNPACK packs the bias in
// without naming it, so that its Data must be there. The identity refers to the tensors' slices. Flags of the runtime
// that change packing are the caller's to add.
type WeightedNode interface {
	Node
	Packing(kernel, bias, input, output Tensor) packing.Identity
}

// Packing returns the packing identity of Filter.
func (n FullyConnected) Packing(filter, bias, input, output Tensor) packing.Identity {
	id := identity(packing.FullyConnected, filter, bias, input, output)
	if n.TransposeWeights {
		id.Flags |= packing.Transposed
	}
	return id
}

// Packing returns the packing identity of Filter.
func (n Convolution2D) Packing(filter, bias, input, output Tensor) packing.Identity {
	id := identity(packing.Convolution2D, filter, bias, input, output)
	return windowed(id, n.Groups, n.Stride, n.Dilation, n.Padding)
}

// Packing returns the packing identity of Filter.
func (n DepthwiseConvolution2D) Packing(filter, bias, input, output Tensor) packing.Identity {
	id := identity(packing.DepthwiseConvolution2D, filter, bias, input, output)
	return windowed(id, n.DepthMultiplier, n.Stride, n.Dilation, n.Padding)
}

// Packing returns the packing identity of Filter.
func (n Deconvolution2D) Packing(filter, bias, input, output Tensor) packing.Identity {
	id := identity(packing.Deconvolution2D, filter, bias, input, output)
	return windowed(id, n.Groups, n.Stride, n.Dilation, Padding{}) // its padding is taken off the output
}

// Packing returns the packing identity of B. There is no bias.
func (n BatchMatrixMultiply) Packing(b, _, a, output Tensor) packing.Identity {
	id := identity(packing.BatchMatrixMultiply, b, Tensor{}, a, output)
	if n.TransposeB {
		id.Flags |= packing.Transposed
	}
	return id
}

func identity(op packing.Operator, kernel, bias, input, output Tensor) packing.Identity {
	id := packing.Identity{
		Operator: op,
		Shape:    kernel.Shape,
		Input:    operandOf(input),
		Kernel:   operandOf(kernel),
		Bias:     operandOf(bias),
		Output:   operandOf(output),
	}
	if input.Type.dynamic() {
		id.HiddenBias = bias.Data
	}
	return id
}

func windowed(id packing.Identity, groups int, stride, dilation Size, padding Padding) packing.Identity {
	id.Groups, id.Stride, id.Dilation = groups, packing.Size(stride), packing.Size(dilation)
	if padding != (Padding{}) {
		id.Flags |= packing.Padded
	}
	return id
}

func operandOf(t Tensor) packing.Operand {
	return packing.Operand{Type: packing.Datatype(t.Type), Quantization: t.Quantization}
}

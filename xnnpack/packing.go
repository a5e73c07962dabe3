package xnnpack

import "xpwc/packing"

// The Packing methods say what XNNPACK will pack from a node's static kernel: everything that decides the bytes,
// except the kernel's own content. A host gives the identity to its cache (xpwc.PackedAs), because the key that
// XNNPACK gives has almost nothing of it. The tensors are the node's operands, with the types they have in the
// subgraph; of bias, which is a zero Tensor if there is none, input and output neither name nor shape count. Where
// the input is dynamically quantised XNNPACK packs the bias in without naming it, so that its Data must be there. The
// identity refers to the tensors' slices. Flags of the runtime that change packing are the caller's to add.

// Packing returns the identity of what is packed from Filter.
func (n FullyConnected) Packing(filter, bias, input, output Tensor) packing.Identity {
	id := identity(packing.FullyConnected, filter, bias, input, output)
	if n.TransposeWeights {
		id.Flags |= packing.Transposed
	}
	return id
}

// Packing returns the identity of what is packed from Filter.
func (n Convolution2D) Packing(filter, bias, input, output Tensor) packing.Identity {
	id := identity(packing.Convolution2D, filter, bias, input, output)
	id.Groups, id.Stride, id.Dilation = n.Groups, packing.Size(n.Stride), packing.Size(n.Dilation)
	if n.Padding != (Padding{}) {
		id.Flags |= packing.Padded
	}
	return id
}

// Packing returns the identity of what is packed from Filter.
func (n DepthwiseConvolution2D) Packing(filter, bias, input, output Tensor) packing.Identity {
	id := identity(packing.DepthwiseConvolution2D, filter, bias, input, output)
	id.Groups, id.Stride, id.Dilation = n.DepthMultiplier, packing.Size(n.Stride), packing.Size(n.Dilation)
	if n.Padding != (Padding{}) {
		id.Flags |= packing.Padded
	}
	return id
}

// Packing returns the identity of what is packed from Filter.
func (n Deconvolution2D) Packing(filter, bias, input, output Tensor) packing.Identity {
	id := identity(packing.Deconvolution2D, filter, bias, input, output)
	id.Groups, id.Stride, id.Dilation = n.Groups, packing.Size(n.Stride), packing.Size(n.Dilation)
	return id
}

// Packing returns the identity of what is packed from B.
func (n BatchMatrixMultiply) Packing(b, a, output Tensor) packing.Identity {
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

func operandOf(t Tensor) packing.Operand {
	return packing.Operand{Type: packing.Datatype(t.Type), Quantization: t.Quantization}
}

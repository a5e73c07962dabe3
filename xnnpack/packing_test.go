package xnnpack_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

func TestANodeSaysWhatIsPackedForIt(t *testing.T) {
	filter := xnnpack.Tensor{Name: "w", Type: xnnpack.ChannelQInt8, Shape: []int{12, 3, 3, 4}, Data: []byte{1},
		Quantization: xnnpack.Quantization{Scales: []float32{1, 2}}}
	bias := xnnpack.Tensor{Name: "b", Type: xnnpack.ChannelQInt32, Shape: []int{12}, Data: []byte{5, 6}}
	input := xnnpack.Tensor{Type: xnnpack.QInt8, Shape: []int{1, 9, 9, 8}, Quantization: xnnpack.Quantization{Scale: 1}}
	want := packing.Identity{
		Operator: packing.Convolution2D, Flags: packing.Padded, Shape: []int{12, 3, 3, 4}, Groups: 2,
		Stride: packing.Size{Height: 2, Width: 1}, Dilation: packing.Size{Height: 1, Width: 2},
		Input:  packing.Operand{Type: 3, Quantization: input.Quantization},
		Kernel: packing.Operand{Type: 6, Quantization: filter.Quantization},
		Bias:   packing.Operand{Type: 7},
		Output: packing.Operand{Type: 3, Quantization: input.Quantization},
	}
	node := xnnpack.Convolution2D{Input: 7, Groups: 2, Stride: xnnpack.Size{Height: 2, Width: 1},
		Dilation: xnnpack.Size{Height: 1, Width: 2}, Padding: xnnpack.Padding{Left: 1}}
	require.Equal(t, want, node.Packing(filter, bias, input, input))

	digests := map[packing.Digest]string{}
	for name, id := range map[string]packing.Identity{
		"convolution":    node.Packing(filter, bias, input, input),
		"without a bias": node.Packing(filter, xnnpack.Tensor{}, input, input),
		"without padding": xnnpack.Convolution2D{Groups: 2, Stride: node.Stride,
			Dilation: node.Dilation}.Packing(filter, bias, input, input),
		"depthwise":       xnnpack.DepthwiseConvolution2D{}.Packing(filter, bias, input, input),
		"multiplier":      xnnpack.DepthwiseConvolution2D{DepthMultiplier: 2}.Packing(filter, bias, input, input),
		"deconvolution":   xnnpack.Deconvolution2D{}.Packing(filter, bias, input, input),
		"fully connected": xnnpack.FullyConnected{}.Packing(filter, bias, input, input),
		"transposed":      xnnpack.FullyConnected{TransposeWeights: true}.Packing(filter, bias, input, input),
		"batch matrix":    xnnpack.BatchMatrixMultiply{}.Packing(filter, xnnpack.Tensor{}, input, input),
		"transposed b":    xnnpack.BatchMatrixMultiply{TransposeB: true}.Packing(filter, bias, input, input),
	} {
		digest := id.Digest()
		require.NotContains(t, digests, digest, name)
		digests[digest] = name
	}
}

// XNNPACK packs it in without naming it in its key.
func TestTheBiasOfADynamicallyQuantisedNodeIsPartOfItsPacking(t *testing.T) {
	filter := xnnpack.Tensor{Type: xnnpack.ChannelQInt8, Shape: []int{1, 2},
		Quantization: xnnpack.Quantization{Scales: []float32{1}}}
	bias := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1}, Data: []byte{1, 2, 3, 4}}
	digest := func(input xnnpack.Datatype, bias xnnpack.Tensor) packing.Digest {
		id := xnnpack.FullyConnected{}.Packing(filter, bias, xnnpack.Tensor{Type: input},
			xnnpack.Tensor{Type: xnnpack.Float32})
		return id.Digest()
	}
	converted := bias
	converted.Data = []byte{1, 2, 3, 5}
	require.Equal(t, digest(xnnpack.Float32, bias), digest(xnnpack.Float32, converted))
	require.NotEqual(t, digest(xnnpack.DynamicQInt8, bias), digest(xnnpack.DynamicQInt8, converted))
}

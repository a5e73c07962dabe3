package xnnpack_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/xnnpack"
)

func TestErrorsSayWhatWasBeingDone(t *testing.T) {
	s := newSubgraph(t, 2)
	require.NoError(t, s.Input(0, float("image", 1, 4)))
	require.NoError(t, s.Output(1, float("label", 1, 3)))
	kernel, err := s.Tensor(xnnpack.Tensor{Name: "kernel", Type: xnnpack.Float32, Shape: []int{3, 5},
		Data: static(t, ramp(15)...)})
	require.NoError(t, err)

	err = s.Add(xnnpack.FullyConnected{Input: 0, Filter: kernel, Bias: xnnpack.InvalidValue, Output: 1})
	require.ErrorIs(t, err, xnnpack.InvalidParameter)
	var e *xnnpack.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "define fully connected", e.Op)
	require.Contains(t, err.Error(), `input value 0 "image" fp32 [1 4]`)
	require.Contains(t, err.Error(), `"kernel" fp32 [3 5]`)
	require.Contains(t, err.Error(), `output value 1 "label"`)
}

func TestXNNPACKsOwnRefusalsCarryTheOperands(t *testing.T) {
	s := newSubgraph(t, 2)
	require.NoError(t, s.Input(0, float("x", 1, 4)))
	require.NoError(t, s.Output(1, xnnpack.Tensor{Name: "y", Type: xnnpack.Int32, Shape: []int{1, 4}}))
	err := s.Add(xnnpack.Softmax{Input: 0, Output: 1})
	require.ErrorIs(t, err, xnnpack.InvalidParameter)
	require.Contains(t, err.Error(), `output value 1 "y" int32`)
}

func TestBadTensorsAreRefused(t *testing.T) {
	data := static(t, ramp(16)...)
	quantised := func(scale float32) xnnpack.Quantization { return xnnpack.Quantization{Scale: scale} }
	for name, c := range map[string]struct {
		tensor xnnpack.Tensor
		status xnnpack.Status
	}{
		"no datatype":         {xnnpack.Tensor{Shape: []int{2}}, xnnpack.InvalidParameter},
		"unknown datatype":    {xnnpack.Tensor{Type: 99, Shape: []int{2}}, xnnpack.InvalidParameter},
		"negative dimension":  {float("x", 2, -1), xnnpack.InvalidParameter},
		"too many dimensions": {float("x", 1, 1, 1, 1, 1, 1, 1), xnnpack.UnsupportedParameter},
		"size overflows":      {float("x", math.MaxInt/2, 3), xnnpack.InvalidParameter},
		"bytes overflow":      {float("x", math.MaxInt/2), xnnpack.InvalidParameter},
		"data too short": {xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{17}, Data: data},
			xnnpack.InvalidParameter},
		"4-bit data too short": {xnnpack.Tensor{Type: xnnpack.ChannelQInt4, Shape: []int{43, 3}, Data: data,
			Quantization: xnnpack.Quantization{Scales: make([]float32, 43)}}, xnnpack.InvalidParameter},
		"static and empty": {xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{0}, Data: data},
			xnnpack.InvalidParameter},
		"scale zero": {xnnpack.Tensor{Type: xnnpack.QInt8, Shape: []int{2}}, xnnpack.InvalidParameter},
		"scale negative": {xnnpack.Tensor{Type: xnnpack.QUint8, Shape: []int{2},
			Quantization: quantised(-1)}, xnnpack.InvalidParameter},
		"scale infinite": {xnnpack.Tensor{Type: xnnpack.QInt8, Shape: []int{2},
			Quantization: quantised(float32(math.Inf(1)))}, xnnpack.InvalidParameter},
		"scale not a number": {xnnpack.Tensor{Type: xnnpack.QInt8, Shape: []int{2},
			Quantization: quantised(float32(math.NaN()))}, xnnpack.InvalidParameter},
		"zero point out of range": {xnnpack.Tensor{Type: xnnpack.QInt8, Shape: []int{2},
			Quantization: xnnpack.Quantization{Scale: 1, ZeroPoint: 128}}, xnnpack.InvalidParameter},
		"too few scales": {xnnpack.Tensor{Type: xnnpack.ChannelQInt8, Shape: []int{3, 2},
			Quantization: xnnpack.Quantization{Scales: []float32{1, 1}}}, xnnpack.InvalidParameter},
		"a bad scale among them": {xnnpack.Tensor{Type: xnnpack.ChannelQInt8, Shape: []int{2, 2},
			Quantization: xnnpack.Quantization{Scales: []float32{1, 0}}}, xnnpack.InvalidParameter},
		"no such channel dimension": {xnnpack.Tensor{Type: xnnpack.ChannelQInt8, Shape: []int{2},
			Quantization: xnnpack.Quantization{Scales: []float32{1, 1}, ChannelDim: 1}}, xnnpack.InvalidParameter},
		"channelwise without shape": {xnnpack.Tensor{Type: xnnpack.ChannelQInt8}, xnnpack.InvalidParameter},
		"no block size": {xnnpack.Tensor{Type: xnnpack.BlockQInt4, Shape: []int{2, 32}},
			xnnpack.InvalidParameter},
		"block size does not fit": {xnnpack.Tensor{Type: xnnpack.BlockQInt4, Shape: []int{2, 48},
			Quantization: xnnpack.Quantization{BlockSize: 32,
				BlockScales: []uint16{0x3f80, 0x3f80}}}, xnnpack.InvalidParameter},
		"too few block scales": {xnnpack.Tensor{Type: xnnpack.BlockQInt4, Shape: []int{2, 64},
			Quantization: xnnpack.Quantization{BlockSize: 32,
				BlockScales: []uint16{0x3f80}}}, xnnpack.InvalidParameter},
		"blockwise of one dimension": {xnnpack.Tensor{Type: xnnpack.BlockQInt4, Shape: []int{64},
			Quantization: xnnpack.Quantization{BlockSize: 32,
				BlockScales: []uint16{0x3f80, 0x3f80}}}, xnnpack.InvalidParameter},
		"static dynamic": {xnnpack.Tensor{Type: xnnpack.DynamicQInt8, Shape: []int{2}, Data: data},
			xnnpack.UnsupportedParameter},
		"too many non-batch dims": {xnnpack.Tensor{Type: xnnpack.DynamicQInt8, Shape: []int{2},
			Quantization: xnnpack.Quantization{NonBatchDims: 2}}, xnnpack.InvalidParameter},
		"one element of 4 bits": {xnnpack.Tensor{Type: xnnpack.ChannelQInt4, Shape: []int{1, 1}, Data: data,
			Quantization: xnnpack.Quantization{Scales: []float32{1}, ZeroPoint: 8}}, xnnpack.UnsupportedParameter},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := newSubgraph(t, 0).Tensor(c.tensor)
			require.ErrorIs(t, err, c.status)
			require.Equal(t, xnnpack.InvalidValue, id)
		})
	}
}

func TestBadExternalValuesAreRefused(t *testing.T) {
	s := newSubgraph(t, 2)
	require.ErrorIs(t, s.Input(2, float("x", 1)), xnnpack.InvalidParameter)
	require.ErrorIs(t, s.Input(xnnpack.InvalidValue, float("x", 1)), xnnpack.InvalidParameter)
	require.ErrorIs(t, s.Input(0, xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1}, Data: static(t, 1)}),
		xnnpack.InvalidParameter)
	require.ErrorIs(t, s.Output(0, xnnpack.Tensor{Type: xnnpack.DynamicQInt8, Shape: []int{1}}),
		xnnpack.UnsupportedParameter)
	require.NoError(t, s.Input(0, float("x", 1)))
	require.ErrorIs(t, s.Output(0, float("again", 1)), xnnpack.InvalidParameter)
}

func TestBadSubgraphSizesAreRefused(t *testing.T) {
	for _, n := range []int{-1, math.MaxInt} {
		_, err := xnnpack.NewSubgraph(n)
		require.ErrorIs(t, err, xnnpack.InvalidParameter)
	}
}

func TestBadNodesAreRefused(t *testing.T) {
	s := newSubgraph(t, 4)
	require.NoError(t, s.Input(0, float("image", 1, 5, 5, 4)))
	require.NoError(t, s.Output(1, float("result", 1, 3, 3, 6)))
	require.NoError(t, s.Input(2, float("row", 1, 4)))
	tensor := func(shape ...int) xnnpack.ValueID {
		id, err := s.Tensor(xnnpack.Tensor{Name: "weights", Type: xnnpack.Float32, Shape: shape,
			Data: static(t, ramp(elements(shape))...)})
		require.NoError(t, err)
		return id
	}
	kernel, bias := tensor(6, 3, 3, 4), tensor(6)
	good := xnnpack.Convolution2D{Input: 0, Filter: kernel, Bias: bias, Output: 1}
	require.NoError(t, s.Add(good))

	variant := func(change func(*xnnpack.Convolution2D)) xnnpack.Convolution2D {
		n := good
		change(&n)
		return n
	}
	for name, n := range map[string]xnnpack.Convolution2D{
		"undefined input":   variant(func(n *xnnpack.Convolution2D) { n.Input = 77 }),
		"missing output":    variant(func(n *xnnpack.Convolution2D) { n.Output = xnnpack.InvalidValue }),
		"undefined bias":    variant(func(n *xnnpack.Convolution2D) { n.Bias = 77 }),
		"bias too short":    variant(func(n *xnnpack.Convolution2D) { n.Bias = tensor(5) }),
		"filter not 4D":     variant(func(n *xnnpack.Convolution2D) { n.Filter = tensor(6, 9, 4) }),
		"channels differ":   variant(func(n *xnnpack.Convolution2D) { n.Filter = tensor(6, 3, 3, 5) }),
		"outputs differ":    variant(func(n *xnnpack.Convolution2D) { n.Filter = tensor(7, 3, 3, 4) }),
		"groups do not fit": variant(func(n *xnnpack.Convolution2D) { n.Groups = 2 }),
		"negative groups":   variant(func(n *xnnpack.Convolution2D) { n.Groups = -1 }),
		"too many groups":   variant(func(n *xnnpack.Convolution2D) { n.Groups = math.MaxInt }),
		"negative padding":  variant(func(n *xnnpack.Convolution2D) { n.Padding.Left = -1 }),
		"stride zero":       variant(func(n *xnnpack.Convolution2D) { n.Stride = xnnpack.Size{Height: 1} }),
		"dilation past range": variant(func(n *xnnpack.Convolution2D) {
			n.Dilation = xnnpack.Size{Height: 1 << 40,
				Width: 1}
		}),
		"padding twice": variant(func(n *xnnpack.Convolution2D) { n.SamePadding, n.Padding.Top = true, 1 }),
	} {
		t.Run(name, func(t *testing.T) { require.ErrorIs(t, s.Add(n), xnnpack.InvalidParameter) })
	}

	image := func(shape ...int) xnnpack.ValueID {
		id, err := s.Tensor(float("image", shape...))
		require.NoError(t, err)
		return id
	}
	scalar, small, part := image(), image(1, 2, 5, 4), image(1, 5, 5, 2)
	window := xnnpack.Size{Height: 2, Width: 2}
	invalid := map[string]error{
		"axis past the rank":      s.Add(xnnpack.StaticReduce{Axes: []int{4}, Input: 0, Output: 1}),
		"axis twice":              s.Add(xnnpack.StaticReduce{Axes: []int{-1, 3}, Input: 0, Output: 1}),
		"no such reduction":       s.Add(xnnpack.StaticReduce{Op: 9, Input: 0, Output: 1}),
		"no such unary operator":  s.Add(xnnpack.Unary{Op: 99, Input: 0, Output: 1}),
		"no such binary operator": s.Add(xnnpack.Binary{Op: -1, A: 0, B: 0, Output: 1}),
		"one input to join":       s.Add(xnnpack.Concatenate{Inputs: []xnnpack.ValueID{0}, Output: 1}),
		"six inputs to join":      s.Add(xnnpack.Concatenate{Inputs: make([]xnnpack.ValueID, 6), Output: 1}),
		"five parts":              s.Add(xnnpack.EvenSplit{Input: 0, Outputs: make([]xnnpack.ValueID, 5)}),
		"paddings of other rank": s.Add(xnnpack.StaticConstantPad{Pre: []int{1}, Post: []int{1},
			Input: 0, Output: 1}),
		"negative slice": s.Add(xnnpack.StaticSlice{Offsets: []int{0, 0, 0, -1},
			Sizes: []int{1, 1, 1, 1}, Input: 0, Output: 1}),
		"permutation with a hole": s.Add(xnnpack.StaticTranspose{Permutation: []int{0, 1, 2, 2}, Input: 0,
			Output: 1}),
		"transposed filter": s.Add(xnnpack.FullyConnected{Input: 2, Filter: tensor(5, 6),
			Bias: xnnpack.InvalidValue, Output: 1, TransposeWeights: true}),
		"matrix of one dimension": s.Add(xnnpack.BatchMatrixMultiply{A: 2, B: bias, Output: 1}),
		"inner dimensions differ": s.Add(xnnpack.BatchMatrixMultiply{A: 2, B: tensor(5, 6), Output: 1}),
		"no window":               s.Add(xnnpack.MaxPooling2D{Input: 0, Output: small}),
		"window over the edge": s.Add(xnnpack.MaxPooling2D{Pooling: xnnpack.Size{Height: 6, Width: 1},
			Input: 0, Output: small}),
		"dilated over the edge": s.Add(xnnpack.MaxPooling2D{Pooling: window,
			Dilation: xnnpack.Size{Height: 1, Width: 5}, Input: 0, Output: small}),
		"mean over the edge": s.Add(xnnpack.AveragePooling2D{
			Pooling: xnnpack.Size{Height: 1, Width: 6}, Input: 0, Output: small}),
		"kernel over the edge": s.Add(xnnpack.Convolution2D{Input: small, Filter: kernel, Bias: bias,
			Output: 1}),
		"depthwise over the edge": s.Add(xnnpack.DepthwiseConvolution2D{Input: small,
			Filter: tensor(1, 3, 3, 4), Bias: xnnpack.InvalidValue, Output: 0}),
		"permutation too short": s.Add(xnnpack.StaticTranspose{Permutation: []int{0, 1, 2}, Input: 0,
			Output: 1}),
		"permutation too long": s.Add(xnnpack.StaticTranspose{Permutation: []int{0, 1, 2, 3, 4},
			Input: 0, Output: 1}),
		"slice of nothing": s.Add(xnnpack.StaticSlice{Offsets: []int{0, 1}, Sizes: []int{1, 0},
			Input: 2, Output: 1}),
		"join of other sizes": s.Add(xnnpack.Concatenate{Axis: 3, Inputs: []xnnpack.ValueID{0, small},
			Output: 1}),
		"join of other ranks": s.Add(xnnpack.Concatenate{Axis: 1, Inputs: []xnnpack.ValueID{2, scalar},
			Output: 1}),
		"join past the rank": s.Add(xnnpack.Concatenate{Axis: -5, Inputs: []xnnpack.ValueID{0, 0},
			Output: 1}),
		"uneven parts": s.Add(xnnpack.EvenSplit{Axis: 1, Input: 0,
			Outputs: []xnnpack.ValueID{part, part}}),
		"parts past the rank": s.Add(xnnpack.EvenSplit{Axis: 4, Input: 0,
			Outputs: []xnnpack.ValueID{part, part}}),
		"softmax of a scalar": s.Add(xnnpack.Softmax{Input: scalar, Output: scalar}),
		"activation is empty": s.Add(xnnpack.FullyConnected{Input: 2, Filter: tensor(6, 4), Bias: bias,
			Output: 1, Activation: xnnpack.Range{Min: 2, Max: 1}}),
	}
	for name, err := range invalid {
		t.Run(name, func(t *testing.T) { require.ErrorIs(t, err, xnnpack.InvalidParameter) })
	}
	require.ErrorIs(t, s.Add(xnnpack.StaticReshape{Shape: make([]int, 7), Input: 0, Output: 1}),
		xnnpack.UnsupportedParameter)
}

// XNNPACK crashes on these combinations; the binding refuses them.
func TestTransposed4BitFiltersWithoutAPackingFunctionAreRefused(t *testing.T) {
	s := newSubgraph(t, 2)
	require.NoError(t, s.Input(0, float("x", 1, 32)))
	require.NoError(t, s.Output(1, float("y", 1, 32)))
	scales := ramp(32)
	filter, err := s.Tensor(xnnpack.Tensor{Type: xnnpack.ChannelQInt4, Shape: []int{32, 32},
		Data:         static(t, ramp(128)...),
		Quantization: xnnpack.Quantization{Scales: scales, ChannelDim: 1, ZeroPoint: 8}})
	require.NoError(t, err)
	n := xnnpack.FullyConnected{Input: 0, Filter: filter, Bias: xnnpack.InvalidValue, Output: 1, TransposeWeights: true}
	require.ErrorIs(t, s.Add(n), xnnpack.UnsupportedParameter)
}

func TestStatusesAreErrors(t *testing.T) {
	require.Equal(t, "out of memory", xnnpack.OutOfMemory.Error())
	require.Equal(t, "status 42", xnnpack.Status(42).Error())
	require.False(t, errors.Is(xnnpack.OutOfMemory, xnnpack.InvalidState))
}

func TestByteSizeRoundsRowsOf4BitElementsUp(t *testing.T) {
	for _, c := range []struct {
		kind  xnnpack.Datatype
		shape []int
		bytes int
	}{
		{xnnpack.Float32, nil, 4},
		{xnnpack.Float32, []int{2, 3}, 24},
		{xnnpack.Float16, []int{3}, 6},
		{xnnpack.ChannelQInt4, []int{3, 4}, 6},
		{xnnpack.ChannelQInt4, []int{3, 5}, 9},
		{xnnpack.QInt8, []int{0, math.MaxInt, math.MaxInt}, 0},
	} {
		n, err := c.kind.ByteSize(c.shape)
		require.NoError(t, err)
		require.Equal(t, c.bytes, n, "%v %v", c.kind, c.shape)
	}
}

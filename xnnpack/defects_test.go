package xnnpack

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A defect of this build on every processor, in place of other builds' defects: nodes that it concerns are refused.
func TestANodeThatAKnownDefectConcernsIsRefused(t *testing.T) {
	saved := knownDefects
	t.Cleanup(func() { knownDefects = saved })
	knownDefects = []KnownDefect{{
		Build: BuildIdentifier(), CPU: "every processor", Node: "two rows", Effect: "wrong numbers",
		onCPU: func() bool { return true }, rowsCount: true,
		hit: func(p product) bool { return p.blocks4() && p.rows == 2 },
	}}
	define := func(rows int, filterType Datatype) (*Subgraph, error) {
		s, err := NewSubgraph(2)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Delete()) })
		require.NoError(t, s.Input(0, Tensor{Type: Float32, Shape: []int{rows, 64}}))
		require.NoError(t, s.Output(1, Tensor{Type: Float32, Shape: []int{rows, 4}}))
		quantised, err := s.Tensor(Tensor{Type: DynamicQInt8, Shape: []int{rows, 64},
			Quantization: Quantization{NonBatchDims: 1}})
		require.NoError(t, err)
		require.NoError(t, s.Add(Unary{Op: ConvertElements, Input: 0, Output: quantised}))
		q := Quantization{BlockSize: 32, BlockScales: slices.Repeat([]uint16{0x3f80}, 8), ZeroPoint: 8}
		if filterType == ChannelQInt8 {
			q = Quantization{Scales: []float32{1, 1, 1, 1}}
		}
		n, err := filterType.ByteSize([]int{4, 64})
		require.NoError(t, err)
		filter, err := s.Tensor(Tensor{Type: filterType, Shape: []int{4, 64}, Data: make([]byte, n), Quantization: q})
		require.NoError(t, err)
		return s, s.Add(FullyConnected{Input: quantised, Filter: filter, Bias: InvalidValue, Output: 1})
	}

	_, err := define(2, BlockQInt4)
	require.ErrorIs(t, err, ErrKnownDefect)
	require.ErrorIs(t, err, UnsupportedHardware)
	require.ErrorContains(t, err, "use a newer XNNPACK")

	_, err = define(2, ChannelQInt8)
	require.NoError(t, err, "a filter that the defect is not of")

	s, err := define(3, BlockQInt4)
	require.NoError(t, err)
	r, err := NewRuntime(s, nil)
	if err != nil {
		require.ErrorIs(t, err, UnsupportedHardware)
		t.Skip(err)
	}
	t.Cleanup(func() { require.NoError(t, r.Delete()) })
	require.ErrorIs(t, r.ReshapeExternal(0, []int{2, 64}), ErrKnownDefect, "rows that may be wrong")
	require.NoError(t, r.ReshapeExternal(0, []int{3, 64}), "as they were")
}

// XNNPACK of July 2026 crashed over rows of 10, and Binary's operands may be the same value.
func TestAnyNumberOfElementwiseNodesInARowIsComputed(t *testing.T) {
	for _, length := range []int{9, 10, 11, 30} {
		s, err := NewSubgraph(2)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Delete()) })
		tensor := Tensor{Type: QInt8, Shape: []int{4}, Quantization: Quantization{Scale: 1}}
		require.NoError(t, s.Input(0, tensor))
		require.NoError(t, s.Output(1, tensor))
		previous := ValueID(0)
		for i := range length {
			next := ValueID(1)
			if i < length-1 {
				next, err = s.Tensor(tensor)
				require.NoError(t, err)
			}
			require.NoError(t, s.Add(Unary{Op: Negate, Input: previous, Output: next}))
			previous = next
		}
		r, err := NewRuntime(s, nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Delete()) })
		in, err := NewBuffer(4)
		require.NoError(t, err)
		t.Cleanup(in.Free)
		out, err := NewBuffer(4)
		require.NoError(t, err)
		t.Cleanup(out.Free)
		copy(in.Bytes(), []byte{1, 2, 3, 0xfc})
		require.NoError(t, r.Reshape())
		require.NoError(t, r.Setup(map[ValueID][]byte{0: in.Bytes(), 1: out.Bytes()}))
		require.NoError(t, r.Invoke())
		want := in.Bytes()
		if length%2 == 1 {
			want = []byte{0xff, 0xfe, 0xfd, 4}
		}
		require.Equal(t, want, out.Bytes())
	}
}

// XNNPACK has computed a table of the two elementwise nodes when it refuses the product, whose numbers are too large
// for the output's scale.
func TestARuntimeThatCannotBeMadeLeavesTheProcessAlone(t *testing.T) {
	s, err := NewSubgraph(2)
	require.NoError(t, err)
	tensor := Tensor{Type: QInt8, Shape: []int{1, 4}, Quantization: Quantization{Scale: 1}}
	fine := Tensor{Type: QInt8, Shape: []int{1, 4}, Quantization: Quantization{Scale: 1e-6}}
	require.NoError(t, s.Input(0, tensor))
	require.NoError(t, s.Output(1, fine))
	once, err := s.Tensor(tensor)
	require.NoError(t, err)
	twice, err := s.Tensor(tensor)
	require.NoError(t, err)
	require.NoError(t, s.Add(Unary{Op: Negate, Input: 0, Output: once}))
	require.NoError(t, s.Add(Unary{Op: Abs, Input: once, Output: twice}))
	filter, err := s.Tensor(Tensor{
		Type: ChannelQInt8, Shape: []int{4, 4}, Data: make([]byte, 16),
		Quantization: Quantization{Scales: []float32{1, 1, 1, 1}},
	})
	require.NoError(t, err)
	require.NoError(t, s.Add(FullyConnected{Input: twice, Filter: filter, Bias: InvalidValue, Output: 1}))
	_, err = NewRuntime(s, nil)
	require.ErrorIs(t, err, UnsupportedParameter)
	_, err = NewRuntime(s, nil)
	require.ErrorIs(t, err, InvalidState, "it is deleted")
	require.NoError(t, s.Delete())
}

package xnnpack_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/xnnpack"
)

// static copies floats into memory that XNNPACK may keep, for the length of the test.
func static(t *testing.T, values ...float32) []byte {
	t.Helper()
	b, err := xnnpack.NewBuffer(4 * len(values))
	require.NoError(t, err)
	t.Cleanup(b.Free)
	copy(b.Float32s(), values)
	return b.Bytes()
}

func float(name string, shape ...int) xnnpack.Tensor {
	return xnnpack.Tensor{Name: name, Type: xnnpack.Float32, Shape: shape}
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// newSubgraph makes a subgraph that is deleted with the test.
func newSubgraph(t *testing.T, externals int) *xnnpack.Subgraph {
	t.Helper()
	s, err := xnnpack.NewSubgraph(externals)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Delete()) })
	return s
}

// sum is a model that adds its inputs 0 and 1, of n floats, into output 2.
func sum(t *testing.T, n int) *xnnpack.Subgraph {
	t.Helper()
	s := newSubgraph(t, 3)
	require.NoError(t, s.Input(0, float("a", n)))
	require.NoError(t, s.Input(1, float("b", n)))
	require.NoError(t, s.Output(2, float("sum", n)))
	require.NoError(t, s.Add(xnnpack.Binary{Op: xnnpack.Add, A: 0, B: 1, Output: 2}))
	return s
}

func newRuntime(t *testing.T, s *xnnpack.Subgraph, o *xnnpack.RuntimeOptions) *xnnpack.Runtime {
	t.Helper()
	r, err := xnnpack.NewRuntime(s, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Delete()) })
	return r
}

func buffer(t *testing.T, n int) *xnnpack.Buffer {
	t.Helper()
	b, err := xnnpack.NewBuffer(n)
	require.NoError(t, err)
	t.Cleanup(b.Free)
	return b
}

// compute runs one node on float inputs; the output's shape is what the node makes of it.
func compute(t *testing.T, inputs []xnnpack.Tensor, data [][]float32, out []int,
	node func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error) []float32 {
	t.Helper()
	s := newSubgraph(t, len(inputs)+1)
	var ids []xnnpack.ValueID
	values := map[xnnpack.ValueID][]byte{}
	for i, in := range inputs {
		id := xnnpack.ValueID(i)
		require.NoError(t, s.Input(id, in))
		ids = append(ids, id)
		require.Len(t, data[i], elements(in.Shape))
		b := buffer(t, 4*len(data[i]))
		copy(b.Float32s(), data[i])
		values[id] = b.Bytes()
	}
	output := xnnpack.ValueID(len(inputs))
	require.NoError(t, s.Output(output, float("output", out...)))
	require.NoError(t, node(s, ids, output))
	r := newRuntime(t, s, nil)
	require.NoError(t, r.Reshape())
	shape, err := r.ExternalShape(output)
	require.NoError(t, err)
	require.Equal(t, out, shape)
	b := buffer(t, 4*elements(out))
	values[output] = b.Bytes()
	require.NoError(t, r.Setup(values))
	require.NoError(t, r.Invoke())
	return append([]float32(nil), b.Float32s()...)
}

func requireClose(t *testing.T, want, got []float32) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.InDelta(t, want[i], got[i], 1e-5*math.Max(1, math.Abs(float64(want[i]))), "element %d", i)
	}
}

// ramp is n floats from 1 upwards.
func ramp(n int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(i + 1)
	}
	return list
}

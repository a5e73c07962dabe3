// Package modeltest is what tests of models have in common: it runs them, with a cache and without, and packs them.
package modeltest

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Run computes a model's outputs without a cache, and checks that XNNPACK's shapes are the model's.
func Run(t testing.TB, m models.Model, inputs ...[]float32) [][]float32 {
	t.Helper()
	l := m.NewLoader()
	defer func() { require.NoError(t, l.Close()) }()
	s := defined(t, m, l)
	r, err := xnnpack.NewRuntime(s, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Delete()) }()
	require.NoError(t, s.Delete())
	l.Finalize()
	return invoke(t, m, r, inputs)
}

// RunCached is Run with a session of the cache, which is given the data map in place of the model's own.
func RunCached(t testing.TB, m models.Model, cache *xpwc.Cache, data xpwc.DataMap, inputs ...[]float32) [][]float32 {
	t.Helper()
	session, err := cache.NewSession(data)
	require.NoError(t, err)
	defer func() { require.NoError(t, session.Close()) }()
	s := defined(t, m, session)
	r, err := xnnpack.NewRuntime(s, &xnnpack.RuntimeOptions{WeightsCache: session})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Delete()) }()
	require.NoError(t, s.Delete())
	require.NoError(t, session.Finalize())
	return invoke(t, m, r, inputs)
}

// defined returns the model's subgraph. The test is skipped where this XNNPACK is known to compute it wrongly.
func defined(t testing.TB, m models.Model, l models.Loader) *xnnpack.Subgraph {
	t.Helper()
	s, err := m.Subgraph(l)
	if errors.Is(err, xnnpack.ErrKnownDefect) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return s
}

func invoke(t testing.TB, m models.Model, r *xnnpack.Runtime, inputs [][]float32) [][]float32 {
	t.Helper()
	require.NoError(t, r.Reshape())
	external := map[xnnpack.ValueID][]byte{}
	buffer := func(v models.Value) *xnnpack.Buffer {
		n, err := v.ByteSize()
		require.NoError(t, err)
		b, err := xnnpack.NewBuffer(n)
		require.NoError(t, err)
		t.Cleanup(b.Free)
		external[v.ID] = b.Bytes()
		return b
	}
	for i, v := range m.Inputs() {
		store(t, v, buffer(v), inputs[i])
	}
	var outputs []*xnnpack.Buffer
	for _, v := range m.Outputs() {
		outputs = append(outputs, buffer(v))
		shape, err := r.ExternalShape(v.ID)
		require.NoError(t, err)
		require.Equal(t, append([]int{}, v.Shape...), append([]int{}, shape...), "the shape of output %s", v.Name)
	}
	require.NoError(t, r.Setup(external))
	require.NoError(t, r.Invoke())
	var out [][]float32
	for i, v := range m.Outputs() {
		out = append(out, fetch(v, outputs[i]))
	}
	return out
}

// store quantises where the input is quantised.
func store(t testing.TB, v models.Value, b *xnnpack.Buffer, x []float32) {
	t.Helper()
	if v.Type == xnnpack.Float32 {
		require.Len(t, x, len(b.Float32s()))
		copy(b.Float32s(), x)
		return
	}
	require.Len(t, x, len(b.Bytes()))
	q := v.Quantization
	for i, f := range x {
		b.Bytes()[i] = byte(int32(math.RoundToEven(float64(f/q.Scale))) + q.ZeroPoint)
	}
}

func fetch(v models.Value, b *xnnpack.Buffer) []float32 {
	if v.Type == xnnpack.Float32 {
		return append([]float32(nil), b.Float32s()...)
	}
	out := make([]float32, len(b.Bytes()))
	for i, stored := range b.Bytes() {
		n := int32(stored)
		if v.Type == xnnpack.QInt8 {
			n = int32(int8(stored))
		}
		out[i] = v.Quantization.Scale * float32(n-v.Quantization.ZeroPoint)
	}
	return out
}

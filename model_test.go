//go:build cgo

package xpwc_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models"
	"xpwc/xnnpack"
)

// A chain is a model of fully connected layers, each width x width, with the weights and the bias of these names.
type chain struct {
	width  int
	layers [][2]string
}

// weights makes tensors for the chain's names; another salt gives other content.
func (m chain) weights(salt uint32) map[string][]byte {
	tensors := map[string][]byte{}
	for _, layer := range m.layers {
		tensors[layer[0]] = floats(m.width*m.width, salt+hash(layer[0]))
		if layer[1] != "" {
			tensors[layer[1]] = floats(m.width, salt+hash(layer[1]))
		}
	}
	return tensors
}

func hash(s string) (h uint32) {
	for _, c := range []byte(s) {
		h = h*31 + uint32(c)
	}
	return h
}

func floats(n int, seed uint32) []byte {
	b := make([]byte, 0, 4*n)
	for range n {
		seed = seed*1664525 + 1013904223
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(seed>>8)/(1<<24)-0.5))
	}
	return b
}

// A loader gives the memory of a tensor, as Session.Load does.
type loader func(name string, options ...xpwc.LoadOption) ([]byte, error)

// create builds the chain's runtime.
func (m chain) create(cache xnnpack.WeightsCache, load loader) (*xnnpack.Runtime, error) {
	g, err := xnnpack.NewSubgraph(2)
	if err != nil {
		return nil, err
	}
	defer func() { _ = g.Delete() }()
	row := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, m.width}}
	errs := []error{g.Input(0, row), g.Output(1, row)}
	static := func(t xnnpack.Tensor, options ...xpwc.LoadOption) xnnpack.ValueID {
		if t.Name == "" {
			return xnnpack.InvalidValue
		}
		data, err := load(t.Name, options...)
		errs = append(errs, err)
		t.Data = data
		id, err := g.Tensor(t)
		errs = append(errs, err)
		return id
	}
	in := xnnpack.ValueID(0)
	for i, layer := range m.layers {
		out := xnnpack.ValueID(1)
		if i < len(m.layers)-1 {
			id, err := g.Tensor(row)
			errs = append(errs, err)
			out = id
		}
		filter := xnnpack.Tensor{Name: layer[0], Type: xnnpack.Float32, Shape: []int{m.width, m.width}}
		bias := xnnpack.Tensor{}
		if layer[1] != "" {
			bias = xnnpack.Tensor{Name: layer[1], Type: xnnpack.Float32, Shape: []int{m.width}}
		}
		n := xnnpack.FullyConnected{Input: in, Output: out}
		n.Filter, n.Bias = static(filter, xpwc.PackedAs(n.Packing(filter, bias, row, row))), static(bias)
		errs = append(errs, g.Add(n))
		in = out
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return xnnpack.NewRuntime(g, &xnnpack.RuntimeOptions{WeightsCache: cache})
}

// infer runs the runtime on a fixed input.
func (m chain) infer(t testing.TB, r *xnnpack.Runtime) []float32 {
	t.Helper()
	outputs, err := m.invoke(r)
	require.NoError(t, err)
	return outputs
}

func (m chain) invoke(r *xnnpack.Runtime) ([]float32, error) {
	if err := r.Reshape(); err != nil {
		return nil, err
	}
	in, err := xnnpack.NewBuffer(4 * m.width)
	if err != nil {
		return nil, err
	}
	defer in.Free()
	out, err := xnnpack.NewBuffer(4 * m.width)
	if err != nil {
		return nil, err
	}
	defer out.Free()
	copy(in.Bytes(), floats(m.width, 7))
	if err := r.Setup(map[xnnpack.ValueID][]byte{0: in.Bytes(), 1: out.Bytes()}); err != nil {
		return nil, err
	}
	if err := r.Invoke(); err != nil {
		return nil, err
	}
	return slices.Clone(out.Float32s()), nil
}

// outside gives tensors in C memory that no session knows.
func outside(tensors map[string][]byte) (load loader, free func()) {
	memory := models.NewMemory(xpwc.MapOf(tensors))
	return memory.Load, func() { _ = memory.Close() }
}

// plain is the chain's output without a cache.
func (m chain) plain(t testing.TB, tensors map[string][]byte) []float32 {
	t.Helper()
	load, free := outside(tensors)
	defer free()
	r, err := m.create(nil, load)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Delete()) }()
	return m.infer(t, r)
}

// A model is a chain with an open session.
type model struct {
	chain
	session *xpwc.Session
	runtime *xnnpack.Runtime
	names   []string // what Finalize returned
}

// open creates the chain's runtime with a session of the cache.
func (m chain) open(t testing.TB, c *xpwc.Cache, data xpwc.DataMap) *model {
	t.Helper()
	s, err := c.NewSession(data)
	require.NoError(t, err)
	r, err := m.create(s, s.Load)
	require.NoError(t, err)
	require.NoError(t, s.Finalize())
	return &model{m, s, r, s.Names()}
}

func (m *model) close(t testing.TB) {
	t.Helper()
	require.NoError(t, m.runtime.Delete())
	require.NoError(t, m.session.Close())
}

// run opens, infers and closes.
func (m chain) run(t testing.TB, c *xpwc.Cache, data xpwc.DataMap) []float32 {
	t.Helper()
	opened := m.open(t, c, data)
	defer opened.close(t)
	return m.infer(t, opened.runtime)
}

// openCache opens a cache that is closed, without an error, when the test ends.
func openCache(t testing.TB, path string, o *xpwc.Options) *xpwc.Cache {
	t.Helper()
	c, err := xpwc.Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

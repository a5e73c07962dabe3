//go:build cgo

package harness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models"
	"xpwc/xnnpack"
)

// A Chain is a model of fully connected layers, each width x width, with the weights and the bias of these names.
type Chain struct {
	Width  int
	Layers [][2]string
}

// Weights makes tensors for the chain's names; another salt gives other content.
func (m Chain) Weights(salt uint32) map[string][]byte {
	tensors := map[string][]byte{}
	for _, layer := range m.Layers {
		tensors[layer[0]] = Floats(m.Width*m.Width, salt+Hash(layer[0]))
		if layer[1] != "" {
			tensors[layer[1]] = Floats(m.Width, salt+Hash(layer[1]))
		}
	}
	return tensors
}

func Hash(s string) (h uint32) {
	for _, c := range []byte(s) {
		h = h*31 + uint32(c)
	}
	return h
}

func Floats(n int, seed uint32) []byte {
	b := make([]byte, 0, 4*n)
	for range n {
		seed = seed*1664525 + 1013904223
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(seed>>8)/(1<<24)-0.5))
	}
	return b
}

// A Loader gives the memory of a tensor, as Session.Load does.
type Loader func(name string, options ...xpwc.LoadOption) ([]byte, error)

// Create builds the chain's runtime.
func (m Chain) Create(cache xnnpack.WeightsCache, load Loader) (*xnnpack.Runtime, error) {
	g, err := xnnpack.NewSubgraph(2)
	if err != nil {
		return nil, err
	}
	defer func() { _ = g.Delete() }()
	row := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, m.Width}}
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
	for i, layer := range m.Layers {
		out := xnnpack.ValueID(1)
		if i < len(m.Layers)-1 {
			id, err := g.Tensor(row)
			errs = append(errs, err)
			out = id
		}
		filter := xnnpack.Tensor{Name: layer[0], Type: xnnpack.Float32, Shape: []int{m.Width, m.Width}}
		bias := xnnpack.Tensor{}
		if layer[1] != "" {
			bias = xnnpack.Tensor{Name: layer[1], Type: xnnpack.Float32, Shape: []int{m.Width}}
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

// Infer runs the runtime on a fixed input.
func (m Chain) Infer(t testing.TB, r *xnnpack.Runtime) []float32 {
	t.Helper()
	outputs, err := m.Invoke(r)
	require.NoError(t, err)
	return outputs
}

func (m Chain) Invoke(r *xnnpack.Runtime) ([]float32, error) {
	if err := r.Reshape(); err != nil {
		return nil, err
	}
	in, err := xnnpack.NewBuffer(4 * m.Width)
	if err != nil {
		return nil, err
	}
	defer in.Free()
	out, err := xnnpack.NewBuffer(4 * m.Width)
	if err != nil {
		return nil, err
	}
	defer out.Free()
	copy(in.Bytes(), Floats(m.Width, 7))
	if err := r.Setup(map[xnnpack.ValueID][]byte{0: in.Bytes(), 1: out.Bytes()}); err != nil {
		return nil, err
	}
	if err := r.Invoke(); err != nil {
		return nil, err
	}
	return slices.Clone(out.Float32s()), nil
}

// OutsideMemory gives tensors in C memory that no session knows.
func OutsideMemory(tensors map[string][]byte) (load Loader, free func()) {
	memory := models.NewMemory(xpwc.MapOf(tensors))
	return memory.Load, func() { _ = memory.Close() }
}

// Plain is the chain's output without a cache.
func (m Chain) Plain(t testing.TB, tensors map[string][]byte) []float32 {
	t.Helper()
	load, free := OutsideMemory(tensors)
	defer free()
	r, err := m.Create(nil, load)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Delete()) }()
	return m.Infer(t, r)
}

// A ChainRuntime is a chain with an open session.
type ChainRuntime struct {
	Chain
	Session *xpwc.Session
	Runtime *xnnpack.Runtime
	Names   []string // what Finalize returned
}

// Open creates the chain's runtime with a session of the cache.
func (m Chain) Open(t testing.TB, c *xpwc.Cache, data xpwc.DataMap) *ChainRuntime {
	t.Helper()
	s, err := c.NewSession(data)
	require.NoError(t, err)
	r, err := m.Create(s, s.Load)
	require.NoError(t, err)
	require.NoError(t, s.Finalize())
	return &ChainRuntime{m, s, r, s.Names()}
}

func (m *ChainRuntime) MustClose(t testing.TB) {
	t.Helper()
	require.NoError(t, m.Runtime.Delete())
	require.NoError(t, m.Session.Close())
}

// Run opens, infers and closes.
func (m Chain) Run(t testing.TB, c *xpwc.Cache, data xpwc.DataMap) []float32 {
	t.Helper()
	opened := m.Open(t, c, data)
	defer opened.MustClose(t)
	return m.Infer(t, opened.Runtime)
}

// OpenCache opens a cache that is closed, without an error, when the test ends.
func OpenCache(t testing.TB, path string, o *xpwc.Options) *xpwc.Cache {
	t.Helper()
	c := Open(t, path, o)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// FillHook calls a function before it computes a tensor.
type FillHook struct {
	xpwc.DataMap
	BeforeFill func(name string) error
}

func (d FillHook) Tensor(name string) (xpwc.Tensor, error) {
	t, err := d.DataMap.Tensor(name)
	fill := t.Fill
	t.Fill = func(dst []byte) error {
		if err := d.BeforeFill(name); err != nil {
			return err
		}
		return fill(dst)
	}
	return t, err
}

var ThreeLayers = Chain{Width: 96, Layers: [][2]string{{"w1", "b1"}, {"w2", ""}, {"w3", "b3"}}}

func EqualOutputs(a, b []float32) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

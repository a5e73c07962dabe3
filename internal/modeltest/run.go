// Package modeltest is what tests of models have in common: it runs them, with a cache and without, and packs them.
package modeltest

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/compute"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Run computes a model's outputs without a cache, and checks that XNNPACK's shapes are the model's.
func Run(t testing.TB, m models.Model, inputs ...[]float32) [][]float32 {
	t.Helper()
	l := models.NewMemory(m.DataMap())
	defer func() { require.NoError(t, l.Close()) }()
	return run(t, m, inputs, func(made func(models.Loader, xnnpack.WeightsCache)) { made(l, nil) }, l.Finalize)
}

// RunCached is Run with sessions of the cache, which are given the data map in place of the model's own.
func RunCached(t testing.TB, m models.Model, cache *xpwc.Cache, data xpwc.DataMap, inputs ...[]float32) [][]float32 {
	t.Helper()
	var sessions []*xpwc.Session
	defer func() {
		for _, s := range sessions {
			require.NoError(t, s.Close())
		}
	}()
	return run(t, m, inputs, func(made func(models.Loader, xnnpack.WeightsCache)) {
		session, err := cache.NewSession(data)
		require.NoError(t, err)
		sessions = append(sessions, session)
		made(session, session)
		require.NoError(t, session.Finalize())
	}, func() {})
}

// run computes the model's stages. place makes the runtime of each where its packed weights are to be, and all is what
// comes when they are made.
func run(t testing.TB, m models.Model, inputs [][]float32, place func(func(models.Loader, xnnpack.WeightsCache)),
	all func()) (out [][]float32) {
	t.Helper()
	stages, between := models.StagesOf(m)
	runtimes := make([]*xnnpack.Runtime, len(stages))
	for i, stage := range stages {
		if stage.Subgraph == nil {
			continue
		}
		place(func(l models.Loader, cache xnnpack.WeightsCache) {
			s := defined(t, stage, l)
			r, err := xnnpack.NewRuntime(s, &xnnpack.RuntimeOptions{WeightsCache: cache})
			require.NoError(t, err)
			runtimes[i] = r
			require.NoError(t, s.Delete())
		})
		defer func() { require.NoError(t, runtimes[i].Delete()) }()
	}
	all()
	var buffers []*xnnpack.Buffer
	buffer := func(size int, err error) {
		require.NoError(t, err)
		b, err := xnnpack.NewBuffer(size)
		require.NoError(t, err)
		t.Cleanup(b.Free)
		buffers = append(buffers, b)
	}
	for i, v := range m.Inputs() {
		buffer(v.ByteSize())
		store(t, v, buffers[i], inputs[i])
	}
	for _, v := range m.Outputs() {
		buffer(v.ByteSize())
	}
	for _, of := range between {
		buffer(of.Size, nil)
	}
	for i, stage := range stages {
		external := map[xnnpack.ValueID][]byte{}
		var contents [][]byte
		for id, k := range slices.Concat(stage.Inputs, stage.Outputs) {
			contents = append(contents, buffers[k].Bytes())
			external[xnnpack.ValueID(id)] = contents[id]
		}
		if r := runtimes[i]; r != nil {
			require.NoError(t, r.Reshape())
			checkShapes(t, m, stage, r)
			require.NoError(t, r.Setup(external))
			require.NoError(t, r.Invoke())
		} else {
			n := len(stage.Inputs)
			require.NoError(t, stage.Compute(contents[:n], contents[n:]))
		}
	}
	for i, v := range m.Outputs() {
		out = append(out, fetch(v, buffers[len(inputs)+i]))
	}
	return out
}

// defined returns a stage's subgraph. The test is skipped where this XNNPACK is known to compute it wrongly.
func defined(t testing.TB, stage models.Stage, l models.Loader) *xnnpack.Subgraph {
	t.Helper()
	s, err := stage.Subgraph(l)
	if errors.Is(err, xnnpack.ErrKnownDefect) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return s
}

// checkShapes checks those of the model's outputs that a stage computes.
func checkShapes(t testing.TB, m models.Model, stage models.Stage, r *xnnpack.Runtime) {
	t.Helper()
	outputs := m.Outputs()
	for i, k := range stage.Outputs {
		if k -= len(m.Inputs()); k >= 0 && k < len(outputs) {
			shape, err := r.ExternalShape(xnnpack.ValueID(len(stage.Inputs) + i))
			require.NoError(t, err)
			if want := outputs[k].Shape; len(want) == 0 && len(shape) == 1 {
				require.Equal(t, []int{1}, shape, "of a number, to XNNPACK")
			} else {
				require.Equal(t, append([]int{}, want...), append([]int{}, shape...), "of %s", outputs[k].Name)
			}
		}
	}
}

// numbers are those of a value's content, as they are stored: so many steps from zero.
func numbers(v models.Value, b *xnnpack.Buffer) (stored compute.Array, step float32, zero float64) {
	element, step := v.Element(), v.Quantization.Scale
	if v.Widened() {
		element = models.Float32
	}
	if step == 0 {
		step = 1
	}
	return compute.Array{Element: element, Data: b.Bytes()}, step, float64(v.Quantization.ZeroPoint)
}

// store quantises where the input is quantised.
func store(t testing.TB, v models.Value, b *xnnpack.Buffer, x []float32) {
	t.Helper()
	stored, step, zero := numbers(v, b)
	require.Len(t, x, len(stored.Data)/stored.Element.Size())
	for i, f := range x {
		n := float64(f / step)
		if stored.Element != models.Float32 {
			n = math.RoundToEven(n)
		}
		stored.Put(i, n+zero)
	}
}

func fetch(v models.Value, b *xnnpack.Buffer) []float32 {
	stored, step, zero := numbers(v, b)
	out := make([]float32, len(stored.Data)/stored.Element.Size())
	for i := range out {
		out[i] = step * float32(stored.Number(i)-zero)
	}
	return out
}

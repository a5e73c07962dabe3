//go:build cgo

package xpwc_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/generated"
	"xpwc/internal/tests/testkit"
	"xpwc/models"
	"xpwc/models/tflite"
	"xpwc/xnnpack"
)

// The benchmarks report ratios of medians, measured alternately in one run: times of this kind are not comparable
// between machines, nor between runs on one. The work is a stack of Llama-3.2-1B's shape, 4 layers in qd8-f32-qc8w.
var benchStack = generated.Stack(4, true)

// stackRuntime is the stack's runtime with its buffers, ready to be invoked.
type stackRuntime struct {
	*xnnpack.Runtime
	session *xpwc.Session  // nil: XNNPACK's own heap
	values  []models.Value // inputs and outputs, with their buffers
	buffers map[xnnpack.ValueID]*xnnpack.Buffer
}

func benchModel(b *testing.B, stack generated.Model) *tflite.Model {
	b.Helper()
	path := filepath.Join(b.TempDir(), "m.tflite")
	require.NoError(b, stack.Generate(b.Context(), path, nil))
	m, err := tflite.Open(testkit.Settled(b, path), nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, m.Close()) })
	return m
}

// create makes the runtime as a host does, Finalize included. A nil cache is none.
func create(b *testing.B, m models.Model, c *xpwc.Cache) (r stackRuntime, took time.Duration) {
	b.Helper()
	start := time.Now()
	r, err := newStackRuntime(m, c)
	took = time.Since(start)
	require.NoError(b, err)
	return r, took
}

func newStackRuntime(m models.Model, c *xpwc.Cache) (r stackRuntime, err error) {
	r.values = append(m.Inputs(), m.Outputs()...)
	r.buffers = map[xnnpack.ValueID]*xnnpack.Buffer{}
	memory := models.NewMemory(m.DataMap())
	var loader models.Loader = memory
	options := &xnnpack.RuntimeOptions{}
	if c != nil {
		if r.session, err = c.NewSession(m.DataMap()); err != nil {
			return r, err
		}
		loader, options.WeightsCache = r.session, r.session
	}
	g, err := m.Subgraph(loader)
	if err != nil {
		return r, err
	}
	if r.Runtime, err = xnnpack.NewRuntime(g, options); err != nil {
		return r, err
	}
	if err := g.Delete(); err != nil {
		return r, err
	}
	if c == nil {
		memory.Finalize()
		return r, nil
	}
	err = r.session.Finalize()
	return r, err
}

func (r *stackRuntime) prepare(b *testing.B) {
	b.Helper()
	require.NoError(b, r.Reshape())
	values := map[xnnpack.ValueID][]byte{}
	for _, v := range r.values {
		n := xnnpack.Elements(v.Shape)
		buffer, err := xnnpack.NewBuffer(4 * n)
		require.NoError(b, err)
		copy(buffer.Bytes(), floats(n, 5))
		r.buffers[v.ID], values[v.ID] = buffer, buffer.Bytes()
	}
	require.NoError(b, r.Setup(values))
}

func (r *stackRuntime) invoke(b *testing.B) time.Duration {
	start := time.Now()
	require.NoError(b, r.Invoke())
	return time.Since(start)
}

func (r *stackRuntime) delete(b *testing.B) {
	b.Helper()
	require.NoError(b, r.close())
}

func (r *stackRuntime) close() error {
	err := r.Delete()
	if r.session != nil {
		err = errors.Join(err, r.session.Close())
	}
	for _, buffer := range r.buffers {
		buffer.Free()
	}
	return err
}

// packed returns the path of a cache that has the model's packed weights.
func packed(b *testing.B, m models.Model) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "cache")
	c, err := xpwc.Open(path, nil)
	require.NoError(b, err)
	r, _ := create(b, m, c)
	r.delete(b)
	require.NoError(b, c.Close())
	return path
}

func median(times []time.Duration) float64 {
	times = slices.Sorted(slices.Values(times))
	return float64(times[len(times)/2])
}

// BenchmarkCreate compares creating the runtime cold and warm with creating it without a cache.
func BenchmarkCreate(b *testing.B) {
	m := benchModel(b, benchStack)
	dir := b.TempDir()
	var none, cold, warm []time.Duration
	for i := range max(b.N, 5) {
		r, took := create(b, m, nil)
		none = append(none, took)
		r.delete(b)

		path := filepath.Join(dir, fmt.Sprint(i))
		c, err := xpwc.Open(path, nil)
		require.NoError(b, err)
		r, took = create(b, m, c)
		cold = append(cold, took)
		r.delete(b)
		require.NoError(b, c.Close())

		c, err = xpwc.Open(path, nil)
		require.NoError(b, err)
		r, took = create(b, m, c)
		warm = append(warm, took)
		r.delete(b)
		require.Zero(b, c.Stats().Misses)
		require.NoError(b, c.Close())
		require.NoError(b, os.Remove(path))
	}
	b.ReportMetric(median(none)/1e6, "none-ms")
	b.ReportMetric(median(cold)/median(none), "cold/none")
	b.ReportMetric(median(warm)/median(none), "warm/none")
}

// BenchmarkSteadyInference compares inference on mapped packed weights with inference on XNNPACK's own heap.
func BenchmarkSteadyInference(b *testing.B) {
	m := benchModel(b, benchStack)
	c, err := xpwc.Open(packed(b, m), nil)
	require.NoError(b, err)
	mapped, _ := create(b, m, c)
	heap, _ := create(b, m, nil)
	mapped.prepare(b)
	heap.prepare(b)
	first := mapped.invoke(b)
	heap.invoke(b)
	for id, buffer := range heap.buffers {
		require.Equal(b, buffer.Bytes(), mapped.buffers[id].Bytes())
	}
	var onHeap, onMapped []time.Duration
	for range max(b.N, 50) {
		onHeap = append(onHeap, heap.invoke(b))
		onMapped = append(onMapped, mapped.invoke(b))
	}
	mapped.delete(b)
	heap.delete(b)
	require.NoError(b, c.Close())
	b.ReportMetric(median(onHeap)/1e6, "heap-ms")
	b.ReportMetric(median(onMapped)/median(onHeap), "mapped/heap")
	b.ReportMetric(float64(first)/median(onMapped), "first/steady")
}

// BenchmarkVerify compares warm loads that check more or less with creating the runtime without a cache; and, with the
// load that reads no payloads, what verifying in the background makes of a load, of the first inference after it, and
// of inferences while it reads. The order of the two changes from one round to the next.
func BenchmarkVerify(b *testing.B) {
	m := benchModel(b, benchStack)
	path := packed(b, m)
	modes := []struct {
		name    string
		options xpwc.Options
	}{
		{"structure/none", xpwc.Options{Verify: xpwc.VerifyStructure}},
		{"background/none", xpwc.Options{Verify: xpwc.VerifyInBackground}},
		{"prefetch/none", xpwc.Options{Verify: xpwc.VerifyStructure, Prefetch: true}},
		{"on-use/none", xpwc.Options{Verify: xpwc.VerifyOnUse}},
	}
	var none []time.Duration
	times := make([][]time.Duration, len(modes))
	for round := range max(b.N, 3*len(modes)) {
		r, took := create(b, m, nil)
		none = append(none, took)
		r.delete(b)
		for i := range modes {
			i = (i + round) % len(modes) // the first after XNNPACK's own heap takes longer
			mode := &modes[i]
			start := time.Now()
			c, err := xpwc.Open(path, &mode.options)
			require.NoError(b, err)
			r, _ := create(b, m, c)
			times[i] = append(times[i], time.Since(start))
			r.delete(b)
			require.NoError(b, c.Close())
		}
	}
	b.ReportMetric(median(none)/1e6, "none-ms")
	for i, mode := range modes {
		b.ReportMetric(median(times[i])/median(none), mode.name)
	}
	benchBackground(b, m, path)
}

func benchBackground(b *testing.B, m models.Model, path string) {
	ways := [2]xpwc.Verify{xpwc.VerifyStructure, xpwc.VerifyInBackground}
	var load, first, beside [2][]time.Duration
	inPairs := func(rounds int, measure func(round, way int, c *xpwc.Cache, r *stackRuntime, loaded time.Duration)) {
		for round := range max(b.N, rounds) {
			for i := range ways {
				way := (i + round) % 2
				start := time.Now()
				c, err := xpwc.Open(path, &xpwc.Options{Verify: ways[way]})
				require.NoError(b, err)
				r, _ := create(b, m, c)
				measure(round, way, c, &r, time.Since(start))
				r.delete(b)
				require.NoError(b, c.Close())
			}
		}
	}
	inPairs(2001, func(_, way int, _ *xpwc.Cache, _ *stackRuntime, loaded time.Duration) {
		load[way] = append(load[way], loaded)
	})
	inPairs(201, func(round, way int, c *xpwc.Cache, r *stackRuntime, _ time.Duration) {
		r.prepare(b)
		first[way] = append(first[way], r.invoke(b))
		if round%40 != 0 { // the rest takes long, because verifying waits at first
			return
		}
		for ways[way] == xpwc.VerifyInBackground && c.Stats().Verified.Entries == 0 {
			r.invoke(b)
		}
		for range 10 {
			took := r.invoke(b)
			if way == 0 || c.Stats().Unverified.Entries > 0 {
				beside[way] = append(beside[way], took)
			}
		}
	})
	b.ReportMetric(medianRatio(load[1], load[0]), "background/structure-load")
	b.ReportMetric(medianRatio(first[1], first[0]), "background/structure-first")
	b.ReportMetric(median(beside[1])/median(beside[0]), "background/structure-beside")
}

// medianRatio compares what was measured in pairs: what slows a machine down for a while slows both of a pair.
func medianRatio(times, others []time.Duration) float64 {
	ratios := make([]float64, len(times))
	for i := range times {
		ratios[i] = float64(times[i]) / float64(others[i])
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

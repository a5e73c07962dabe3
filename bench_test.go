//go:build cgo

package xpwc_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/generated"
	"xpwc/internal/tests/harness"
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
		copy(buffer.Bytes(), harness.Floats(n, 5))
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
	var uncached, cold, warm []time.Duration
	for i := range max(b.N, 5) {
		r, took := create(b, m, nil)
		uncached = append(uncached, took)
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
	b.ReportMetric(median(uncached)/1e6, "none-ms")
	b.ReportMetric(median(cold)/median(uncached), "cold/none")
	b.ReportMetric(median(warm)/median(uncached), "warm/none")
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
	var uncached []time.Duration
	times := make([][]time.Duration, len(modes))
	for round := range max(b.N, 3*len(modes)) {
		r, took := create(b, m, nil)
		uncached = append(uncached, took)
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
	b.ReportMetric(median(uncached)/1e6, "none-ms")
	for i, mode := range modes {
		b.ReportMetric(median(times[i])/median(uncached), mode.name)
	}
	benchBackground(b, m, path)
}

func benchBackground(b *testing.B, m models.Model, path string) {
	ways := [2]xpwc.Verify{xpwc.VerifyStructure, xpwc.VerifyInBackground}
	var load, first, background [2][]time.Duration
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
				background[way] = append(background[way], took)
			}
		}
	})
	b.ReportMetric(medianRatio(load[1], load[0]), "background/structure-load")
	b.ReportMetric(medianRatio(first[1], first[0]), "background/structure-first")
	b.ReportMetric(median(background[1])/median(background[0]), "background/structure-beside")
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

// benchRounds is the number of rounds of the benchmarks of threads that share a cache. Figures are medians of ratios
// within a round, because other work on the machine spoils few rounds of several.
const benchRounds = 7

// inParallel runs each function on a thread of its own. They start together, and it returns when the last has ended.
func inParallel(b *testing.B, work ...func() error) (took time.Duration) {
	b.Helper()
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	errs := make([]error, len(work))
	ready.Add(len(work))
	for i, do := range work {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-begin
			errs[i] = do()
		})
	}
	ready.Wait()
	start := time.Now()
	close(begin)
	done.Wait()
	took = time.Since(start)
	require.NoError(b, errors.Join(errs...))
	return took
}

// ratios collects figures by name, one a round, of which only quotients are reported.
type ratios map[string][]float64

func (r ratios) add(name string, figure float64) { r[name] = append(r[name], figure) }

func (r ratios) report(b *testing.B, name, numerator, denominator string) {
	b.Helper()
	quotients := make([]float64, len(r[numerator]))
	for i := range quotients {
		quotients[i] = r[numerator][i] / r[denominator][i]
	}
	slices.Sort(quotients)
	b.ReportMetric(quotients[len(quotients)/2], name)
}

// executions invokes each runtime repeatedly for a while, each on its thread, while another thread calls background, if
// that is not nil. It returns the sum of their invocations per second.
func executions(b *testing.B, executors []stackRuntime, background func() error) (perSecond float64) {
	const window = 100 * time.Millisecond
	repeat := func(do func() error, perSecond *float64) func() error {
		return func() error {
			n, start := 0, time.Now()
			for ; time.Since(start) < window; n++ {
				if err := do(); err != nil {
					return err
				}
			}
			*perSecond = float64(n) / time.Since(start).Seconds()
			return nil
		}
	}
	rates := make([]float64, len(executors)+1)
	var work []func() error
	for i, e := range executors {
		work = append(work, repeat(e.Invoke, &rates[i]))
	}
	if background != nil {
		work = append(work, repeat(background, new(float64)))
	}
	inParallel(b, work...)
	for _, rate := range rates {
		perSecond += rate
	}
	return perSecond
}

// BenchmarkExecutors compares runtimes that share a cache with runtimes that have packed weights of their own, each on
// a thread, in executions per second: how they scale with their number, and how much a thread costs them that creates
// and deletes runtimes, warm or without a cache, or that only computes.
func BenchmarkExecutors(b *testing.B) {
	m := benchModel(b, generated.Stack(1, true))
	c, err := xpwc.Open(packed(b, m), nil)
	require.NoError(b, err)
	threads := []int{1, 2, 4}
	highest := slices.Max(threads)
	var withCache, without []stackRuntime
	for range highest {
		cached, _ := create(b, m, c)
		cached.prepare(b)
		withCache = append(withCache, cached)
		plain, _ := create(b, m, nil)
		plain.prepare(b)
		without = append(without, plain)
	}
	creating := func(c *xpwc.Cache) func() error {
		return func() error {
			r, err := newStackRuntime(m, c)
			if err != nil {
				return err
			}
			return r.close()
		}
	}
	computing := func() error {
		for start := time.Now(); time.Since(start) < time.Millisecond; {
		}
		return nil
	}
	figures := ratios{}
	executions(b, withCache, nil)
	executions(b, without, nil)
	for range max(b.N, benchRounds) {
		for _, n := range threads {
			figures.add(fmt.Sprint("cache ", n), executions(b, withCache[:n], nil))
			figures.add(fmt.Sprint("none ", n), executions(b, without[:n], nil))
			figures.add(fmt.Sprint("cache, creating ", n), executions(b, withCache[:n], creating(c)))
			figures.add(fmt.Sprint("cache, computing ", n), executions(b, withCache[:n], computing))
			figures.add(fmt.Sprint("none, creating ", n), executions(b, without[:n], creating(nil)))
		}
	}
	require.Equal(b, 7, c.Stats().Entries)
	require.Zero(b, c.Stats().Misses)
	for i := range highest {
		withCache[i].delete(b)
		without[i].delete(b)
	}
	require.NoError(b, c.Close())
	for _, n := range threads {
		name := func(name string) string { return fmt.Sprint(name, " ", n) }
		unit := func(name string) string { return fmt.Sprintf("%s@%d", name, n) }
		figures.report(b, unit("cache/none"), name("cache"), name("none"))
		figures.report(b, unit("cache-creating/alone"), name("cache, creating"), name("cache"))
		figures.report(b, unit("cache-computing/alone"), name("cache, computing"), name("cache"))
		figures.report(b, unit("none-creating/alone"), name("none, creating"), name("none"))
		if n > 1 {
			figures.report(b, fmt.Sprintf("cache-%d/1", n), name("cache"), "cache 1")
			figures.report(b, fmt.Sprintf("none-%d/1", n), name("none"), "none 1")
		}
	}
}

// A relative is one of several models of one shape whose weights all differ.
type relative struct {
	*tflite.Model
	prefix string // of its tensors' names
}

// relatives makes n models of a layer. What was trained from one model has the same names, by which the cache finds
// all of them; others have names of their own.
func relatives(b *testing.B, n int, sameNames bool) (complete []relative) {
	b.Helper()
	stack := generated.Stack(1, true)
	first := filepath.Join(b.TempDir(), "m.tflite")
	require.NoError(b, stack.Generate(b.Context(), first, nil))
	content, err := os.ReadFile(first)
	require.NoError(b, err)
	for i := range n {
		const step = 1 << 20 // divides the sizes of all matrices
		for offset := len(content) - int(stack.WeightBytes()); offset < len(content); offset += step {
			content[offset] = byte(i)
		}
		path := fmt.Sprint(first, i)
		require.NoError(b, os.WriteFile(path, content, 0o600))
		m, err := tflite.Open(testkit.Settled(b, path), nil)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, m.Close()) })
		r := relative{Model: m}
		if !sameNames {
			r.prefix = fmt.Sprint("model", i, "/")
		}
		complete = append(complete, r)
	}
	return complete
}

func (r relative) DataMap() xpwc.DataMap { return r }

func (r relative) Tensor(name string) (xpwc.Tensor, error) {
	return r.Model.DataMap().Tensor(strings.TrimPrefix(name, r.prefix))
}

func (r relative) Subgraph(l models.Loader) (*xnnpack.Subgraph, error) {
	if _, without := l.(*models.Memory); without {
		return r.Model.Subgraph(l)
	}
	return r.Model.Subgraph(prefixed{l, r.prefix})
}

// prefixed loads by longer names.
type prefixed struct {
	models.Loader
	prefix string
}

func (p prefixed) Load(name string, options ...xpwc.LoadOption) ([]byte, error) {
	return p.Loader.Load(p.prefix+name, options...)
}

// BenchmarkCreateAtOnce compares creating runtimes of different models at once, each on a thread of its own, with the
// same without a cache: cold into one new cache file, and warm.
func BenchmarkCreateAtOnce(b *testing.B) {
	for name, shared := range map[string]bool{"other-names": false, "same-names": true} {
		b.Run(name, func(b *testing.B) { benchCreateAtOnce(b, shared) })
	}
}

func benchCreateAtOnce(b *testing.B, sameNames bool) {
	threads := []int{1, 2, 4}
	models := relatives(b, slices.Max(threads), sameNames)
	path := filepath.Join(b.TempDir(), "cache")
	createAll := func(n int, c *xpwc.Cache) (seconds float64) {
		harness.BackMemory(b, int64(n)*generated.Stack(1, true).WeightBytes())
		runtimes := make([]stackRuntime, n)
		work := make([]func() error, n)
		for i := range work {
			work[i] = func() (err error) {
				runtimes[i], err = newStackRuntime(models[i], c)
				return err
			}
		}
		took := inParallel(b, work...)
		for _, r := range runtimes {
			r.delete(b)
		}
		return took.Seconds()
	}
	figures := ratios{}
	for range max(b.N, benchRounds) {
		for _, n := range threads {
			figures.add(fmt.Sprint("none ", n), createAll(n, nil))
			c, err := xpwc.Open(path, nil)
			require.NoError(b, err)
			figures.add(fmt.Sprint("cold ", n), createAll(n, c))
			require.NoError(b, c.Save())
			figures.add(fmt.Sprint("warm ", n), createAll(n, c))
			stats := c.Stats()
			require.NoError(b, c.Close())
			require.EqualValues(b, 7*n, stats.Packed.Entries, "the models have nothing in common")
			require.EqualValues(b, 7*n, stats.Hits.Entries)
			require.Empty(b, stats.Private)
			require.NoError(b, os.Remove(path))
		}
	}
	for _, n := range threads {
		for _, kind := range []string{"none", "cold", "warm"} {
			mine := fmt.Sprint(kind, " ", n)
			if kind != "none" {
				figures.report(b, fmt.Sprintf("%s/none@%d", kind, n), mine, fmt.Sprint("none ", n))
			}
			if n > 1 && kind != "warm" {
				figures.report(b, fmt.Sprintf("%s-%d/1", kind, n), mine, kind+" 1")
			}
		}
	}
}

// BenchmarkCreateSameAtOnce compares creating eight runtimes of one model at once, into a new cache file, with creating
// them one after the other: wall time, processor time, and how often an entry is packed.
func BenchmarkCreateSameAtOnce(b *testing.B) {
	const sessions = 8
	m, cache := benchModel(b, generated.Stack(1, true)), filepath.Join(b.TempDir(), "cache")
	create := func(offset, once int) (stats xpwc.Stats, wall, processor float64) {
		c, err := xpwc.Open(cache, nil)
		require.NoError(b, err)
		runtimes := make([]stackRuntime, offset*once)
		began, start := harness.ProcessorTime(), time.Now()
		for i := range once {
			work := make([]func() error, offset)
			for k := range work {
				work[k] = func() (err error) {
					runtimes[i*offset+k], err = newStackRuntime(m, c)
					return err
				}
			}
			inParallel(b, work...)
		}
		wall, processor = time.Since(start).Seconds(), (harness.ProcessorTime() - began).Seconds()
		stats = c.Stats()
		for _, r := range runtimes {
			r.delete(b)
		}
		require.NoError(b, c.Close())
		require.NoError(b, os.Remove(cache))
		return stats, wall, processor
	}
	figures := ratios{}
	for range max(b.N, benchRounds) {
		single, wall, processor := create(1, 1)
		figures.add("wall of one", wall)
		figures.add("processor of one", processor)
		figures.add("packings of one", float64(single.Packed.Entries+single.Reused.Entries))
		_, wall, processor = create(1, sessions)
		figures.add("wall in turn", wall)
		figures.add("processor in turn", processor)
		complete, wall, processor := create(sessions, 1)
		figures.add("wall", wall)
		figures.add("processor", processor)
		figures.add("packings", float64(complete.Packed.Entries+complete.Reused.Entries))
	}
	figures.report(b, "packings/one", "packings", "packings of one")
	figures.report(b, "wall/one", "wall", "wall of one")
	figures.report(b, "wall/in-turn", "wall", "wall in turn")
	figures.report(b, "processor/one", "processor", "processor of one")
	figures.report(b, "processor/in-turn", "processor", "processor in turn")
}

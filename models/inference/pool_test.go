//go:build cgo

package inference_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models"
	"xpwc/models/inference"
	"xpwc/models/tflite"
	"xpwc/xnnpack"
)

// gated is a model of one number that computes nothing but which version it is, and waits meanwhile: it sends its input
// when it is entered, and goes on when it is let.
type gated struct {
	version float32
	entered chan float32
	leave   chan struct{}
	states  []models.Buffer
	missing bool // constants
	panics  bool // when its subgraph is made
	closed  atomic.Int64
}

func newGated(version float32) *gated {
	return &gated{version: version, entered: make(chan float32), leave: make(chan struct{})}
}

func (g *gated) Stages() ([]models.Stage, []models.Buffer) {
	stages := []models.Stage{{Inputs: []int{0}, Outputs: []int{1}, Compute: func(in, out [][]byte) error {
		g.entered <- math.Float32frombits(binary.NativeEndian.Uint32(in[0]))
		<-g.leave
		binary.NativeEndian.PutUint32(out[0], math.Float32bits(g.version))
		return nil
	}}}
	if g.missing || g.panics {
		stages = append(stages, models.Stage{Subgraph: g.Subgraph})
	}
	return stages, g.states
}

func (g *gated) value(name string) []models.Value {
	return []models.Value{{Name: name, Type: xnnpack.Float32, Shape: []int{1}}}
}

func (g *gated) Inputs() []models.Value  { return g.value("in") }
func (g *gated) Outputs() []models.Value { return g.value("out") }
func (g *gated) DataMap() xpwc.DataMap   { return noModel{} }
func (g *gated) WeightBytes() int64      { return 0 }
func (g *gated) Close() error            { g.closed.Add(1); return nil }
func (g *gated) let(n int) {
	for range n {
		g.leave <- struct{}{}
	}
}
func (g *gated) Subgraph(l models.Loader) (*xnnpack.Subgraph, error) {
	if g.panics {
		panic("the model has a fault")
	}
	_, err := l.Load("a constant")
	return nil, err
}

func loadGated(t *testing.T, g *gated, o *inference.Options) *inference.Runner {
	t.Helper()
	r, err := inference.Load(g, "", o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// until waits until the condition holds for the Runner's figures.
func until(r *inference.Runner, holds func(inference.Stats) bool) {
	for !holds(r.Stats()) {
		runtime.Gosched()
	}
}

// untilQueued waits until so many Runs are in the queue. One is counted in Stats a moment before it is there.
func untilQueued(n int) {
	stacks := make([]byte, 1<<20)
	for {
		queued := 0
		for goroutine := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			state, calls, _ := strings.Cut(goroutine, "\n")
			if strings.Contains(state, "[select") && strings.Contains(calls, "inference.(*Runner).wait(") {
				queued++
			}
		}
		if queued == n {
			return
		}
		runtime.Gosched()
	}
}

// begun starts a Run, and returns where its version or its error will come.
func begun(ctx context.Context, r *inference.Runner, input float32) <-chan any {
	done := make(chan any, 1)
	go func() {
		results, err := r.Run(ctx, []float32{input})
		if err != nil {
			done <- err
			return
		}
		done <- results[0].Data.([]float32)[0]
	}()
	return done
}

func TestRunsBeyondTheInstancesWaitInTheOrderOfTheirComing(t *testing.T) {
	g := newGated(1)
	r := loadGated(t, g, &inference.Options{Instances: 2})
	var calls []<-chan any
	for i := range 2 {
		calls = append(calls, begun(t.Context(), r, float32(i)))
		require.EqualValues(t, i, <-g.entered)
	}
	for i := range 5 {
		calls = append(calls, begun(t.Context(), r, float32(2+i)))
		untilQueued(i + 1)
	}
	require.Equal(t, 2, r.Stats().Running)
	require.Equal(t, 5, r.Stats().Waiting)
	for i := range 5 {
		g.let(1)
		require.EqualValues(t, 2+i, <-g.entered)
	}
	g.let(2)
	for _, done := range calls {
		require.EqualValues(t, 1, <-done)
	}
	s := r.Stats()
	require.Positive(t, s.Waited)
	s.Waited = 0
	require.Equal(t, inference.Stats{Instances: 2, Runs: 7}, s)
}

func TestARunDoesNotWaitLongerThanItsContext(t *testing.T) {
	g := newGated(1)
	r := loadGated(t, g, nil)
	first := begun(t.Context(), r, 1)
	<-g.entered
	ctx, cancel := context.WithCancel(t.Context())
	second, third := begun(ctx, r, 2), begun(t.Context(), r, 3)
	until(r, func(s inference.Stats) bool { return s.Waiting == 2 })
	cancel()
	require.ErrorIs(t, (<-second).(error), context.Canceled)
	require.ErrorIs(t, r.Reset(ctx), context.Canceled)
	g.let(1)
	require.EqualValues(t, 1, <-first)
	require.EqualValues(t, 3, <-g.entered)
	g.let(1)
	require.EqualValues(t, 1, <-third)
	require.ErrorIs(t, (<-begun(ctx, r, 4)).(error), context.Canceled, "also where none would wait")
	s := r.Stats()
	require.EqualValues(t, 2, s.Runs)
	require.EqualValues(t, 3, s.Abandoned)
	require.Zero(t, s.Running)
}

func TestANewVersionServesWhoWaitsAndTheOldOneEndsWithItsLastRun(t *testing.T) {
	old, new := newGated(1), newGated(2)
	r := loadGated(t, old, nil)
	computing := begun(t.Context(), r, 1)
	<-old.entered
	waiting := begun(t.Context(), r, 2)
	until(r, func(s inference.Stats) bool { return s.Waiting == 1 })
	reloaded := make(chan error)
	go func() { reloaded <- r.Reload(new) }()
	until(r, func(s inference.Stats) bool { return s.Reloads == 1 })
	require.Zero(t, old.closed.Load(), "a Run computes with it")

	old.let(1)
	require.EqualValues(t, 1, <-computing)
	require.NoError(t, <-reloaded)
	require.EqualValues(t, 1, old.closed.Load())
	require.EqualValues(t, 2, <-new.entered)
	new.let(1)
	require.EqualValues(t, 2, <-waiting)
	require.NoError(t, r.Close())
	require.EqualValues(t, 1, new.closed.Load())
	late := newGated(3)
	require.ErrorIs(t, r.Reload(late), xpwc.ErrClosed)
	require.EqualValues(t, 1, late.closed.Load())
}

func TestAVersionThatCannotBeLoadedLeavesTheOneBefore(t *testing.T) {
	good, bad := newGated(1), newGated(2)
	bad.missing = true
	r := loadGated(t, good, nil)
	require.ErrorIs(t, r.Reload(bad), xpwc.ErrUnknownTensor)
	require.EqualValues(t, 1, bad.closed.Load())
	require.Zero(t, good.closed.Load())
	done := begun(t.Context(), r, 1)
	<-good.entered
	good.let(1)
	require.EqualValues(t, 1, <-done)
	s := r.Stats()
	require.EqualValues(t, 1, s.FailedReloads)
	require.Zero(t, s.Reloads)
}

func TestNothingStaysOpenOfAModelThatPanicsWhenItIsLoaded(t *testing.T) {
	cache, err := xpwc.Open(cacheFile(t), nil)
	require.NoError(t, err)
	good := newGated(1)
	r := loadGated(t, good, &inference.Options{Cache: cache})
	for name, load := range map[string]func(g *gated){
		"loaded":   func(g *gated) { _, _ = inference.Load(g, "", &inference.Options{Cache: cache}) },
		"reloaded": func(g *gated) { _ = r.Reload(g) },
	} {
		bad := newGated(2)
		bad.panics = true
		require.PanicsWithValue(t, "the model has a fault", func() { load(bad) }, name)
		require.EqualValues(t, 1, bad.closed.Load(), name)
	}
	require.EqualValues(t, 1, r.Stats().FailedReloads, "who recovers sees it in the figures")
	done := begun(t.Context(), r, 1)
	<-good.entered
	good.let(1)
	require.EqualValues(t, 1, <-done, "the version before goes on")
	require.NoError(t, r.Close())
	require.NoError(t, cache.Close(), "no session is open")
}

func TestCloseWaitsForWhatComputesAndSendsAwayWhatWaits(t *testing.T) {
	g := newGated(1)
	r := loadGated(t, g, nil)
	computing := begun(t.Context(), r, 1)
	<-g.entered
	waiting := begun(t.Context(), r, 2)
	until(r, func(s inference.Stats) bool { return s.Waiting == 1 })
	closed := make(chan error)
	go func() { closed <- r.Close() }()
	require.ErrorIs(t, (<-waiting).(error), xpwc.ErrClosed)
	require.Zero(t, g.closed.Load())
	g.let(1)
	require.EqualValues(t, 1, <-computing)
	require.NoError(t, <-closed)
	require.EqualValues(t, 1, g.closed.Load())
}

// What the instances compute with XNNPACK while versions change is right, and nothing is dropped.
func TestVersionsChangeUnderLoad(t *testing.T) {
	picture := sequence(256 * 256 * 3)
	cache, err := xpwc.Open(cacheFile(t), nil)
	require.NoError(t, err)
	r, err := tflite.Load(pose, "", &tflite.Options{Options: inference.Options{Cache: cache, Instances: 3, Threads: 2}})
	require.NoError(t, err)
	require.Same(t, cache, r.Cache())
	packed := cache.Stats().Packed
	require.Positive(t, packed.Entries)
	want, err := r.Run(t.Context(), picture)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			var results []inference.Result
			for ctx.Err() == nil {
				var err error
				results, err = r.RunInto(t.Context(), results, picture)
				if err != nil || !slices.Equal(want[0].Data.([]float32), results[0].Data.([]float32)) {
					t.Error("other outputs, or ", err)
				}
			}
		})
	}
	for range 5 {
		m, err := tflite.Open(pose, nil)
		require.NoError(t, err)
		require.NoError(t, r.Reload(m))
	}
	stop()
	group.Wait()
	require.Equal(t, packed, cache.Stats().Packed, "an instance packs nothing that another has packed")
	require.Zero(t, r.Stats().Failed+r.Stats().Abandoned)
	require.NoError(t, r.Close())
	require.NoError(t, cache.Save(), "it is the caller's")
	require.NoError(t, cache.Close())
}

func TestResultsAreWrittenWhereTheCallerHasMemory(t *testing.T) {
	r := load(t, mlp)
	rows, width, results := r.Inputs()[0].Shape[0], r.Inputs()[0].Shape[1], r.Outputs()[0].Shape[1]
	input := sequence(rows * width)
	want, err := r.Run(t.Context(), input)
	require.NoError(t, err)
	memory := make([]float32, rows*results)
	reuse := []inference.Result{{Data: memory}}
	for _, n := range []int{rows, 1, 2, rows} {
		got, err := r.RunInto(t.Context(), reuse, input[:n*width])
		require.NoError(t, err)
		require.Same(t, &reuse[0], &got[0])
		data, err := inference.Output[float32](got[0])
		require.NoError(t, err)
		require.Same(t, &memory[0], &data[0])
		require.Len(t, data, n*results)
		require.Equal(t, []int{n, results}, got[0].Shape)
		require.InDeltaSlice(t, want[0].Data.([]float32)[:n*results], data, 1e-5)
	}
	for _, data := range []any{nil, memory[:1:1], make([]int8, len(memory))} {
		got, err := r.RunInto(t.Context(), []inference.Result{{Data: data}}, input)
		require.NoError(t, err)
		require.Equal(t, want, got, "there is new memory")
	}
	_, err = inference.Output[int8](want[0])
	require.ErrorIs(t, err, inference.ErrOutputType)
	require.ErrorContains(t, err, "[]float32, not []int8")
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	cache, err := xpwc.Open("", nil)
	require.NoError(t, err)
	defer cache.Close()
	states := []models.Buffer{{Size: 4, Initial: func([]byte) error { return nil }}}
	for _, c := range []struct {
		file    string
		options inference.Options
		err     error
	}{
		{"", inference.Options{Instances: -1}, inference.ErrOptions},
		{"", inference.Options{CacheFrom: -1}, inference.ErrOptions},
		{cacheFile(t), inference.Options{Cache: cache}, inference.ErrOptions},
		{"", inference.Options{Instances: 2}, inference.ErrStates},
	} {
		g := newGated(1)
		g.states = states
		_, err := inference.Load(g, c.file, &c.options)
		require.ErrorIs(t, err, c.err)
		require.EqualValues(t, 1, g.closed.Load())
	}
}

// A summing model adds its input to a state, in place, and then looks at it: no input is negative. The output is the
// sum. A sum above 100 is an error before the state is changed.
type summing struct{ *gated }

func (summing) Stages() ([]models.Stage, []models.Buffer) {
	number := func(b []byte) float32 { return math.Float32frombits(binary.NativeEndian.Uint32(b)) }
	add := models.Stage{Inputs: []int{2, 0}, Outputs: []int{2}, Updates: true, Compute: func(in, out [][]byte) error {
		sum := number(in[0]) + number(in[1])
		if sum > 100 {
			return errLarge
		}
		binary.NativeEndian.PutUint32(out[0], math.Float32bits(sum))
		return nil
	}}
	look := models.Stage{Inputs: []int{2, 0}, Outputs: []int{1}, Compute: func(in, out [][]byte) error {
		if number(in[1]) < 0 {
			return errNegative
		}
		copy(out[0], in[0])
		return nil
	}}
	zero := func(dst []byte) error { clear(dst); return nil }
	return []models.Stage{add, look}, []models.Buffer{{Size: 4, Initial: zero}}
}

var errLarge, errNegative = errors.New("a large sum"), errors.New("a negative number")

func TestAModelWhoseStatesARunLeftHalfChangedComputesNothingUntilItIsReset(t *testing.T) {
	r, err := inference.Load(summing{newGated(1)}, "", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for range 2 {
		requireSum := func(input, want float32) {
			results, err := r.Run(t.Context(), []float32{input})
			require.NoError(t, err)
			require.Equal(t, []float32{want}, results[0].Data)
		}
		requireSum(1, 1)
		_, err = r.Run(t.Context(), []float32{1000})
		require.ErrorIs(t, err, errLarge)
		require.NotErrorIs(t, err, inference.ErrStatesChanged)
		requireSum(2, 3)
		for _, input := range []float32{-5, 1} {
			_, err = r.Run(t.Context(), []float32{input})
			require.ErrorIs(t, err, inference.ErrStatesChanged)
			require.ErrorIs(t, err, errNegative, "the error tells what changed them")
		}
		require.NoError(t, r.Reset(t.Context()))
	}
}

// A resized model copies its input into a buffer between stages, and XNNPACK copies that to the output. For another
// shape it needs a larger buffer, and a constant that is missing.
type resized struct {
	*gated
	shape   []int
	between int
}

func (m resized) Inputs() []models.Value {
	return []models.Value{{Name: "in", Type: xnnpack.Float32, Shape: m.shape, Dynamic: true}}
}
func (m resized) Outputs() []models.Value { return m.Inputs() }
func (m resized) DynamicDims() [][]int    { return [][]int{{0}} }
func (m resized) Resized(shapes [][]int) (models.Model, error) {
	return resized{newGated(1), shapes[0], 4 << 20}, nil
}

func (m resized) Stages() ([]models.Stage, []models.Buffer) {
	keep := func(in, out [][]byte) error { copy(out[0], in[0]); return nil }
	return []models.Stage{
		{Inputs: []int{0}, Outputs: []int{2}, Compute: keep},
		{Inputs: []int{2}, Outputs: []int{1}, Subgraph: m.Subgraph, Shapes: [][]int{m.shape, m.shape}},
	}, []models.Buffer{{Size: m.between}}
}

func (m resized) Subgraph(l models.Loader) (*xnnpack.Subgraph, error) {
	g, err := xnnpack.NewSubgraph(2)
	if err != nil {
		return nil, err
	}
	values := xnnpack.Tensor{Type: xnnpack.Float32, Shape: m.shape}
	err = errors.Join(g.Input(0, values), g.Output(1, values), g.Add(xnnpack.Copy{Input: 0, Output: 1}))
	if m.between > 8 {
		_, missing := l.Load("a constant")
		err = errors.Join(err, missing)
	}
	if err != nil {
		return nil, errors.Join(err, g.Delete())
	}
	return g, nil
}

func TestAfterShapesThatCannotBeComputedTheFormerOnesAre(t *testing.T) {
	r, err := inference.Load(resized{newGated(1), []int{2}, 8}, "", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for i := range 3 {
		want := []float32{float32(i), 7}
		results, err := r.Run(t.Context(), want)
		require.NoError(t, err)
		require.Equal(t, want, results[0].Data)
		_, err = r.Run(t.Context(), []float32{1})
		require.ErrorIs(t, err, xpwc.ErrUnknownTensor)
	}
}

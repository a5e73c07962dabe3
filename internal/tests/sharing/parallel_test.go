//go:build cgo

package sharing

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/testkit"
	"xpwc/models/safetensors"
	"xpwc/xnnpack"
)

// cachesOfEachKind calls a test with a cache file, one that must not be written, and a cache in memory.
func cachesOfEachKind(t *testing.T, test func(t *testing.T, c *xpwc.Cache)) {
	for name, o := range map[string]*xpwc.Options{"file": {}, "read-only": {ReadOnly: true}, "memory": nil} {
		t.Run(name, func(t *testing.T) {
			path := ""
			if o != nil {
				path = harness.Path(t)
			}
			test(t, harness.OpenCache(t, path, o))
		})
	}
}

// packings returns how many entries were packed, wherever they are.
func packings(s xpwc.Stats) int64 {
	return s.Packed.Entries + s.Reused.Entries + s.Private[xpwc.ReasonReadOnly].Entries
}

// A waiter creates a runtime while another session packs one of its weights.
type waiter struct {
	harness.Chain
	data xpwc.DataMap
	end  func() error
	err  error
	done chan struct{}
}

// begin begins the creation and returns once that waits for another session, or has ended.
func (w *waiter) begin(c *xpwc.Cache, want []float32) error {
	waits := c.Stats().Waits
	w.done = make(chan struct{})
	go func() {
		defer close(w.done)
		w.end, w.err = start(w.Chain, c, w.data, want)
	}()
	for c.Stats().Waits == waits {
		select {
		case <-w.done:
			return errors.Join(errors.New("a session packed what another one was packing"), w.err)
		default:
			runtime.Gosched()
		}
	}
	return nil
}

// runOnce creates the chain's runtime, which must compute what is wanted, and closes it.
func runOnce(m harness.Chain, c *xpwc.Cache, data xpwc.DataMap, want []float32) error {
	end, err := start(m, c, data, want)
	return errors.Join(err, end())
}

// start creates the chain's runtime, which must compute what is wanted, and returns what closes it.
func start(m harness.Chain, c *xpwc.Cache, data xpwc.DataMap, want []float32) (end func() error, err error) {
	s, err := c.NewSession(data)
	if err != nil {
		return func() error { return nil }, err
	}
	r, err := m.Create(s, s.Load)
	err = errors.Join(err, s.Finalize())
	if r == nil {
		return s.Close, err
	}
	end = func() error { return errors.Join(r.Delete(), s.Close()) }
	if err != nil {
		return end, err
	}
	got, err := m.Invoke(r)
	if err == nil && !slices.Equal(got, want) {
		err = errors.New("the outputs are wrong")
	}
	return end, err
}

func TestASessionWaitsForAPackerOfTheSameWeight(t *testing.T) {
	cachesOfEachKind(t, func(t *testing.T, c *xpwc.Cache) {
		tensors := harness.ThreeLayers.Weights(1)
		want := harness.ThreeLayers.Plain(t, tensors)
		second := waiter{Chain: harness.ThreeLayers, data: xpwc.MapOf(tensors)}
		begin := sync.OnceValue(func() error { return second.begin(c, want) })
		first := harness.FillHook{DataMap: xpwc.MapOf(tensors), BeforeFill: func(string) error { return begin() }}
		end, err := start(harness.ThreeLayers, c, first, want)
		require.NoError(t, err)
		<-second.done
		require.NoError(t, errors.Join(second.err, end(), second.end()))
		require.EqualValues(t, 3, packings(c.Stats()))
		require.EqualValues(t, 3, c.Stats().Hits.Entries)
		require.Zero(t, c.Stats().WaitTimeouts)
	})
}

func TestASessionPacksWeightsThatAnotherFailedToPack(t *testing.T) {
	cachesOfEachKind(t, func(t *testing.T, c *xpwc.Cache) {
		tensors := harness.ThreeLayers.Weights(1)
		want := harness.ThreeLayers.Plain(t, tensors)
		second := waiter{Chain: harness.ThreeLayers, data: xpwc.MapOf(tensors)}
		broken := errors.New("the tensor is broken")
		first := harness.FillHook{DataMap: xpwc.MapOf(tensors), BeforeFill: func(name string) error {
			if name != "w2" {
				return nil
			}
			return errors.Join(broken, second.begin(c, want))
		}}
		err := runOnce(harness.ThreeLayers, c, first, want)
		require.ErrorIs(t, err, broken)
		require.NotContains(t, err.Error(), "a session packed")
		<-second.done
		require.NoError(t, errors.Join(second.err, second.end()))
		require.EqualValues(t, 3, packings(c.Stats()))
		require.Zero(t, c.Stats().WaitTimeouts)
	})
}

// Models are opened in the ways of hosts: as one data map for all sessions, or as one for each; with stamps, or with
// digests that are compared.
func TestRuntimesCreatedInParallelPackEachWeightOnce(t *testing.T) {
	const sessions, layers = 8, 12
	m := harness.Chain{Width: 64}
	for i := range layers {
		m.Layers = append(m.Layers, [2]string{fmt.Sprint("w", i), fmt.Sprint("b", i)})
	}
	tensors := m.Weights(1)
	path := filepath.Join(t.TempDir(), "model.safetensors")
	require.NoError(t, os.WriteFile(path, harness.Safetensors(t, tensors), 0o600))
	testkit.Settled(t, path)
	openModel := func(t *testing.T) *safetensors.File {
		data, err := safetensors.Open(path)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, data.Close()) })
		return data
	}
	for name, open := range map[string]func(t *testing.T) func() xpwc.DataMap{
		"in Go's memory": func(*testing.T) func() xpwc.DataMap {
			return func() xpwc.DataMap { return xpwc.MapOf(tensors) }
		},
		"a file opened by each": func(t *testing.T) func() xpwc.DataMap {
			if tensor, err := openModel(t).Tensor("w1"); err != nil || tensor.Identity.Stamp == "" {
				t.Skip("the file system of the temporary directory has no stamps:", err)
			}
			return func() xpwc.DataMap { return openModel(t) }
		},
		"a file opened once, without stamps": func(t *testing.T) func() xpwc.DataMap {
			data := unstamped{openModel(t)}
			return func() xpwc.DataMap { return data }
		},
	} {
		t.Run(name, func(t *testing.T) {
			cachesOfEachKind(t, func(t *testing.T, c *xpwc.Cache) {
				openData := open(t)
				random := rand.New(rand.NewPCG(1, 2))
				var wg sync.WaitGroup
				errs, ends := make([]error, sessions), make([]func() error, sessions)
				begin := make(chan struct{})
				for i := range sessions {
					// a model with the same weights in another order
					mine := harness.Chain{Width: m.Width, Layers: slices.Clone(m.Layers)}
					random.Shuffle(i%4*3, func(a, b int) {
						mine.Layers[a], mine.Layers[b] = mine.Layers[b], mine.Layers[a]
					})
					want, data := mine.Plain(t, tensors), openData()
					wg.Go(func() {
						<-begin
						ends[i], errs[i] = start(mine, c, data, want)
					})
				}
				close(begin)
				wg.Wait()
				for _, end := range ends { // private memory goes with its last session
					errs = append(errs, end())
				}
				require.NoError(t, errors.Join(errs...))
				s := c.Stats()
				require.EqualValues(t, layers, packings(s))
				require.EqualValues(t, (sessions-1)*layers, s.Hits.Entries)
				require.Zero(t, s.WaitTimeouts)
			})
		})
	}
}

// unstamped tensors are known by their digests.
type unstamped struct{ xpwc.DataMap }

func (d unstamped) Tensor(name string) (xpwc.Tensor, error) {
	t, err := d.DataMap.Tensor(name)
	t.Identity.Stamp = ""
	return t, err
}

// Sessions of models that share some weights, with other content under some names, fail at random tensors.
func TestFailingSessionsDoNotBlockOthers(t *testing.T) {
	cachesOfEachKind(t, func(t *testing.T, c *xpwc.Cache) {
		broken := errors.New("the tensor is broken")
		var wg sync.WaitGroup
		errs := make([]error, 8)
		random := rand.New(rand.NewPCG(1, 3))
		for g := range errs {
			var loads []func() error
			for range 25 {
				m, content := harness.Chain{Width: 32}, uint32(random.IntN(2))
				for _, i := range random.Perm(6)[:4] {
					m.Layers = append(m.Layers, [2]string{fmt.Sprint("w", i), fmt.Sprint("b", i)})
				}
				tensors := m.Weights(content)
				failing := "" // none
				if random.IntN(3) == 0 {
					failing = m.Layers[random.IntN(4)][random.IntN(2)]
				}
				data := harness.FillHook{DataMap: xpwc.MapOf(tensors), BeforeFill: func(name string) error {
					runtime.Gosched()
					if name == failing {
						return broken
					}
					return nil
				}}
				want := m.Plain(t, tensors)
				loads = append(loads, func() error {
					err := runOnce(m, c, data, want)
					if failing != "" && errors.Is(err, broken) {
						return nil
					}
					return err // none either if another session packed the broken one
				})
			}
			wg.Go(func() {
				for _, load := range loads {
					errs[g] = errors.Join(errs[g], load())
				}
			})
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		require.Zero(t, c.Stats().WaitTimeouts)
	})
}

// watchedBy gives a file's tensors with another Watch, or none.
type watchedBy struct {
	xpwc.DataMap
	watch xpwc.Watch
}

func (d watchedBy) Tensor(name string) (xpwc.Tensor, error) {
	t, err := d.DataMap.Tensor(name)
	t.Identity.Stamp, t.Identity.Watch = "stamp of "+name, d.watch
	return t, err
}

// changedLater is a Watch of a file that changes after its tensors were loaded.
type changedLater struct{ changed bool }

func (w *changedLater) Changed() (changed bool, err error) {
	changed, w.changed = w.changed, true
	return changed, nil
}

func TestASessionReportsASourceChangeOfASharedEntry(t *testing.T) {
	for name, firstEnds := range map[string]bool{"before it ends": true, "after it ended": false} {
		t.Run(name, func(t *testing.T) {
			data, c := xpwc.MapOf(harness.ThreeLayers.Weights(1)), harness.OpenCache(t, harness.Path(t), nil)
			first, err := c.NewSession(watchedBy{data, &changedLater{}})
			require.NoError(t, err)
			a, err := harness.ThreeLayers.Create(first, first.Load)
			require.NoError(t, err)
			second, err := c.NewSession(watchedBy{data, nil})
			require.NoError(t, err)
			b, err := harness.ThreeLayers.Create(second, second.Load)
			require.NoError(t, err)
			require.EqualValues(t, 3, c.Stats().Hits.Entries)
			if !firstEnds {
				require.NoError(t, second.Finalize())
				require.NoError(t, second.Err())
			}
			require.ErrorIs(t, first.Finalize(), xpwc.ErrSourceChanged)
			require.ErrorIs(t, second.Finalize(), xpwc.ErrSourceChanged)
			require.ErrorIs(t, second.Err(), xpwc.ErrSourceChanged)
			require.NoError(t, errors.Join(a.Delete(), b.Delete(), first.Close(), second.Close()))
		})
	}
}

// Without stamps nobody knows whether two openings of a path are of one file, whose change both would see.
func TestASessionWithAnotherWatchPacksForItself(t *testing.T) {
	for name, reused := range map[string]int64{"one opening": 0, "two openings": 3} {
		t.Run(name, func(t *testing.T) {
			o, c := harness.NewOverwritten(t), harness.OpenCache(t, harness.Path(t), nil)
			data := o.Data
			first, err := c.NewSession(unstamped{data})
			require.NoError(t, err)
			a, err := harness.ThreeLayers.Create(first, first.Load)
			require.NoError(t, err)
			if reused > 0 {
				data, err = safetensors.Open(o.Path)
				require.NoError(t, err)
				defer func() { require.NoError(t, data.Close()) }()
			}
			end, err := start(harness.ThreeLayers, c, unstamped{data}, harness.ThreeLayers.Plain(t, o.Old))
			require.NoError(t, err)
			require.Equal(t, reused, c.Stats().Reused.Entries)
			require.Equal(t, 3-reused, c.Stats().Hits.Entries)
			require.NoError(t, errors.Join(end(), first.Finalize(), a.Delete(), first.Close()))
		})
	}
}

// A session that is not finalized may yet pack a kernel in the second of its ways.
func TestAVariantIsNotSharedBeforeFinalize(t *testing.T) {
	m := harness.Chain{Width: 64, Layers: [][2]string{{"w", ""}, {"w", ""}}}
	row := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, m.Width}}
	filter := xnnpack.Tensor{Name: "w", Type: xnnpack.Float32, Shape: []int{m.Width, m.Width}}
	transposed := xnnpack.FullyConnected{TransposeWeights: true}.Packing(filter, xnnpack.Tensor{}, row, row)
	tensors, c := m.Weights(1), harness.OpenCache(t, harness.Path(t), nil)
	var end []func() error
	for range 2 {
		s, err := c.NewSession(xpwc.MapOf(tensors))
		require.NoError(t, err)
		_, err = s.Load("w", xpwc.PackedAs(transposed))
		require.NoError(t, err)
		r, err := m.Create(s, s.Load)
		require.NoError(t, err)
		require.Zero(t, c.Stats().Hits.Entries)
		end = append(end, s.Finalize, r.Delete, s.Close)
	}
	for _, do := range end {
		require.NoError(t, do())
	}
}

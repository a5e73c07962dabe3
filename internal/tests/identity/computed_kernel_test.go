//go:build cgo

package identity

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/xnnpack"
)

// refilled is a data map of tensors that can be computed again. It counts how often each is, and how often where
// another one was.
type refilled struct {
	tensors map[string][]byte
	filled  map[string]int
	refills int
	fails   bool // the second time
}

var errAgain = errors.New("it cannot be computed again")

func (d *refilled) Tensor(name string) (xpwc.Tensor, error) {
	t, err := xpwc.MapOf(d.tensors).Tensor(name)
	content := d.tensors[name]
	t.Size, t.Refill, t.Data = len(content), true, nil
	t.Fill = func(dst []byte) error {
		if d.filled[name]++; d.fails && d.filled[name] > 1 {
			return errAgain
		}
		if !bytes.Equal(dst, make([]byte, len(dst))) {
			d.refills++
		}
		copy(dst, content)
		return nil
	}
	t.Identity.Digest = func() (xpwc.Digest, error) { return xpwc.DigestOf(content), nil }
	return t, err
}

// large has kernels of 1 MiB; one is packed with two biases.
var large = harness.Chain{Width: 512, Layers: [][2]string{{"w1", "b1"}, {"w2", ""}, {"w3", ""}, {"w1", "b3"}, {"w4",
	""}}}

func TestLargeKernelsShareOneBuffer(t *testing.T) {
	path, tensors := harness.Path(t), large.Weights(1)
	want := large.Plain(t, tensors)
	first := &refilled{tensors: tensors, filled: map[string]int{}}
	c := harness.OpenCache(t, path, nil)
	require.Equal(t, want, large.Run(t, c, first))
	require.NoError(t, c.Close())
	if runtime.GOOS == "linux" {
		require.Equal(t, map[string]int{"w1": 2, "w2": 1, "w3": 1, "w4": 1, "b1": 1, "b3": 1}, first.filled)
		require.Equal(t, 4, first.refills, "all kernels but the first")
	}

	next := &refilled{tensors: tensors, filled: map[string]int{}}
	c = harness.OpenCache(t, path, nil)
	require.Equal(t, want, large.Run(t, c, next))
	require.Empty(t, next.filled)
}

func TestAKernelWithOtherReadersKeepsItsMemory(t *testing.T) {
	for name, option := range map[string]xpwc.LoadOption{"eager": xpwc.Eager(), "retained": xpwc.Retain()} {
		t.Run(name, func(t *testing.T) {
			data := &refilled{tensors: large.Weights(1), filled: map[string]int{}}
			c := harness.OpenCache(t, harness.Path(t), nil)
			s, err := c.NewSession(data)
			require.NoError(t, err)
			var retained []byte
			r, err := large.Create(s, func(name string, options ...xpwc.LoadOption) ([]byte, error) {
				if name != "w2" {
					return s.Load(name, options...)
				}
				retained, err = s.Load(name, append(options, option)...)
				return retained, err
			})
			require.NoError(t, err)
			require.True(t, bytes.Equal(data.tensors["w2"], retained))
			require.NoError(t, s.Finalize())
			require.Equal(t, large.Plain(t, data.tensors), large.Infer(t, r))
			require.Equal(t, 1, data.filled["w2"])
			require.NoError(t, r.Delete())
			require.NoError(t, s.Close())
		})
	}
}

// A kernel that was computed where others are is given out again: the host may read it, or keep it.
func TestAKernelReloadedAfterPackingKeepsItsMemory(t *testing.T) {
	for name, options := range map[string][]xpwc.LoadOption{
		"to be read now": nil, "to be read at inference": {xpwc.Retain()}, "both": {xpwc.Eager(), xpwc.Retain()},
	} {
		t.Run(name, func(t *testing.T) {
			data := &refilled{tensors: large.Weights(1), filled: map[string]int{}}
			c := harness.OpenCache(t, harness.Path(t), nil)
			s, err := c.NewSession(data)
			require.NoError(t, err)
			r, err := large.Create(s, s.Load)
			require.NoError(t, err)
			repeated := map[string][]byte{}
			for _, name := range []string{"w1", "w2", "w3", "w4"} {
				repeated[name], err = s.Load(name, options...)
				require.NoError(t, err)
			}
			second, err := harness.Chain{Width: large.Width, Layers: [][2]string{{"w3", "b1"}}}.Create(s, s.Load)
			require.NoError(t, err)
			requireThere := func() {
				for name, content := range repeated {
					require.True(t, bytes.Equal(data.tensors[name], content), name)
				}
			}
			requireThere()
			require.NoError(t, s.Finalize())
			if options != nil {
				requireThere()
			}
			require.Equal(t, large.Plain(t, data.tensors), large.Infer(t, r))
			require.NoError(t, r.Delete())
			require.NoError(t, second.Delete())
			require.NoError(t, s.Close())
		})
	}
}

// Sessions compute kernels at once, some as another one gives them up, and one kernel cannot be computed again.
func TestKernelsAreComputedForSessionsAtOnce(t *testing.T) {
	want := large.Plain(t, large.Weights(1))
	for _, path := range []string{"", harness.Path(t)} {
		c := harness.OpenCache(t, path, nil)
		var sessions sync.WaitGroup
		for i := range 6 {
			sessions.Go(func() {
				data := &refilled{tensors: large.Weights(1), filled: map[string]int{}, fails: i == 3}
				s, err := c.NewSession(data)
				if !assert.NoError(t, err) {
					return
				}
				r, err := large.Create(s, s.Load)
				if finalizeErr := s.Finalize(); err == nil && finalizeErr == nil {
					assert.Equal(t, want, large.Infer(t, r))
				} else {
					assert.ErrorIs(t, finalizeErr, errAgain)
				}
				if r != nil {
					assert.NoError(t, r.Delete())
				}
				assert.NoError(t, s.Close())
			})
		}
		sessions.Wait()
		require.Equal(t, want, large.Run(t, c, &refilled{tensors: large.Weights(1), filled: map[string]int{}}))
	}
}

// wide is two layers from one number to many. The first one's kernel is the second one's bias.
func wide(cache xnnpack.WeightsCache, load harness.Loader) (*xnnpack.Runtime, error) {
	const width = 1 << 18 // 1 MiB
	g, err := xnnpack.NewSubgraph(3)
	if err != nil {
		return nil, err
	}
	defer func() { _ = g.Delete() }()
	number := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, 1}}
	row := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, width}}
	errs := []error{g.Input(0, number), g.Output(1, row), g.Output(2, row)}
	static := func(t xnnpack.Tensor, options ...xpwc.LoadOption) xnnpack.ValueID {
		t.Data, err = load(t.Name, options...)
		id, defineErr := g.Tensor(t)
		errs = append(errs, err, defineErr)
		return id
	}
	kernel := func(name string) xnnpack.Tensor {
		return xnnpack.Tensor{Name: name, Type: xnnpack.Float32, Shape: []int{width, 1}}
	}
	bias := xnnpack.Tensor{Name: "both", Type: xnnpack.Float32, Shape: []int{width}}
	first := xnnpack.FullyConnected{Input: 0, Output: 1, Bias: xnnpack.InvalidValue}
	first.Filter = static(kernel("both"), xpwc.PackedAs(first.Packing(kernel("both"), xnnpack.Tensor{}, number, row)))
	second := xnnpack.FullyConnected{Input: 0, Output: 2}
	second.Filter = static(kernel("w"), xpwc.PackedAs(second.Packing(kernel("w"), bias, number, row)))
	second.Bias = static(bias)
	errs = append(errs, g.Add(first), g.Add(second))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return xnnpack.NewRuntime(g, &xnnpack.RuntimeOptions{WeightsCache: cache})
}

func TestATensorMayBeTheKernelOfOneNodeAndTheBiasOfAnother(t *testing.T) {
	const width = 1 << 18
	tensors := map[string][]byte{"both": harness.Floats(width, 1), "w": harness.Floats(width, 2)}
	infer := func(r *xnnpack.Runtime) []byte {
		t.Helper()
		require.NoError(t, r.Reshape())
		memory := map[xnnpack.ValueID][]byte{}
		for id, n := range []int{1, width, width} {
			b, err := xnnpack.NewBuffer(4 * n)
			require.NoError(t, err)
			t.Cleanup(b.Free)
			memory[xnnpack.ValueID(id)] = b.Bytes()
		}
		copy(memory[0], harness.Floats(1, 7))
		require.NoError(t, r.Setup(memory))
		require.NoError(t, r.Invoke())
		require.NoError(t, r.Delete())
		return append(bytes.Clone(memory[1]), memory[2]...)
	}
	load, free := harness.OutsideMemory(tensors)
	defer free()
	r, err := wide(nil, load)
	require.NoError(t, err)
	want := infer(r)
	c := harness.OpenCache(t, harness.Path(t), nil)
	s, err := c.NewSession(&refilled{tensors: tensors, filled: map[string]int{}})
	require.NoError(t, err)
	r, err = wide(s, s.Load)
	require.NoError(t, err)
	require.NoError(t, s.Finalize())
	require.True(t, bytes.Equal(want, infer(r)))
	require.NoError(t, s.Close())
}

package xnnpack_test

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/xnnpack"
)

func TestARuntimeOutlivesItsSubgraph(t *testing.T) {
	s := newSubgraph(t, 2)
	require.NoError(t, s.Input(0, float("x", 1, 2)))
	require.NoError(t, s.Output(1, float("y", 1, 3)))
	weights := buffer(t, 6)
	copy(weights.Bytes(), []byte{1, 1, 1, 1, 1, 1})
	id, err := s.Tensor(xnnpack.Tensor{Name: "kernel", Type: xnnpack.ChannelQInt8, Shape: []int{3, 2},
		Data:         weights.Bytes(),
		Quantization: xnnpack.Quantization{Scales: []float32{1, 2, 4}}}) // which nothing in Go refers to afterwards
	require.NoError(t, err)
	require.NoError(t, s.Add(xnnpack.FullyConnected{Input: 0, Filter: id, Bias: xnnpack.InvalidValue,
		Output: 1}))
	r := newRuntime(t, s, nil)
	require.NoError(t, s.Delete())
	for range 3 {
		runtime.GC()
		_ = make([]float32, 3) // would take the place of freed scales
	}
	require.NoError(t, r.Reshape())
	in, out := buffer(t, 8), buffer(t, 12)
	copy(in.Float32s(), []float32{1, 2})
	require.NoError(t, r.Setup(map[xnnpack.ValueID][]byte{0: in.Bytes(), 1: out.Bytes()}))
	require.NoError(t, r.Invoke())
	requireClose(t, []float32{3, 6, 12}, out.Float32s())
}

func TestASubgraphThatIsForgottenHarmsNothing(t *testing.T) {
	s, err := xnnpack.NewSubgraph(0)
	require.NoError(t, err)
	_, err = s.Tensor(xnnpack.Tensor{Type: xnnpack.ChannelQInt8, Shape: []int{3, 2}, Data: buffer(t, 6).Bytes(),
		Quantization: xnnpack.Quantization{Scales: []float32{1, 2, 4}}})
	require.NoError(t, err)
	for range 3 { // s is garbage
		runtime.GC()
	}
}

func TestDeletedObjectsGiveErrors(t *testing.T) {
	s := sum(t, 4)
	r := newRuntime(t, s, nil)
	require.NoError(t, r.Delete())
	require.NoError(t, r.Delete(), "deleting twice is harmless")
	require.ErrorIs(t, r.Reshape(), xnnpack.InvalidState)
	require.ErrorIs(t, r.ReshapeExternal(0, []int{4}), xnnpack.InvalidState)
	require.ErrorIs(t, r.Setup(nil), xnnpack.InvalidState)
	require.ErrorIs(t, r.Invoke(), xnnpack.InvalidState)
	_, err := r.ExternalShape(0)
	require.ErrorIs(t, err, xnnpack.InvalidState)
	_, err = r.Profile()
	require.ErrorIs(t, err, xnnpack.InvalidState)

	require.NoError(t, s.Delete())
	require.NoError(t, s.Delete(), "deleting twice is harmless")
	_, err = xnnpack.NewRuntime(s, nil)
	require.ErrorIs(t, err, xnnpack.InvalidState)
	_, err = s.Tensor(float("x", 1))
	require.ErrorIs(t, err, xnnpack.InvalidState)
	require.ErrorIs(t, s.Input(0, float("x", 1)), xnnpack.InvalidState)
	require.ErrorIs(t, s.Add(xnnpack.Copy{Input: 0, Output: 2}), xnnpack.InvalidState)
}

func TestStepsOutOfOrderGiveErrors(t *testing.T) {
	r := newRuntime(t, sum(t, 4), nil)
	values := map[xnnpack.ValueID][]byte{0: buffer(t, 16).Bytes(), 1: buffer(t, 16).Bytes(), 2: buffer(t, 16).Bytes()}
	require.ErrorIs(t, r.Setup(values), xnnpack.InvalidState, "not reshaped")
	require.ErrorIs(t, r.Invoke(), xnnpack.InvalidState, "not reshaped")
	require.NoError(t, r.Reshape())
	require.ErrorIs(t, r.Invoke(), xnnpack.InvalidState, "not set up")
	require.NoError(t, r.Setup(values))
	require.NoError(t, r.Invoke())
	require.NoError(t, r.ReshapeExternal(0, []int{4}))
	require.ErrorIs(t, r.Invoke(), xnnpack.InvalidState, "reshaped since")
}

func TestSetupChecksEachBufferAgainstTheCurrentShape(t *testing.T) {
	r := newRuntime(t, sum(t, 4), nil)
	require.NoError(t, r.Reshape())
	full := func() map[xnnpack.ValueID][]byte {
		return map[xnnpack.ValueID][]byte{0: buffer(t, 16).Bytes(), 1: buffer(t, 16).Bytes(), 2: buffer(t, 16).Bytes()}
	}
	short := full()
	short[2] = short[2][:15]
	err := r.Setup(short)
	require.ErrorIs(t, err, xnnpack.InvalidParameter)
	require.Contains(t, err.Error(), `value 2 "sum": 15 bytes are given, fp32 [4] takes 16`)
	missing := full()
	delete(missing, 1)
	require.ErrorIs(t, r.Setup(missing), xnnpack.InvalidParameter)
	unknown := full()
	unknown[3] = unknown[0]
	require.ErrorIs(t, r.Setup(unknown), xnnpack.InvalidParameter)

	require.NoError(t, r.ReshapeExternal(0, []int{5}))
	require.NoError(t, r.ReshapeExternal(1, []int{5}))
	require.NoError(t, r.Reshape())
	require.ErrorIs(t, r.Setup(full()), xnnpack.InvalidParameter, "long enough for 4 only")
}

func TestBadReshapesAreRefused(t *testing.T) {
	r := newRuntime(t, sum(t, 4), nil)
	require.ErrorIs(t, r.ReshapeExternal(7, []int{4}), xnnpack.InvalidParameter)
	require.ErrorIs(t, r.ReshapeExternal(0, []int{-4}), xnnpack.InvalidParameter)
	require.ErrorIs(t, r.ReshapeExternal(0, []int{4, 1}), xnnpack.InvalidParameter)
	require.ErrorIs(t, r.ReshapeExternal(0, []int{math.MaxInt}), xnnpack.InvalidParameter)
	_, err := r.ExternalShape(7)
	require.ErrorIs(t, err, xnnpack.InvalidParameter)
}

func TestShapesFollowTheInputs(t *testing.T) {
	r := newRuntime(t, sum(t, 4), nil)
	for _, n := range []int{3, 1000, 1} {
		require.NoError(t, r.ReshapeExternal(0, []int{n}))
		require.NoError(t, r.ReshapeExternal(1, []int{n}))
		require.NoError(t, r.Reshape())
		shape, err := r.ExternalShape(2)
		require.NoError(t, err)
		require.Equal(t, []int{n}, shape)
		a, out := buffer(t, 4*n), buffer(t, 4*n)
		copy(a.Float32s(), ramp(n))
		require.NoError(t, r.Setup(map[xnnpack.ValueID][]byte{0: a.Bytes(), 1: a.Bytes(), 2: out.Bytes()}))
		require.NoError(t, r.Invoke())
		require.Equal(t, float32(2*n), out.Float32s()[n-1])
	}
}

func TestGoSlicesWorkAsBuffersAndStayInPlace(t *testing.T) {
	r := newRuntime(t, sum(t, 4), nil)
	require.NoError(t, r.Reshape())
	for range 3 {
		a, b, out := make([]byte, 64), make([]byte, 64), make([]byte, 64)
		for i := range 4 {
			binary.LittleEndian.PutUint32(a[4*i:], math.Float32bits(float32(i)))
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(10))
		}
		require.NoError(t, r.Setup(map[xnnpack.ValueID][]byte{0: a, 1: b, 2: out}))
		runtime.GC()
		require.NoError(t, r.Invoke())
		for i := range 4 {
			require.Equal(t, float32(10+i), math.Float32frombits(binary.LittleEndian.Uint32(out[4*i:])))
		}
	}
}

func TestProfileNamesTheOperators(t *testing.T) {
	s := sum(t, 1<<16)
	plain := newRuntime(t, s, nil)
	_, err := plain.Profile()
	require.ErrorIs(t, err, xnnpack.InvalidState, "profiling was not asked for")

	r := newRuntime(t, s, &xnnpack.RuntimeOptions{Flags: xnnpack.BasicProfiling})
	require.NoError(t, r.Reshape())
	b := buffer(t, 4<<16)
	require.NoError(t, r.Setup(map[xnnpack.ValueID][]byte{0: b.Bytes(), 1: b.Bytes(), 2: buffer(t, 4<<16).Bytes()}))
	require.NoError(t, r.Invoke())
	list, err := r.Profile()
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NotEmpty(t, list[0].Name)
	require.GreaterOrEqual(t, list[0].Time, time.Duration(0))
}

func TestRuntimesShareAThreadpoolAndAWorkspace(t *testing.T) {
	pool, err := xnnpack.NewThreadpool(2)
	require.NoError(t, err)
	require.Equal(t, 2, pool.Threads())
	workspace, err := xnnpack.NewWorkspace()
	require.NoError(t, err)
	o := &xnnpack.RuntimeOptions{Threadpool: pool, Workspace: workspace}
	first, second := newRuntime(t, sum(t, 1000), o), newRuntime(t, sum(t, 2000), o)
	// The owner may let go first: the runtimes keep both.
	pool.Close()
	pool.Close()
	workspace.Close()
	workspace.Close()
	for _, c := range []struct {
		r *xnnpack.Runtime
		n int
	}{{first, 1000}, {second, 2000}} {
		require.NoError(t, c.r.Reshape())
		a, out := buffer(t, 4*c.n), buffer(t, 4*c.n)
		copy(a.Float32s(), ramp(c.n))
		require.NoError(t, c.r.Setup(map[xnnpack.ValueID][]byte{0: a.Bytes(), 1: a.Bytes(), 2: out.Bytes()}))
		require.NoError(t, c.r.Invoke())
		require.Equal(t, float32(2*c.n), out.Float32s()[c.n-1])
	}
	_, err = xnnpack.NewRuntime(sum(t, 1), o)
	require.ErrorIs(t, err, xnnpack.InvalidState, "both are closed")
}

func TestBadThreadpoolSizesAreRefused(t *testing.T) {
	for _, n := range []int{-1, math.MaxInt} {
		_, err := xnnpack.NewThreadpool(n)
		require.ErrorIs(t, err, xnnpack.InvalidParameter)
	}
}

func TestADeletedWeightsCacheIsRefused(t *testing.T) {
	cache, err := xnnpack.NewWeightsCache()
	require.NoError(t, err)
	cache.Close()
	cache.Close()
	require.ErrorIs(t, cache.Finalize(), xnnpack.InvalidState)
	_, err = xnnpack.NewRuntime(sum(t, 1), &xnnpack.RuntimeOptions{WeightsCache: cache})
	require.ErrorIs(t, err, xnnpack.InvalidState)
}

func TestManyGoroutinesMayUseOneRuntime(t *testing.T) {
	r := newRuntime(t, sum(t, 64), nil)
	require.NoError(t, r.Reshape())
	a, out := buffer(t, 256), buffer(t, 256)
	require.NoError(t, r.Setup(map[xnnpack.ValueID][]byte{0: a.Bytes(), 1: a.Bytes(), 2: out.Bytes()}))
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = r.Invoke() })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func TestBuffersAreAlignedZeroedAndFreedOnce(t *testing.T) {
	b, err := xnnpack.NewBuffer(10)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 10), b.Bytes())
	require.Len(t, b.Float32s(), 2)
	b.Free()
	b.Free()
	require.Nil(t, b.Bytes())
	require.Empty(t, b.Float32s())
	for _, n := range []int{-1, math.MaxInt} {
		_, err := xnnpack.NewBuffer(n)
		require.Error(t, err)
	}
	empty, err := xnnpack.NewBuffer(0)
	require.NoError(t, err)
	require.Empty(t, empty.Bytes())
	empty.Free()
}

func TestInitializeMayBeCalledFromManyGoroutines(t *testing.T) {
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = xnnpack.Initialize() })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func TestLimitCPUComesTooLateOnceXNNPACKIsInitialized(t *testing.T) {
	require.NoError(t, xnnpack.Initialize())
	for _, level := range xnnpack.CPULevels() {
		require.ErrorIs(t, xnnpack.LimitCPU(level), xnnpack.InvalidState)
	}
}

func TestWidenF16IsExact(t *testing.T) {
	// Every half precision number, at lengths around the kernel's tiles. A NaN keeps its sign and its bits, and is
	// quiet.
	for _, n := range []int{0, 1, 7, 63, 64, 65, 129, 1 << 16} {
		src, dst := make([]byte, 2*n), make([]byte, 4*n)
		for i := range n {
			binary.LittleEndian.PutUint16(src[2*i:], uint16(i*(1<<16/max(n, 1))))
		}
		require.NoError(t, xnnpack.WidenF16(dst, src))
		for i := range n {
			h := binary.LittleEndian.Uint16(src[2*i:])
			got := math.Float32frombits(binary.LittleEndian.Uint32(dst[4*i:]))
			want := half(h)
			wantBits := math.Float32bits(want)
			if want != want {
				wantBits = uint32(h&0x8000)<<16 | 0x7fc0_0000 | uint32(h&0x3ff)<<13
			}
			require.Equal(t, wantBits, math.Float32bits(got), "%#x", h)
		}
	}
}

// half decodes IEEE 754 half precision.
func half(h uint16) float32 {
	sign, exponent, fraction := 1-2*float64(h>>15), int(h>>10&0x1f), float64(h&0x3ff)
	v := math.Ldexp(1024+fraction, exponent-25)
	switch {
	case exponent == 0:
		v = math.Ldexp(fraction, -24)
	case exponent == 0x1f && fraction != 0:
		return float32(math.NaN())
	case exponent == 0x1f:
		v = math.Inf(1)
	}
	return float32(math.Copysign(v, sign))
}

func TestWidenF16ChecksTheLengths(t *testing.T) {
	require.ErrorIs(t, xnnpack.WidenF16(make([]byte, 4), make([]byte, 3)), xnnpack.InvalidParameter)
	require.ErrorIs(t, xnnpack.WidenF16(make([]byte, 7), make([]byte, 4)), xnnpack.InvalidParameter)
	require.ErrorIs(t, xnnpack.WidenF16(make([]byte, 9), make([]byte, 4)), xnnpack.InvalidParameter)
}

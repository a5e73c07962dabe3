//go:build cgo

package identity

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/format"
	"xpwc/internal/output"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/optable"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// XNNPACK reads what it would have packed, whatever the payload's size is.
func TestAPayloadOfAnotherSizeIsNotUsed(t *testing.T) {
	cut := func(n int) func(*format.Record, []byte) []byte {
		return func(_ *format.Record, payload []byte) []byte { return payload[:min(n, len(payload))] }
	}
	unsaid := func(change func(*format.Record, []byte) []byte) func(*format.Record, []byte) []byte {
		return func(r *format.Record, payload []byte) []byte {
			r.LeastSize = 0
			return change(r, payload)
		}
	}
	const alignment = 64 // of the packed weights
	for name, c := range map[string]struct {
		change func(*format.Record, []byte) []byte
		shows  bool // in the file alone
	}{
		"cut to 128 bytes":                   {cut(128), true},
		"cut to 128 bytes, and no word said": {unsaid(cut(128)), false},
		"a little shorter": {func(_ *format.Record, b []byte) []byte {
			return b[:len(b)-alignment]
		}, false},
		"a byte shorter": {func(_ *format.Record, b []byte) []byte { return b[:len(b)-1] }, false},
		"longer": {func(_ *format.Record, b []byte) []byte {
			return append(b, make([]byte, alignment)...)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, op := range optable.Cases() {
				if !op.Announced {
					continue // it is packed, and compared, in each process
				}
				plain, err := op.Run(nil, nil, nil)
				if errors.Is(err, xnnpack.UnsupportedHardware) {
					continue
				}
				require.NoError(t, err, op.Name)
				path := harness.Path(t)
				run := func() xpwc.Stats {
					cache, err := xpwc.Open(path, &xpwc.Options{Strict: true})
					require.NoError(t, err)
					require.Equal(t, plain, harness.RunCase(t, cache, op), op.Name)
					require.NoError(t, cache.Close())
					return cache.Stats()
				}
				run()
				copied := packsACopy(t, path)
				if copied { // it is asked, and yet nobody knows that it converts alike for all
					require.EqualValues(t, 1, run().Hits.Entries, op.Name)
				}
				harness.Resize(t, path, c.change)
				if copied {
					require.Zero(t, run().Hits.Entries, op.Name)
					continue
				}
				problems, err := cachefile.Verify(path, nil)
				require.NoError(t, err)
				if c.shows {
					require.NotEmpty(t, problems, op.Name)
					require.Contains(t, problems[0].Message, "too short", op.Name)
					f, err := cachefile.Open(path)
					require.NoError(t, err)
					require.ErrorIs(t, output.Write(path+".copy", func(file *os.File) error {
						return f.Write(file, nil, cachefile.WriteOptions{})
					}), cachefile.ErrDamaged)
					require.NoError(t, f.Close())
				}
				stats := run()
				require.EqualValues(t, 1, stats.DamagedPayloads, op.Name)
				require.ErrorIs(t, stats.LastError, xpwc.ErrDamaged)
				require.Zero(t, stats.Hits.Entries, op.Name)
				require.EqualValues(t, 1, run().Hits.Entries, op.Name)
				problems, err = cachefile.Verify(path, nil)
				require.NoError(t, err)
				require.Empty(t, problems, op.Name)
			}
		})
	}
}

// packsACopy reports whether a file has an entry that was packed from a copy of its kernel, as XNNPACK makes of float16
// on a CPU that has none.
func packsACopy(t *testing.T, path string) bool {
	t.Helper()
	_, index := harness.ReadIndex(t, path)
	for i := range index.Len() {
		if strings.Contains(harness.Record(t, index, i).Kernel, "#") {
			return true
		}
	}
	return false
}

// What a runtime's flags make of a node is asked for a runtime with these flags.
func TestRuntimeFlagsDetermineThePayloadSize(t *testing.T) {
	const slowConsistentArithmetic xnnpack.RuntimeFlags = 0x2000 // which headers of 2024 have no name for
	for _, variant := range []struct {
		flags xnnpack.RuntimeFlags
		told  packing.Flags
	}{
		{xnnpack.HintSparseInference, packing.SparseInference},
		{xnnpack.HintFP16Inference, packing.HalfPrecision},
		{xnnpack.ForceFP16Inference, packing.HalfPrecision},
		{slowConsistentArithmetic, packing.ConsistentArithmetic},
	} {
		for _, use := range []harness.KernelUse{
			{Op: packing.FullyConnected, Types: harness.Datatypes[0], Shape: []int{67, 38}},
			{Op: packing.FullyConnected, Types: harness.Datatypes[6], Shape: []int{67, 38}},
			{Op: packing.Convolution2D, Types: harness.Datatypes[0], Shape: []int{67, 3, 3, 11}},
		} {
			plain, err := harness.ComputeWith(variant.flags, nil, nil, use)
			if errors.Is(err, xnnpack.UnsupportedHardware) {
				continue
			}
			require.NoError(t, err)
			id := harness.PackingIdentity(t, use)
			id.Flags |= variant.told
			path := harness.Path(t)
			run := func() xpwc.Stats { return harness.RunPacked(t, path, variant.flags, id, use, plain) }
			if run().Packed.Entries == 0 {
				continue // of the address of XNNPACK's own copy
			}
			if hits := run().Hits.Entries; variant.told != packing.HalfPrecision || !harness.LacksFingerprintIDs(t,
				path) {
				require.EqualValues(t, 1, hits, "%v with flags %#x", use, variant.flags)
			}
			harness.Resize(t, path, func(_ *format.Record, payload []byte) []byte { return payload[:len(payload)-64] })
			stats := run()
			require.Zero(t, stats.Hits.Entries, "%v with flags %#x", use, variant.flags)
			require.Zero(t, stats.Reused.Entries)
		}
	}
}

// A key shows that XNNPACK created another operator for a node than in the query, here because the host did not
// describe the runtime as one of half precision. The entry in the file is served only if XNNPACK packs the same bytes.
func TestWithoutAKnownSizeOnlyEqualBytesAreServed(t *testing.T) {
	use := harness.KernelUse{Op: packing.FullyConnected, Types: harness.Datatypes[6], Shape: []int{67, 38}}
	plain, err := harness.ComputeWith(xnnpack.ForceFP16Inference, nil, nil, use)
	if errors.Is(err, xnnpack.UnsupportedHardware) {
		t.Skip(err)
	}
	require.NoError(t, err)
	path := harness.Path(t)
	run := func() xpwc.Stats {
		return harness.RunPacked(t, path, xnnpack.ForceFP16Inference, harness.PackingIdentity(t, use), use, plain)
	}
	if run().Packed.Entries == 0 || harness.LacksFingerprintIDs(t, path) {
		t.Skip("this XNNPACK's keys do not show it")
	}
	stats := run()
	require.Zero(t, stats.Hits.Entries)
	require.EqualValues(t, 1, stats.Reused.Entries, "one copy in memory all the same")
	harness.Resize(t, path, func(_ *format.Record, payload []byte) []byte { return payload[:len(payload)-64] })
	stats = run()
	require.Zero(t, stats.Hits.Entries)
	require.Zero(t, stats.Reused.Entries)
}

// A host that does not describe how a kernel is packed is never served a payload shorter than any packing of it.
func TestAPayloadTooShortForItsKernelIsNeverUsed(t *testing.T) {
	m := harness.Chain{Width: 64, Layers: [][2]string{{"w", "b"}}}
	tensors := m.Weights(1)
	plain := m.Plain(t, tensors)
	path := harness.Path(t)
	run := func() xpwc.Stats {
		c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
		require.NoError(t, err)
		s, err := c.NewSession(xpwc.MapOf(tensors))
		require.NoError(t, err)
		r, err := m.Create(s, func(name string, _ ...xpwc.LoadOption) ([]byte, error) {
			return s.Load(name, xpwc.Believe())
		})
		require.NoError(t, err)
		require.NoError(t, s.Finalize())
		require.Equal(t, plain, m.Infer(t, r))
		require.NoError(t, r.Delete())
		require.NoError(t, s.Close())
		require.NoError(t, c.Close())
		return c.Stats()
	}
	run()
	harness.Resize(t, path, func(r *format.Record, payload []byte) []byte {
		require.Zero(t, r.LeastSize)
		return payload[:128]
	})
	require.EqualValues(t, 1, run().DamagedPayloads)
	require.EqualValues(t, 1, run().Hits.Entries)
}

// A tensor may have more than its kernel: ExecuTorch's exporter writes the whole storage of a view.
func TestALargerTensorIsNotDamage(t *testing.T) {
	m := harness.Chain{Width: 64, Layers: [][2]string{{"w", "b"}}}
	tensors := m.Weights(1)
	tensors["w"] = append(tensors["w"], harness.Floats(9*64*64, 2)...)
	plain := m.Plain(t, tensors)
	for name, identity := range map[string][]xpwc.LoadOption{
		"no identity":  {xpwc.Believe()},
		"opaque bytes": {xpwc.Believe(), xpwc.PackedAs(packing.Opaque([]byte("scales")))},
	} {
		t.Run(name, func(t *testing.T) {
			path := harness.Path(t)
			run := func() (xpwc.Stats, []byte) {
				c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
				require.NoError(t, err)
				s, err := c.NewSession(xpwc.MapOf(tensors))
				require.NoError(t, err)
				r, err := m.Create(s, func(name string, _ ...xpwc.LoadOption) ([]byte, error) {
					return s.Load(name, identity...)
				})
				require.NoError(t, err)
				require.NoError(t, s.Finalize())
				require.Equal(t, plain, m.Infer(t, r))
				require.NoError(t, r.Delete())
				require.NoError(t, s.Close())
				require.NoError(t, c.Close())
				file, err := os.ReadFile(path)
				require.NoError(t, err)
				return c.Stats(), file
			}
			_, packed := run()
			for range 2 {
				stats, file := run()
				require.Zero(t, stats.DamagedPayloads)
				require.EqualValues(t, 1, stats.Reused.Entries)
				require.True(t, bytes.Equal(packed, file))
			}
		})
	}
}

// What several uses are served has the size that each of them reads.
func TestAPayloadTooShortForOneUseIsNotUsed(t *testing.T) {
	f32 := harness.Datatypes[0]
	const many = 1 << 16
	tall := harness.KernelUse{Op: packing.FullyConnected, Types: f32, Shape: []int{many, 9}}
	wide := harness.KernelUse{Op: packing.FullyConnected, Types: f32, Shape: []int{9, many}} // which takes more bytes
	plain, err := harness.Compute(nil, nil, tall, wide)
	require.NoError(t, err)
	path := harness.Path(t)
	run := func() xpwc.Stats {
		c, err := xpwc.Open(path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyStructure})
		require.NoError(t, err)
		pair := []xpwc.LoadOption{xpwc.PackedAs(fullyConnected(tall)), xpwc.PackedAs(fullyConnected(wide))}
		got, err := harness.Compute(c, pair, tall, wide)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.True(t, bytes.Equal(plain, got))
		return c.Stats()
	}
	run()
	shortest := 0
	harness.Resize(t, path, func(r *format.Record, payload []byte) []byte {

		if shortest == 0 || len(payload) < shortest {
			shortest = len(payload)
		}
		return payload
	})
	harness.Resize(t, path, func(r *format.Record, payload []byte) []byte {
		r.Flags = r.Flags&^format.Variant | format.Tied
		return payload[:shortest]
	})

	require.Positive(t, run().DamagedPayloads)
}

func fullyConnected(u harness.KernelUse) packing.Identity {
	return xnnpack.FullyConnected{}.Packing(u.Kernel(), xnnpack.Tensor{}, harness.Activation(u.Types.Input, nil),
		harness.Activation(u.Types.Output, nil))
}

//go:build cgo

package xpwc_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/internal/output"
	"xpwc/internal/tests/optable"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// resize writes a cache file anew, with other payloads and all checksums right.
func resize(t *testing.T, path string, change func(r *format.Record, payload []byte) []byte) {
	t.Helper()
	relayout(t, path, func(*format.Layout) {}, change)
}

// relayout does so with other layouts, too.
func relayout(t *testing.T, path string, layout func(l *format.Layout),
	change func(r *format.Record, payload []byte) []byte) {
	t.Helper()
	old, index := readIndex(t, path)
	layouts := slices.Clone(index.Layouts())
	for i := range layouts {
		layout(&layouts[i])
	}
	file := format.NewHeader([16]byte{1, 2, 3})
	var records []format.Record
	for i := range index.Len() {
		r := recordOf(t, index, i)
		payload := change(&r, append([]byte{}, old[r.Offset:r.Offset+r.Size]...))
		r.Offset, r.Size, r.Sum = format.Align(uint64(len(file))), uint64(len(payload)), digest.Of(payload)
		file = append(append(file, make([]byte, r.Offset-uint64(len(file)))...), payload...)
		records = append(records, r)
	}
	slot, block, err := format.EncodeGeneration(1, uint64(len(file)), layouts, records)
	require.NoError(t, err)
	file = append(append(file, make([]byte, slot.IndexOffset-uint64(len(file)))...), block...)
	encoded, at := slot.Encode([16]byte{1, 2, 3})
	copy(file[at:], encoded)
	require.NoError(t, os.WriteFile(path, file, 0o600))
}

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
	const alignment = 64 // of what XNNPACK packs
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
				path := filepath.Join(t.TempDir(), "cache")
				run := func() xpwc.Stats {
					cache, err := xpwc.Open(path, &xpwc.Options{Strict: true})
					require.NoError(t, err)
					require.Equal(t, plain, runCase(t, cache, op), op.Name)
					require.NoError(t, cache.Close())
					return cache.Stats()
				}
				run()
				copied := packsACopy(t, path)
				if copied { // it is asked, and yet nobody knows that it converts alike for all
					require.EqualValues(t, 1, run().Hits.Entries, op.Name)
				}
				resize(t, path, c.change)
				if copied {
					require.Zero(t, run().Hits.Entries, op.Name)
					continue
				}
				problems, err := cachefile.Verify(path, nil)
				require.NoError(t, err)
				if c.shows {
					require.NotEmpty(t, problems, op.Name)
					require.Contains(t, problems[0].What, "too short", op.Name)
					f, err := cachefile.Open(path)
					require.NoError(t, err)
					require.ErrorIs(t, output.Write(path+".copy", func(to *os.File) error {
						return f.Write(to, nil, cachefile.WriteOptions{})
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
	_, index := readIndex(t, path)
	for i := range index.Len() {
		if strings.Contains(recordOf(t, index, i).Kernel, "#") {
			return true
		}
	}
	return false
}

// What a runtime's flags make of a node is asked for a runtime with these flags.
func TestWhatFlagsOfTheRuntimeChangeIsServedInItsSizeAlone(t *testing.T) {
	const slowConsistentArithmetic xnnpack.RuntimeFlags = 0x2000 // which headers of 2024 have no name for
	for _, made := range []struct {
		with  xnnpack.RuntimeFlags
		given packing.Flags
	}{
		{xnnpack.HintSparseInference, packing.SparseInference},
		{xnnpack.HintFP16Inference, packing.HalfPrecision},
		{xnnpack.ForceFP16Inference, packing.HalfPrecision},
		{slowConsistentArithmetic, packing.ConsistentArithmetic},
	} {
		for _, use := range []kernelUse{
			{op: packing.FullyConnected, types: everyDatatype[0], shape: []int{67, 38}},
			{op: packing.FullyConnected, types: everyDatatype[6], shape: []int{67, 38}},
			{op: packing.Convolution2D, types: everyDatatype[0], shape: []int{67, 3, 3, 11}},
		} {
			plain, err := computeWith(made.with, nil, nil, use)
			if errors.Is(err, xnnpack.UnsupportedHardware) {
				continue
			}
			require.NoError(t, err)
			id := identityOf(t, use)
			id.Flags |= made.given
			path := filepath.Join(t.TempDir(), "cache")
			run := func() xpwc.Stats { return runPacked(t, path, made.with, id, use, plain) }
			if run().Packed.Entries == 0 {
				continue // of the address of XNNPACK's own copy
			}
			if hits := run().Hits.Entries; made.given != packing.HalfPrecision || !lacksFingerprintIDs(t, path) {
				require.EqualValues(t, 1, hits, "%v with flags %#x", use, made.with)
			}
			resize(t, path, func(_ *format.Record, payload []byte) []byte { return payload[:len(payload)-64] })
			stats := run()
			require.Zero(t, stats.Hits.Entries, "%v with flags %#x", use, made.with)
			require.Zero(t, stats.Reused.Entries)
		}
	}
}

// A key shows that XNNPACK made another operator of a node than it was asked about, here because the host has not said
// that the runtime is one of half precision. What the file has is served only if XNNPACK packs the same.
func TestWhereXNNPACKDoesNotSayTheSizeOnlyWhatIsEqualIsServed(t *testing.T) {
	use := kernelUse{op: packing.FullyConnected, types: everyDatatype[6], shape: []int{67, 38}}
	plain, err := computeWith(xnnpack.ForceFP16Inference, nil, nil, use)
	if errors.Is(err, xnnpack.UnsupportedHardware) {
		t.Skip(err)
	}
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "cache")
	run := func() xpwc.Stats {
		return runPacked(t, path, xnnpack.ForceFP16Inference, identityOf(t, use), use, plain)
	}
	if run().Packed.Entries == 0 || lacksFingerprintIDs(t, path) {
		t.Skip("this XNNPACK's keys do not show it")
	}
	stats := run()
	require.Zero(t, stats.Hits.Entries)
	require.EqualValues(t, 1, stats.Reused.Entries, "one copy in memory all the same")
	resize(t, path, func(_ *format.Record, payload []byte) []byte { return payload[:len(payload)-64] })
	stats = run()
	require.Zero(t, stats.Hits.Entries)
	require.Zero(t, stats.Reused.Entries)
}

// runPacked runs a kernel of that identity with a cache, compares the output, and returns what the cache did.
func runPacked(t *testing.T, path string, flags xnnpack.RuntimeFlags, id packing.Identity, use kernelUse,
	want []byte) xpwc.Stats {
	t.Helper()
	c, err := xpwc.Open(path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyStructure})
	require.NoError(t, err)
	got, err := computeWith(flags, c, []xpwc.LoadOption{xpwc.PackedAs(id)}, use)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.True(t, bytes.Equal(want, got))
	return c.Stats()
}

// identityOf returns that of a kernel in a runtime without flags.
func identityOf(t *testing.T, use kernelUse) (is packing.Identity) {
	t.Helper()
	g, err := xnnpack.NewSubgraph(2)
	require.NoError(t, err)
	from, to := use.images()
	require.NoError(t, errors.Join(g.Input(0, activation(use.types.input, from)),
		g.Output(1, activation(use.types.output, to))))
	content := pattern(use.bytes()+xnnpack.ExtraBytes, use.types.kernel)
	require.NoError(t, use.define(g, 0, 1, func(id packing.Identity) ([]byte, error) {
		is = id
		return content[:use.bytes()], nil
	}))
	require.NoError(t, g.Delete())
	return is
}

// lacksFingerprintIDs reports whether the entries of a file were packed by an XNNPACK whose keys have none.
func lacksFingerprintIDs(t *testing.T, path string) bool {
	t.Helper()
	_, index := readIndex(t, path)
	return recordOf(t, index, 0).FingerprintID == 0
}

// A host that does not say how a kernel is packed is at least not served what is shorter than any packing of it.
func TestAPayloadThatIsTooShortForItsKernelIsNotUsedWhateverIsTold(t *testing.T) {
	m := chain{width: 64, layers: [][2]string{{"w", "b"}}}
	tensors := m.weights(1)
	plain := m.plain(t, tensors)
	path := filepath.Join(t.TempDir(), "cache")
	run := func() xpwc.Stats {
		c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
		require.NoError(t, err)
		s, err := c.NewSession(xpwc.MapOf(tensors))
		require.NoError(t, err)
		r, err := m.create(s, func(name string, _ ...xpwc.LoadOption) ([]byte, error) {
			return s.Load(name, xpwc.Believe())
		})
		require.NoError(t, err)
		require.NoError(t, s.Finalize())
		require.Equal(t, plain, m.infer(t, r))
		require.NoError(t, r.Delete())
		require.NoError(t, s.Close())
		require.NoError(t, c.Close())
		return c.Stats()
	}
	run()
	resize(t, path, func(r *format.Record, payload []byte) []byte {
		require.Zero(t, r.LeastSize)
		return payload[:128]
	})
	require.EqualValues(t, 1, run().DamagedPayloads)
	require.EqualValues(t, 1, run().Hits.Entries)
}

// A tensor may have more than its kernel: ExecuTorch's exporter writes the whole storage of a view.
func TestTheKernelOfATensorThatHasMoreIsNotDamaged(t *testing.T) {
	m := chain{width: 64, layers: [][2]string{{"w", "b"}}}
	tensors := m.weights(1)
	tensors["w"] = append(tensors["w"], floats(9*64*64, 2)...)
	plain := m.plain(t, tensors)
	for name, identity := range map[string][]xpwc.LoadOption{
		"no identity":  {xpwc.Believe()},
		"opaque bytes": {xpwc.Believe(), xpwc.PackedAs(packing.Opaque([]byte("scales")))},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cache")
			run := func() (xpwc.Stats, []byte) {
				c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
				require.NoError(t, err)
				s, err := c.NewSession(xpwc.MapOf(tensors))
				require.NoError(t, err)
				r, err := m.create(s, func(name string, _ ...xpwc.LoadOption) ([]byte, error) {
					return s.Load(name, identity...)
				})
				require.NoError(t, err)
				require.NoError(t, s.Finalize())
				require.Equal(t, plain, m.infer(t, r))
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
func TestAPayloadThatIsTooShortForOneOfTheUsesIsNotUsed(t *testing.T) {
	f32 := everyDatatype[0]
	const many = 1 << 16
	tall := kernelUse{op: packing.FullyConnected, types: f32, shape: []int{many, 9}}
	wide := kernelUse{op: packing.FullyConnected, types: f32, shape: []int{9, many}} // which takes more bytes
	plain, err := compute(nil, nil, tall, wide)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "cache")
	run := func() xpwc.Stats {
		c, err := xpwc.Open(path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyStructure})
		require.NoError(t, err)
		both := []xpwc.LoadOption{xpwc.PackedAs(fullyConnected(tall)), xpwc.PackedAs(fullyConnected(wide))}
		got, err := compute(c, both, tall, wide)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.True(t, bytes.Equal(plain, got))
		return c.Stats()
	}
	run()
	shortest := 0
	resize(t, path, func(r *format.Record, payload []byte) []byte {

		if shortest == 0 || len(payload) < shortest {
			shortest = len(payload)
		}
		return payload
	})
	resize(t, path, func(r *format.Record, payload []byte) []byte {
		r.Flags = r.Flags&^format.Variant | format.Tied
		return payload[:shortest]
	})

	require.Positive(t, run().DamagedPayloads)
}

func fullyConnected(u kernelUse) packing.Identity {
	return xnnpack.FullyConnected{}.Packing(u.kernel(), xnnpack.Tensor{}, activation(u.types.input, nil),
		activation(u.types.output, nil))
}

//go:build cgo

package xpwc_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/internal/optable"
	"xpwc/packing"
	"xpwc/xnnpack"
)

// resize writes a cache file anew, with other payloads and all checksums right.
func resize(t *testing.T, path string, change func(r *format.Record, payload []byte) []byte) {
	t.Helper()
	old, index := readIndex(t, path)
	file := format.NewHeader([16]byte{1, 2, 3})
	var records []format.Record
	for i := range index.Len() {
		r := recordOf(t, index, i)
		payload := change(&r, append([]byte{}, old[r.Offset:r.Offset+r.Size]...))
		r.Offset, r.Size, r.Sum = format.Align(uint64(len(file))), uint64(len(payload)), digest.Of(payload)
		file = append(append(file, make([]byte, r.Offset-uint64(len(file)))...), payload...)
		records = append(records, r)
	}
	slot, block, err := format.EncodeGeneration(1, uint64(len(file)), index.Layouts(), records)
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
				plain, err := op.RunChecked(nil, nil, nil)
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
				if packsACopy(t, path) {
					continue // how large what XNNPACK converts is, is not known
				}
				resize(t, path, c.change)
				problems, err := cachefile.Verify(path, nil)
				require.NoError(t, err)
				if c.shows {
					require.NotEmpty(t, problems, op.Name)
					require.Contains(t, problems[0].What, "too short", op.Name)
					f, err := cachefile.Open(path)
					require.NoError(t, err)
					require.ErrorIs(t, f.Write(path+".copy", nil, cachefile.WriteOptions{}), cachefile.ErrDamaged)
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
		r, err := m.create(s, func(name string, _ ...xpwc.LoadOption) ([]byte, error) { return s.Load(name) })
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
		"no identity":  nil,
		"opaque bytes": {xpwc.PackedAs(packing.Opaque([]byte("scales")))},
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
		both := []packing.Identity{fullyConnected(tall), fullyConnected(wide)}
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

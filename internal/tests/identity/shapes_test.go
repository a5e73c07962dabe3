//go:build cgo

package identity

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// inOrder creates the runtimes of the uses one after the other with one cache file, each as another process would, and
// compares their outputs with the outputs without a cache. The kernel is loaded with given: see compute.
func inOrder(t *testing.T, path string, opts []xpwc.LoadOption, uses []harness.KernelUse, plain map[string][]byte) {
	t.Helper()
	for _, u := range uses {
		c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
		require.NoError(t, err)
		got, err := harness.Compute(c, opts, u)
		require.NoError(t, err, u)
		require.Equal(t, plain[u.String()], got, "%v", u)
		require.Zero(t, c.Stats().DamagedPayloads, "%v", u)
		require.NoError(t, c.Close())
	}
}

// without returns what each use computes without a cache, and the uses that this CPU has kernels for.
func without(t *testing.T, uses []harness.KernelUse) (supported []harness.KernelUse, plain map[string][]byte) {
	t.Helper()
	plain = map[string][]byte{}
	for _, u := range uses {
		out, err := harness.Compute(nil, nil, u)
		if errors.Is(err, xnnpack.UnsupportedHardware) || errors.Is(err, xnnpack.UnsupportedParameter) ||
			errors.Is(err, xnnpack.InvalidParameter) {
			continue
		}
		require.NoError(t, err, u)
		supported, plain[u.String()] = append(supported, u), out
	}
	return supported, plain
}

// XNNPACK's seed is the same for each of these pairs, and so are name and content. With the other's packed weights the
// second computes something else, reads out of bounds, or crashes.
func TestAKernelInTwoShapesIsTwoWeights(t *testing.T) {
	f32, qc8 := harness.Datatypes[0], harness.Datatypes[6]
	require.Equal(t, "qd8-f32-qc8w", qc8.Name)
	conv := func(types harness.KernelTypes, groups int, shape ...int) harness.KernelUse {
		return harness.KernelUse{Op: packing.Convolution2D, Types: types, Shape: shape, Groups: groups}
	}
	for name, pair := range map[string][]harness.KernelUse{
		"transposed": {
			{Op: packing.FullyConnected, Types: f32, Shape: []int{32, 512}},
			{Op: packing.FullyConnected, Types: f32, Shape: []int{512, 32}},
		},
		"groups":            {conv(f32, 2, 12, 3, 3, 8), conv(f32, 6, 12, 3, 3, 8)},
		"groups, large":     {conv(f32, 2, 12, 3, 3, 4096), conv(f32, 6, 12, 3, 3, 4096)},
		"groups, quantised": {conv(qc8, 2, 12, 3, 3, 8), conv(qc8, 6, 12, 3, 3, 8)},
		"shape, quantised":  {conv(qc8, 1, 12, 3, 1, 24), conv(qc8, 1, 12, 1, 3, 24)},
	} {
		t.Run(name, func(t *testing.T) {
			uses, plain := without(t, pair)
			require.Len(t, uses, 2)
			first, _ := seedOf(t, uses[0])
			second, _ := seedOf(t, uses[1])
			require.Equal(t, first, second)
			for _, opts := range describedBy {
				inOrder(t, harness.Path(t), opts, append(uses, uses...), plain)
				slices.Reverse(uses)
				inOrder(t, filepath.Join(t.TempDir(), "reverse"), opts, append(uses, uses...), plain)
			}
		})
	}
}

// describedBy are the options of hosts that know all of a kernel, part of it or nothing.
var describedBy = map[string][]xpwc.LoadOption{
	"identity": nil,
	"opaque":   {xpwc.PackedAs(packing.Opaque([]byte("a layer")))},
	"nothing":  {},
}

func TestAPartlyDescribedKernelIsWrittenOnce(t *testing.T) {
	tall := harness.KernelUse{Op: packing.FullyConnected, Types: harness.Datatypes[0], Shape: []int{512, 32}}
	for name, opts := range describedBy {
		t.Run(name, func(t *testing.T) {
			path := harness.Path(t)
			want := map[string][]byte{tall.String(): mustCompute(t, nil, opts, tall)}
			inOrder(t, path, opts, []harness.KernelUse{tall}, want)
			c := harness.OpenCache(t, path, nil)
			mustCompute(t, c, opts, tall)
			s := c.Stats()
			require.Zero(t, s.Packed.Entries)
			require.Zero(t, s.WrittenBytes)
			if opts == nil {
				require.EqualValues(t, 1, s.Hits.Entries)
			} else {
				require.EqualValues(t, 1, s.Misses)
				require.EqualValues(t, 1, s.Reused.Entries)
			}
		})
	}
}

// mustCompute is compute for a test that expects no error.
func mustCompute(t *testing.T, c *xpwc.Cache, opts []xpwc.LoadOption, uses ...harness.KernelUse) []byte {
	t.Helper()
	out, err := harness.Compute(c, opts, uses...)
	require.NoError(t, err)
	return out
}

func TestAVouchingHostIsServedAnothersEntries(t *testing.T) {
	tall := harness.KernelUse{Op: packing.FullyConnected, Types: harness.Datatypes[0], Shape: []int{512, 32}}
	for name, opts := range describedBy {
		if opts == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			path := harness.Path(t)
			start := func(opts []xpwc.LoadOption) xpwc.Stats {
				c := harness.OpenCache(t, path, nil)
				mustCompute(t, c, opts, tall)
				require.NoError(t, c.Close())
				return c.Stats()
			}
			believes := append(slices.Clone(opts), xpwc.Believe())
			require.EqualValues(t, 1, start(opts).Packed.Entries)
			require.EqualValues(t, 1, start(believes).Hits.Entries)
			require.EqualValues(t, 1, start(opts).Reused.Entries)
			require.EqualValues(t, 1, start(append(believes, xpwc.Compare())).Reused.Entries)
		})
	}
}

func TestAVouchingHostIsNotServedVariants(t *testing.T) {
	f32 := harness.Datatypes[0]
	uses, plain := without(t, []harness.KernelUse{
		{Op: packing.FullyConnected, Types: f32, Shape: []int{512, 32}},
		{Op: packing.FullyConnected, Types: f32, Shape: []int{32, 512}},
	})
	require.Len(t, uses, 2)
	for name, opts := range describedBy {
		if opts == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			path := harness.Path(t)
			inOrder(t, path, opts, uses, plain)
			inOrder(t, path, append(slices.Clone(opts), xpwc.Believe()), append(uses, uses...), plain)
		})
	}
}

// smallShapes returns uses of kernels of one size.
func smallShapes(op packing.Operator, types harness.KernelTypes) (uses []harness.KernelUse) {
	add := func(u harness.KernelUse) {
		u.Op, u.Types = op, types
		uses = append(uses, u)
	}
	fourBit := types.Kernel == xnnpack.ChannelQInt4 || types.Kernel == xnnpack.BlockQInt4
	switch op {
	case packing.FullyConnected:
		const elements = 8192
		for in := 8; in <= 1024; in *= 2 {
			if types.Kernel == xnnpack.BlockQInt4 && in < 64 { // its blocks
				continue
			}
			add(harness.KernelUse{Shape: []int{elements / in, in}})
			if !fourBit {
				add(harness.KernelUse{Shape: []int{in, elements / in}, Transposed: true})
			}
		}
	case packing.BatchMatrixMultiply:
		const elements = 1536
		for _, batch := range []int{1, 2, 3} {
			for _, k := range []int{8, 16, 32, 64} {
				n := elements / batch / k
				add(harness.KernelUse{Shape: []int{batch, k, n}})
				add(harness.KernelUse{Shape: []int{batch, n, k}, Transposed: true})
			}
		}
	case packing.DepthwiseConvolution2D:
		for _, size := range [][2]int{{1, 1}, {1, 3}, {3, 1}, {3, 3}, {1, 9}, {9, 1}} {
			for _, multiplier := range []int{1, 2, 4} {
				add(harness.KernelUse{Shape: []int{1, size[0], size[1], 288 / (size[0] * size[1])}, Groups: multiplier})
			}
		}
	default:
		const elements = 864
		for _, size := range [][2]int{{1, 3}, {3, 1}, {3, 3}} {
			pixels := size[0] * size[1]
			for _, channels := range []int{6, 8, 12, 24} {
				if elements%(pixels*channels) != 0 {
					continue
				}
				out := elements / (pixels * channels)
				for _, groups := range []int{1, 2, 4, 6} {
					if out%groups != 0 {
						continue
					}
					add(harness.KernelUse{Shape: []int{out, size[0], size[1], channels}, Groups: groups})
					if size == [2]int{3, 3} {
						for _, stride := range []xnnpack.Size{{Height: 1, Width: 2}, {Height: 2, Width: 1}} {
							add(harness.KernelUse{Shape: []int{out, 3, 3, channels}, Groups: groups, Stride: stride})
						}
					}
				}
			}
		}
	}
	return uses
}

// Every pair of small shapes that have one content and one seed, of every operator in every datatype.
func TestShapesThatShareASeedArePackedApart(t *testing.T) {
	for _, op := range []packing.Operator{packing.FullyConnected, packing.Convolution2D, packing.DepthwiseConvolution2D,
		packing.Deconvolution2D, packing.BatchMatrixMultiply} {
		for _, types := range harness.Datatypes {
			t.Run(fmt.Sprint(op, " ", types.Name), func(t *testing.T) {
				t.Parallel()
				uses, plain := without(t, smallShapes(op, types))
				if len(uses) == 0 {
					t.Skip("XNNPACK has no kernel for it here")
				}
				groups := map[uint32][]harness.KernelUse{}
				packed := 0
				for _, u := range uses {
					if seed, ok := seedOf(t, u); ok {
						groups[seed] = append(groups[seed], u)
						packed++
					}
				}
				pairs := 0
				for _, shared := range groups {
					if len(shared) < 2 {
						continue
					}
					pairs += len(shared) * (len(shared) - 1)
					inOrder(t, harness.Path(t), nil, shared, plain)
					slices.Reverse(shared)
					inOrder(t, filepath.Join(t.TempDir(), "reverse"), nil, shared, plain)
				}
				t.Logf("%d shapes, %d in a cache, %d pairs of one seed", len(uses), packed, pairs)
				if packed == 0 || pairs > 0 {
					return
				}
				for _, u := range smallShapes(op, types) {
					if _, err := harness.Compute(nil, nil, u); errors.Is(err, xnnpack.ErrKnownDefect) {
						t.Skip(err)
					}
				}
				require.Fail(t, "no shapes have one seed")
			})
		}
	}
}

// seedOf returns XNNPACK's seed for a use, false if XNNPACK does not cache it.
func seedOf(t *testing.T, u harness.KernelUse) (uint32, bool) {
	t.Helper()
	path := harness.Path(t)
	c, err := xpwc.Open(path, nil)
	require.NoError(t, err)
	_, err = harness.Compute(c, nil, u)
	require.NoError(t, err, u)
	uncached := c.Stats().Packed.Entries == 0
	require.NoError(t, c.Close())
	if uncached {
		return 0, false
	}
	_, index := harness.ReadIndex(t, path)
	require.Equal(t, 1, index.Len())
	return harness.Record(t, index, 0).Seed, true
}

// A process whose runtime could not be created whole has seen the kernel packed in one of two ways, of which the next
// process cannot know which it was.
func TestAnAbortedCreationDoesNotDetermineAllUsesOfAKernel(t *testing.T) {
	f32 := harness.Datatypes[0]
	wide := harness.KernelUse{Op: packing.FullyConnected, Types: f32, Shape: []int{32, 512}}
	tall := harness.KernelUse{Op: packing.FullyConnected, Types: f32, Shape: []int{512, 32}}
	pair := []xpwc.LoadOption{xpwc.PackedAs(fullyConnected(wide)), xpwc.PackedAs(fullyConnected(tall))}
	_, plain := without(t, []harness.KernelUse{wide, tall})
	for _, packed := range []harness.KernelUse{wide, tall} {
		path := harness.Path(t)
		next := func(uses ...harness.KernelUse) []byte {
			c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			out, err := harness.Compute(c, pair, uses...)
			require.NoError(t, err)
			return out
		}
		require.Equal(t, plain[packed.String()], next(packed), "cold, and cut short")
		require.Equal(t, plain[tall.String()], next(tall), "the other, after %v", packed)
		require.Equal(t, plain[wide.String()], next(wide), "and again, after %v", packed)
	}
}

// If two uses of a kernel packed equal bytes, later processes serve one entry to both.
func TestUsesWithEqualPackingsShareAPayload(t *testing.T) {
	f32 := harness.Datatypes[0]
	use := harness.KernelUse{Op: packing.Convolution2D, Types: f32, Shape: []int{12, 3, 3, 12}}
	two := use
	two.Stride = xnnpack.Size{Height: 1, Width: 2} // which the bytes do not depend on
	plain, err := harness.Compute(nil, nil, use, two)
	require.NoError(t, err)
	path := harness.Path(t)
	for i := range 3 {
		c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
		require.NoError(t, err)
		got, err := harness.Compute(c, nil, use, two)
		require.NoError(t, err)
		require.Equal(t, plain, got)
		if i > 0 {
			require.EqualValues(t, 2, c.Stats().Hits.Entries)
		}
		require.NoError(t, c.Close())
	}
}

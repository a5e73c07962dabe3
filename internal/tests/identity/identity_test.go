//go:build cgo

package identity

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/format"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/optable"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

func TestPackingsWithCollidingKeysShareAFile(t *testing.T) {
	if dir := os.Getenv(harness.EnvDir); dir != "" {
		c := harness.OpenCache(t, filepath.Join(dir, "cache"), nil)
		for _, name := range harness.Collisions {
			op := harness.Case(t, name)
			plain, err := op.Run(nil, nil, nil)
			require.NoError(t, err)
			require.Equal(t, plain, harness.RunCase(t, c, op))
		}
		s := c.Stats()
		if os.Getenv("XPWC_TEST_WARM") != "" {
			require.Zero(t, s.Misses)
			require.Zero(t, s.WrittenBytes)
		} else {
			require.EqualValues(t, 2, s.Packed.Entries+s.Hits.Entries)
		}
		return
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("feature masks are for x86-64")
	}
	dir := t.TempDir()
	run := func(level string, env ...string) {
		cpus := optable.CPUs()
		i := slices.IndexFunc(cpus, func(c optable.CPU) bool { return c.Name == level })
		require.GreaterOrEqual(t, i, 0)
		harness.InProcess(t, "TestPackingsWithCollidingKeysShareAFile",
			append(env, cpus[i].Environment, harness.EnvDir+"="+dir)...)
	}
	run("avx2")
	run("avxvnni")
	run("avx2", "XPWC_TEST_WARM=1")
	run("avxvnni", "XPWC_TEST_WARM=1")

	file, index := harness.ReadIndex(t, filepath.Join(dir, "cache"))
	if len(index.Layouts()) == 1 {
		t.Skip("this XNNPACK packs the same on both")
	}
	require.Len(t, index.Layouts(), 2)
	bySeed := map[uint32][]format.Record{}
	for i := range index.Len() {
		r := harness.Record(t, index, i)
		bySeed[r.Seed] = append(bySeed[r.Seed], r)
	}
	if len(bySeed) == index.Len() {
		t.Skip("the seeds of this XNNPACK distinguish them")
	}
	require.Len(t, bySeed, 2, "each seed has both packings")
	for seed, records := range bySeed {
		require.Len(t, records, 2)
		a, b := records[0], records[1]
		require.Equal(t, a.Size, b.Size)
		require.NotEqual(t, a.Layout, b.Layout)
		require.False(t, bytes.Equal(file[a.Offset:a.Offset+a.Size], file[b.Offset:b.Offset+b.Size]), "seed %#x", seed)
	}
}

// twoScales is a model that uses one int8 kernel twice, with these scales. It gives them to the cache, or loads the
// kernel with these options.
type twoScales struct {
	scales  [2]float32
	gives   bool
	options []xpwc.LoadOption
}

const scaledWidth = 32

func (m twoScales) run(t testing.TB, c *xpwc.Cache) []float32 {
	t.Helper()
	kernel := harness.Floats(scaledWidth*scaledWidth/4, 3) // any bytes do
	g, err := xnnpack.NewSubgraph(2)
	require.NoError(t, err)
	row := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, scaledWidth}}
	require.NoError(t, errors.Join(g.Input(0, row), g.Output(1, row)))
	options := &xnnpack.RuntimeOptions{}
	var session *xpwc.Session
	data := kernel
	if c != nil {
		session, err = c.NewSession(xpwc.MapOf(map[string][]byte{"kernel": kernel, "kernel again": kernel}))
		require.NoError(t, err)
		options.WeightsCache = session
		if !m.gives {
			data, err = session.Load("kernel", m.options...)
			require.NoError(t, err)
		}
	} else {
		b, err := xnnpack.NewBuffer(len(kernel))
		require.NoError(t, err)
		defer b.Free()
		copy(b.Bytes(), kernel)
		data = b.Bytes()
	}
	in := xnnpack.ValueID(0)
	for i, scale := range m.scales {
		scales := slices.Repeat([]float32{scale}, scaledWidth)
		w := xnnpack.Tensor{Type: xnnpack.ChannelQInt8, Shape: []int{scaledWidth, scaledWidth},
			Quantization: xnnpack.Quantization{Scales: scales}}
		quantised := xnnpack.Tensor{Type: xnnpack.DynamicQInt8, Shape: row.Shape,
			Quantization: xnnpack.Quantization{NonBatchDims: 1}}
		w.Data = data
		if m.gives && session != nil {
			name := []string{"kernel", "kernel again"}[i]
			identity := xnnpack.FullyConnected{}.Packing(w, xnnpack.Tensor{}, quantised, row)
			w.Data, err = session.Load(name, xpwc.PackedAs(identity))
			require.NoError(t, err)
		}
		q, err := g.Tensor(quantised)
		require.NoError(t, err)
		k, err := g.Tensor(w)
		require.NoError(t, err)
		out := xnnpack.ValueID(1)
		if i == 0 {
			out, err = g.Tensor(row)
			require.NoError(t, err)
		}
		require.NoError(t, g.Add(xnnpack.Unary{Op: xnnpack.ConvertElements, Input: in, Output: q}))
		require.NoError(t, g.Add(xnnpack.FullyConnected{Input: q, Filter: k, Bias: xnnpack.InvalidValue,
			Output: out}))
		in = out
	}
	r, err := xnnpack.NewRuntime(g, options)
	require.NoError(t, err)
	require.NoError(t, g.Delete())
	if session != nil {
		require.NoError(t, session.Finalize())
		defer func() { require.NoError(t, session.Close()) }()
	}
	defer func() { require.NoError(t, r.Delete()) }()
	return harness.Chain{Width: scaledWidth}.Infer(t, r)
}

func TestAKernelWithTwoScalesIsTwoWeights(t *testing.T) {
	for _, gives := range []bool{true, false} {
		m := twoScales{scales: [2]float32{0.01, 0.02}, gives: gives}
		want := m.run(t, nil)
		path := harness.Path(t)
		for start := range 3 {
			c := harness.OpenCache(t, path, nil)
			require.Equal(t, want, m.run(t, c), "start %d, given the scales: %t", start, gives)
			s := c.Stats()
			require.NoError(t, c.Close())
			if start == 0 {
				require.EqualValues(t, 2, s.Packed.Entries)
				continue
			}
			require.Zero(t, s.Packed.Entries)
			require.Zero(t, s.WrittenBytes)
			if gives {
				require.EqualValues(t, 2, s.Hits.Entries, "the key distinguishes them")
			} else {
				require.EqualValues(t, 2, s.Reused.Entries, "only comparing distinguishes them")
			}
		}
		_, index := harness.ReadIndex(t, path)
		for i := range index.Len() {
			require.Equal(t, !gives, harness.Record(t, index, i).Flags&format.Variant != 0)
		}
	}
}

func TestModelsWithDifferentScalesGetTheirOwnEntries(t *testing.T) {
	path := harness.Path(t)
	for range 2 {
		for _, scales := range [][2]float32{{0.01, 0.02}, {0.03, 0.04}} {
			m := twoScales{scales: scales, gives: true}
			c := harness.OpenCache(t, path, nil)
			require.Equal(t, m.run(t, nil), m.run(t, c))
			require.NoError(t, c.Close())
		}
	}
}

func TestIncompletelyIdentifiedWeightsAreComparedAtEachStart(t *testing.T) {
	part := xpwc.PackedAs(packing.Opaque([]byte("all that the host knows")))
	for name, options := range map[string][]xpwc.LoadOption{
		"nothing is known": {},
		"something is":     {part},
	} {
		t.Run(name, func(t *testing.T) {
			path := harness.Path(t)
			models := []twoScales{
				{scales: [2]float32{0.01, 0.01}, options: options},
				{scales: [2]float32{0.02, 0.02}, options: options},
			}
			run := func(m twoScales) xpwc.Stats {
				c := harness.OpenCache(t, path, nil)
				require.Equal(t, m.run(t, nil), m.run(t, c))
				s := c.Stats()
				require.Zero(t, s.Hits.Entries)
				require.NoError(t, c.Close())
				return s
			}
			for _, m := range models {
				require.EqualValues(t, 1, run(m).Packed.Entries)
			}
			slices.Reverse(models)
			for range 2 {
				for _, m := range models {
					s := run(m)
					require.Zero(t, s.WrittenBytes)
					require.EqualValues(t, 2, s.Reused.Entries)
				}
			}
			for _, m := range models { // a host that believes is not given what nobody vouches for
				m.options = append(options, xpwc.Believe())
				run(m)
			}
		})
	}
}

// reused gives every tensor at one address, as an allocator does that hands freed memory out again.
type reused struct {
	buffer  *xnnpack.Buffer
	tensors map[string][]byte
}

func (d *reused) Tensor(name string) (xpwc.Tensor, error) {
	content, ok := d.tensors[name]
	if !ok {
		return xpwc.Tensor{}, xpwc.ErrUnknownTensor
	}
	copy(d.buffer.Bytes(), content)
	return xpwc.Tensor{Data: d.buffer.Bytes()[:len(content)]}, nil
}

func TestAReusedAddressDoesNotFindTheOldName(t *testing.T) {
	buffer, err := xnnpack.NewBuffer(4 * 64 * 64)
	require.NoError(t, err)
	defer buffer.Free()
	path := harness.Path(t)
	var models []harness.Chain
	tensors := map[string][]byte{}
	for i, name := range []string{"a", "b", "c"} {
		m := harness.Chain{Width: 64, Layers: [][2]string{{name, ""}}}
		models = append(models, m)
		tensors[name] = m.Weights(uint32(i))[name]
	}
	for range 2 {
		c := harness.OpenCache(t, path, nil)
		data := &reused{buffer, tensors}
		var open []*harness.ChainRuntime
		for _, m := range models { // all are open at once: their sources are freed, their runtimes live
			open = append(open, m.Open(t, c, data))
		}
		for i, m := range models {
			require.Equal(t, m.Plain(t, tensors), m.Infer(t, open[i].Runtime))
			open[i].MustClose(t)
		}
		require.NoError(t, c.Close())
	}
}

// executorchFile writes what ExecuTorch's cache would have of a native file's payloads.
func executorchFile(t testing.TB, native, dst string, version uint32,
	change func(entries []format.TrailerEntry, file []byte)) {
	file, index := harness.ReadIndex(t, native)
	var out []byte
	var entries []format.TrailerEntry
	for i := range index.Len() {
		r := harness.Record(t, index, i)
		out = append(out, make([]byte, -len(out)&4095)...) // ExecuTorch rounds to pages
		entries = append(entries, format.TrailerEntry{Name: r.Kernel + r.Bias, Offset: uint64(len(out)), Size: r.Size,
			Seed: r.Seed})
		out = append(out, file[r.Offset:r.Offset+r.Size]...)
	}
	if change != nil {
		change(entries, out)
	}
	out = append(out, format.EncodeTrailer(entries, uint64(len(out)))...)
	out[len(out)-4] = byte(version)
	require.NoError(t, os.WriteFile(dst, out, 0o600))
}

func TestExecuTorchsFilesAreReplaced(t *testing.T) {
	tensors := harness.ThreeLayers.Weights(1)
	want := harness.ThreeLayers.Plain(t, tensors)
	native := harness.Path(t)
	c := harness.OpenCache(t, native, nil)
	harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors))
	require.NoError(t, c.Close())

	for name, f := range map[string]struct {
		version uint32
		change  func([]format.TrailerEntry, []byte)
	}{
		"version 1": {format.TrailerVersion - 1, nil},
		"version 2": {format.TrailerVersion, nil},
		"a wrong payload": {format.TrailerVersion, func(e []format.TrailerEntry, file []byte) {
			file[e[1].Offset+9] ^= 1
		}},
		"payloads exchanged": {format.TrailerVersion, func(e []format.TrailerEntry, _ []byte) {
			e[0].Name, e[2].Name = e[2].Name, e[0].Name
		}},
		"a payload of no size": {format.TrailerVersion, func(e []format.TrailerEntry, _ []byte) { e[0].Size = 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			path := harness.Path(t)
			executorchFile(t, native, path, f.version, f.change)
			mapped, err := os.Open(path)
			require.NoError(t, err)
			defer mapped.Close()
			content, err := os.ReadFile(path)
			require.NoError(t, err)

			readOnly := harness.OpenCache(t, path, &xpwc.Options{ReadOnly: true})
			require.Equal(t, want, harness.ThreeLayers.Run(t, readOnly, xpwc.MapOf(tensors)))
			require.NoError(t, readOnly.Close())
			unchanged, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, unchanged))
			_, err = xpwc.Open(path, &xpwc.Options{Strict: true})
			if f.version == format.TrailerVersion {
				require.ErrorIs(t, err, xpwc.ErrForeign)
			} else {
				require.ErrorIs(t, err, xpwc.ErrVersion)
			}

			c := harness.OpenCache(t, path, nil)
			require.Equal(t, want, harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors)))
			require.NoError(t, c.Close())
			require.EqualValues(t, 3, c.Stats().Packed.Entries)
			retained, err := io.ReadAll(mapped)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, retained), "whoever has the old one open, or mapped, keeps it")
			files, err := os.ReadDir(filepath.Dir(path))
			require.NoError(t, err)
			require.Len(t, files, 1, "nothing lies beside it")

			c = harness.OpenCache(t, path, &xpwc.Options{Strict: true})
			require.Equal(t, want, harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors)))
			require.EqualValues(t, 3, c.Stats().Hits.Entries)
		})
	}
}

// Root could write to it all the same. A file is packed ahead of time so, for runtimes that change what they can write.
func TestAFileWithoutWriteBitsIsNeverChanged(t *testing.T) {
	tensors := harness.ThreeLayers.Weights(1)
	native := harness.Path(t)
	c := harness.OpenCache(t, native, nil)
	harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors))
	require.NoError(t, c.Close())
	packed, err := os.ReadFile(native)
	require.NoError(t, err)
	extra := harness.Chain{Width: 96, Layers: append(harness.ThreeLayers.Layers[:3:3], [2]string{"w4", ""})}
	tensors = extra.Weights(1)
	for name, make := range map[string]func(path string){
		"native":       func(path string) { require.NoError(t, os.WriteFile(path, packed, 0o600)) },
		"ExecuTorch's": func(path string) { executorchFile(t, native, path, format.TrailerVersion, nil) },
		"damaged": func(path string) {
			executorchFile(t, native, path, format.TrailerVersion, func(e []format.TrailerEntry, _ []byte) {
				e[1].Offset = 1 << 40
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := harness.Path(t)
			make(path)
			require.NoError(t, os.Chmod(path, 0o444))
			infoBefore, err := os.Stat(path)
			require.NoError(t, err)
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			c := harness.OpenCache(t, path, nil)
			require.Equal(t, extra.Plain(t, tensors), extra.Run(t, c, xpwc.MapOf(tensors)))
			require.NoError(t, c.Close())
			require.NotZero(t, c.Stats().Private[xpwc.ReasonReadOnly])
			require.ErrorIs(t, c.Stats().LastError, os.ErrPermission)
			infoAfter, err := os.Stat(path)
			require.NoError(t, err)
			require.True(t, os.SameFile(infoBefore, infoAfter))
			unchanged, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, unchanged))
			neighbours, err := filepath.Glob(path + ".*")
			require.NoError(t, err)
			require.Empty(t, neighbours)
		})
	}
}

func TestADamagedFileOfExecuTorchIsSetAside(t *testing.T) {
	tensors := harness.ThreeLayers.Weights(1)
	native, path := harness.Path(t), harness.Path(t)
	c := harness.OpenCache(t, native, nil)
	harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors))
	require.NoError(t, c.Close())
	executorchFile(t, native, path, format.TrailerVersion,
		func(e []format.TrailerEntry, _ []byte) { e[1].Offset = 1 << 40 })
	c = harness.OpenCache(t, path, nil)
	require.ErrorIs(t, c.Stats().Damaged, xpwc.ErrDamaged)
	require.Equal(t, harness.ThreeLayers.Plain(t, tensors), harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors)))
	require.NoError(t, c.Close())
	require.FileExists(t, path+".damaged")
	require.Equal(t, 3, c.Stats().Entries)
}

// What the layout fingerprint is for: where anything packs differently, it differs. Every operator and datatype is
// packed on every level of CPU, and levels of one fingerprint must have packed the same bytes.
func TestTheLayoutFingerprintDistinguishesPackings(t *testing.T) {
	if dir := os.Getenv(harness.EnvDir); dir != "" {
		c := harness.OpenCache(t, filepath.Join(dir, "cache"), nil)
		for _, op := range optable.Cases() {
			if _, err := op.Run(nil, nil, nil); errors.Is(err, xnnpack.UnsupportedHardware) {
				continue
			}
			harness.RunCase(t, c, op)
		}
		return
	}
	type packed struct {
		kernel, bias, quantization format.Digest
		seed                       uint32
		size                       uint64
	}
	layouts := map[format.Digest]map[packed]map[format.Digest]bool{}
	cpus := map[format.Digest][]string{}
	ran := 0
	harness.EachCPU(t, func(t *testing.T, cpu optable.CPU) {
		dir := t.TempDir()
		harness.InProcess(t, "TestTheLayoutFingerprintDistinguishesPackings", cpu.Environment, harness.EnvDir+"="+dir)
		ran++
		_, index := harness.ReadIndex(t, filepath.Join(dir, "cache"))
		require.Len(t, index.Layouts(), 1)
		layout := index.Layouts()[0].Fingerprint
		cpus[layout] = append(cpus[layout], cpu.Name)
		sums := map[packed]map[format.Digest]bool{}
		for i := range index.Len() {
			r := harness.Record(t, index, i)
			key := packed{r.Digests.Kernel, r.Digests.Bias, r.Packing, r.Seed, r.Size}
			if sums[key] == nil {
				sums[key] = map[format.Digest]bool{}
			}
			sums[key][r.Sum] = true
		}
		require.Greater(t, len(sums), 100)
		if older := layouts[layout]; older != nil {
			require.Equal(t, older, sums, "CPUs %v have one fingerprint", cpus[layout])
		}
		layouts[layout] = sums
	})
	t.Logf("CPUs that pack alike: %v", slices.Collect(maps.Values(cpus)))
	require.GreaterOrEqual(t, len(layouts), ran/2, "most CPUs pack in a way of their own")
}

// XNNPACK's seed is an XOR of shapes, so transposed shapes have one, and zeros have the same bytes in either.
func TestZerosOfTransposedShapesGetTheirOwnEntries(t *testing.T) {
	path := harness.Path(t)
	zeros := map[string][]byte{"w": make([]byte, 4*32*512)}
	for i, shape := range [][]int{{32, 512}, {512, 32}, {32, 512}, {512, 32}} {
		var options []xpwc.LoadOption
		if i == 2 {
			path = harness.Path(t)
		}
		if i > 1 { // an unquantised tensor does not determine the shape
			options = append(options, xpwc.PackedAs(packing.Opaque(nil)))
		}
		c := harness.OpenCache(t, path, nil)
		g, err := xnnpack.NewSubgraph(2)
		require.NoError(t, err)
		s, err := c.NewSession(xpwc.MapOf(zeros))
		require.NoError(t, err)
		w, err := s.Load("w", options...)
		require.NoError(t, err)
		row := func(n int) xnnpack.Tensor { return xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, n}} }
		require.NoError(t, errors.Join(g.Input(0, row(shape[1])), g.Output(1, row(shape[0]))))
		k, err := g.Tensor(xnnpack.Tensor{Type: xnnpack.Float32, Shape: shape, Data: w})
		require.NoError(t, err)
		require.NoError(t, g.Add(xnnpack.FullyConnected{Input: 0, Filter: k, Bias: xnnpack.InvalidValue,
			Output: 1}))
		r, err := xnnpack.NewRuntime(g, &xnnpack.RuntimeOptions{WeightsCache: s})
		require.NoError(t, errors.Join(err, g.Delete()))
		require.NoError(t, s.Finalize())
		require.Zero(t, c.Stats().Hits.Entries, "nobody knows which is meant")
		require.NoError(t, errors.Join(r.Delete(), s.Close(), c.Close()))
	}
}

// Two models that name their tensors alike share a file, as fine-tunes of one do.
func TestAWarmLoadReadsNoTensorsIfModelsShareNames(t *testing.T) {
	path := harness.Path(t)
	var digests atomic.Int64
	models := []xpwc.DataMap{}
	for version := range 3 {
		tensors := harness.ThreeLayers.Weights(uint32(version + 1))
		models = append(models, fineTune{tensors, fmt.Sprint("model ", version), &digests, ""})
	}
	run := func() xpwc.Stats {
		c := harness.OpenCache(t, path, nil)
		for _, m := range models {
			harness.ThreeLayers.Run(t, c, m)
		}
		require.NoError(t, c.Close())
		return c.Stats()
	}
	require.EqualValues(t, 9, run().Packed.Entries)
	digests.Store(0)
	require.EqualValues(t, 9, run().Hits.Entries)
	require.Zero(t, digests.Load())
}

type fineTune struct {
	tensors map[string][]byte
	source  string
	digests *atomic.Int64
	stamp   string
}

func (m fineTune) Tensor(name string) (xpwc.Tensor, error) {
	t, err := xpwc.MapOf(m.tensors).Tensor(name)
	digest := t.Identity.Digest
	t.Identity = xpwc.Identity{Source: m.source, Stamp: "stamp" + m.stamp, Digest: func() (xpwc.Digest, error) {
		m.digests.Add(1)
		return digest()
	}}
	return t, err
}

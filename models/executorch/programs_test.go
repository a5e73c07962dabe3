//go:build cgo

package executorch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/modeltest"
	"xpwc/models"
	"xpwc/models/npy"
	"xpwc/xnnpack"
)

// programPath returns where an ExecuTorch program lies: in the repository, or, if it is too large for that, in
// the directory that XPWC_PROGRAMS names. Without that the test is skipped.
func programPath(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join("testdata", "programs", name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	dir := os.Getenv("XPWC_PROGRAMS")
	if dir == "" {
		t.Skip("XPWC_PROGRAMS does not say where ", name, " is")
	}
	return filepath.Join(dir, name)
}

// openProgram opens a program with its external data, if it has any.
func openProgram(t testing.TB, name string) *Program {
	t.Helper()
	pte := programPath(t, name+".pte")
	ptd := filepath.Join(filepath.Dir(pte), name+".ptd")
	var data []string
	if _, err := os.Stat(ptd); err == nil {
		data = append(data, ptd)
	}
	p, err := Open(pte, data...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// readArray returns the elements of a .npy as bytes, and its shape.
func readArray(t testing.TB, path string) ([]byte, []int) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	a, err := npy.Read(b)
	require.NoError(t, err)
	return a.Data, a.Shape
}

// floats32 returns floats of single or half precision.
func floats32(t testing.TB, b []byte, datatype xnnpack.Datatype) []float32 {
	t.Helper()
	if datatype == xnnpack.Float16 {
		wide := make([]byte, 2*len(b))
		require.NoError(t, xnnpack.WidenF16(wide, append(b, make([]byte, xnnpack.ExtraBytes)...)[:len(b)]))
		b = wide
	}
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// execution is how a method is run: with a cache or without.
type execution struct{ cache *xpwc.Cache }

// run computes a method's outputs from its inputs, each in the shape that is given with it.
func (e execution) run(
	t testing.TB, m models.Model, inputs [][]byte, inputShapes [][]int,
) (outputs [][]byte, shapes [][]int) {
	t.Helper()
	var loader models.Loader
	var finalize func() error
	options := &xnnpack.RuntimeOptions{}
	if e.cache == nil {
		memory := models.NewMemory(m.DataMap())
		defer func() { require.NoError(t, memory.Close()) }()
		loader, finalize = memory, func() error { memory.Finalize(); return nil }
	} else {
		session, err := e.cache.NewSession(m.DataMap())
		require.NoError(t, err)
		defer func() { require.NoError(t, session.Close()) }()
		loader, options.WeightsCache, finalize = session, session, session.Finalize
	}
	s, err := m.Subgraph(loader)
	if errors.Is(err, xnnpack.ErrKnownDefect) {
		t.Skip(err)
	}
	require.NoError(t, err)
	r, err := xnnpack.NewRuntime(s, options)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Delete()) }()
	require.NoError(t, finalize())
	require.NoError(t, s.Delete())
	external := map[xnnpack.ValueID][]byte{}
	buffer := func(v models.Value, shape []int) []byte {
		n, err := v.Type.ByteSize(shape)
		require.NoError(t, err)
		b, err := xnnpack.NewBuffer(n)
		require.NoError(t, err)
		t.Cleanup(b.Free)
		external[v.ID] = b.Bytes()
		return b.Bytes()
	}
	for i, v := range m.Inputs() {
		if !slices.Equal(v.Shape, inputShapes[i]) {
			require.True(t, v.Dynamic)
			require.NoError(t, r.ReshapeExternal(v.ID, inputShapes[i]))
		}
		b := buffer(v, inputShapes[i])
		require.Len(t, inputs[i], len(b))
		copy(b, inputs[i])
	}
	require.NoError(t, r.Reshape())
	for _, v := range m.Outputs() {
		shape, err := r.ExternalShape(v.ID)
		require.NoError(t, err)
		outputs, shapes = append(outputs, buffer(v, shape)), append(shapes, shape)
	}
	require.NoError(t, r.Setup(external))
	require.NoError(t, r.Invoke())
	return outputs, shapes
}

// relativeL2 is the norm of the difference over the norm of the expected values.
func relativeL2(got, want []float32) float64 {
	var difference, norm float64
	for i := range want {
		d := float64(got[i]) - float64(want[i])
		difference, norm = difference+d*d, norm+float64(want[i])*float64(want[i])
	}
	return math.Sqrt(difference / norm)
}

// programs are programs that ExecuTorch 1.5.1 exported and ran; testdata/README.md describes them and how far other
// XNNPACKs and other CPUs may be from its outputs.
var programs = []struct {
	name       string
	relativeL2 float64
}{
	{"mlp_fp32", 1e-4},
	{"mlp_dyn_fp32", 1e-4},
	{"mlp_fp16", 5e-3},
	{"mobilenet_v3_small_int8", 3e-2},
	{"mobilenet_v2_fp32_ext", 1e-3},
}

func TestProgramsComputeWhatExecuTorchDoes(t *testing.T) {
	for _, c := range programs {
		t.Run(c.name, func(t *testing.T) {
			p := openProgram(t, c.name)
			m, err := p.Method("forward")
			require.NoError(t, err)
			require.NoError(t, m.Runnable())
			golden := filepath.Join(filepath.Dir(p.Path()), c.name)
			var inputs [][]byte
			var inputShapes [][]int
			for i := range m.Inputs() {
				b, shape := readArray(t, fmt.Sprintf("%s.in%d.npy", golden, i))
				inputs, inputShapes = append(inputs, b), append(inputShapes, shape)
			}
			got, shapes := execution{}.run(t, m, inputs, inputShapes)
			for i, v := range m.Outputs() {
				b, shape := readArray(t, fmt.Sprintf("%s.out%d.npy", golden, i))
				require.Equal(t, shape, shapes[i])
				l2 := relativeL2(floats32(t, got[i], v.Type), floats32(t, b, v.Type))
				t.Logf("%s, %s: relative l2 %.1e", c.name, v.Name, l2)
				require.LessOrEqual(t, l2, c.relativeL2)
			}

			path := filepath.Join(t.TempDir(), "cache.xpwc")
			for _, warm := range []bool{false, true} {
				cache, err := xpwc.Open(path, nil)
				require.NoError(t, err)
				repeated, _ := execution{cache}.run(t, m, inputs, inputShapes)
				require.Equal(t, got, repeated, "bit for bit")
				require.NoError(t, cache.Save())
				stats := cache.Stats()
				require.NoError(t, cache.Close())
				require.NoError(t, stats.LastError)
				if warm {
					require.Zero(t, stats.Packed)
					require.Zero(t, stats.WrittenBytes)
				} else {
					require.Positive(t, stats.Packed.Entries)
				}
			}
			modeltest.CheckPacked(t, m)
		})
	}
}

// What only ExecuTorch runs is packed for it: a part of a Llama, whose weights of 4 bits are in 26 delegates.
func TestAProgramOfManyDelegatesIsPackedOnce(t *testing.T) {
	p := openProgram(t, "llama_8da4w_g32")
	require.ErrorIs(t, p.Methods()[0].Runnable(), ErrUnsupportedOp)
	path := filepath.Join(t.TempDir(), "cache")
	cold := packAll(t, p, path)
	require.Positive(t, cold.Packed.Entries)
	require.NoError(t, cold.Damaged)
	warm := packAll(t, p, path)
	require.Zero(t, warm.Packed)
	require.Empty(t, warm.Private)
	require.Zero(t, warm.DamagedPayloads)
	require.Equal(t, cold.Packed.Entries, warm.Hits.Entries+warm.Reused.Entries)
}

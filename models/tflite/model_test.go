package tflite

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/flatbuf"
	"xpwc/internal/half"
	"xpwc/internal/mapped"
	"xpwc/internal/tests/modeltest"
	"xpwc/internal/tests/testkit"
	"xpwc/models"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// recorder is a loader that notes what it is asked for, and which constants were computed before the runtime was
// created.
type recorder struct {
	*models.Memory
	names []string
	opts  map[string][]xpwc.LoadOption
}

func newRecorder(m *Model) *recorder {
	return &recorder{Memory: models.NewMemory(m.DataMap()), opts: map[string][]xpwc.LoadOption{}}
}

func (r *recorder) Load(name string, opts ...xpwc.LoadOption) ([]byte, error) {
	r.names = append(r.names, name)
	r.opts[name] = opts
	return r.Memory.Load(name, opts...)
}

// placeholder is a loader that gives memory with nothing in it, as a session does for entries that it expects in the
// cache.
type placeholder struct {
	t       *testing.T
	data    xpwc.DataMap
	buffers []*xnnpack.Buffer
	eager   map[string]bool
}

func (p *placeholder) Load(name string, opts ...xpwc.LoadOption) ([]byte, error) {
	tensor, err := p.data.Tensor(name)
	require.NoError(p.t, err)
	size := max(tensor.Size, len(tensor.Data))
	b, err := xnnpack.NewBuffer(size)
	require.NoError(p.t, err)
	p.buffers = append(p.buffers, b)
	if slices.ContainsFunc(opts, func(o xpwc.LoadOption) bool { return reflect.DeepEqual(o, xpwc.Eager()) }) {
		p.eager[name] = true
	}
	return b.Bytes(), nil
}

// widening has a convolution and a depthwise convolution with weights in half precision, and an addition of such a
// constant.
func widening() blueprint {
	return blueprint{
		tensors: []blueTensor{
			floats("in", []int{1, 4, 4, 8}), floats("out", nil), floats("a", nil), floats("b", nil),
			halves("conv_f16", []int{8, 1, 1, 8}, wave(64)...), floats("conv", []int{8, 1, 1, 8}),
			halves("depthwise_f16", []int{1, 3, 3, 8}, wave(72)...), floats("depthwise", []int{1, 3, 3, 8}),
			halves("addend_f16", []int{8}, wave(8)...), floats("addend", []int{8}),
		},
		ops: []blueOp{
			{code: "DEQUANTIZE", inputs: []int{4}, outputs: []int{5}},
			{code: "DEQUANTIZE", inputs: []int{6}, outputs: []int{7}},
			{code: "DEQUANTIZE", inputs: []int{8}, outputs: []int{9}},
			{code: "CONV_2D", inputs: []int{0, 5}, outputs: []int{2},
				options: fields{conv2D.strideH: int32(1), conv2D.strideW: int32(1)}},
			{code: "DEPTHWISE_CONV_2D", inputs: []int{2, 7}, outputs: []int{3},
				options: fields{depthwise2D.strideH: int32(1), depthwise2D.strideW: int32(1)}},
			{code: "ADD", inputs: []int{3, 9}, outputs: []int{1}},
		},
		inputs: []int{0}, outputs: []int{1},
	}
}

func TestBuildingASubgraphComputesNothing(t *testing.T) {
	b := widening()
	m := openModel(t, save(t, b.bytes()))
	p := &placeholder{t: t, data: m.DataMap(), eager: map[string]bool{}}
	s, err := m.Subgraph(p)
	require.NoError(t, err)
	require.NoError(t, s.Delete())
	require.Len(t, p.buffers, 3)
	for _, buffer := range p.buffers {
		for _, v := range buffer.Bytes() {
			require.Zero(t, v)
		}
		buffer.Free()
	}
	require.Equal(t, map[string]bool{"depthwise": true, "addend": true}, p.eager,
		"what is packed without a look-up or read at inference is asked for at once, the rest is not")
}

func TestEachConstantIsLoadedOnceAndByItsUse(t *testing.T) {
	b := widening()
	// The addend is also the convolution's bias.
	b.ops[3].inputs = []int{0, 5, 9}
	m := openModel(t, save(t, b.bytes()))
	r := newRecorder(m)
	defer r.Close()
	s, err := m.Subgraph(r)
	require.NoError(t, err)
	require.NoError(t, s.Delete())
	require.ElementsMatch(t, []string{"conv", "addend", "depthwise"}, r.names)
	float := packing.Operand{Type: packing.Datatype(xnnpack.Float32)}
	convolution := packing.Identity{Operator: packing.Convolution2D, Shape: []int{8, 1, 1, 8},
		Input: float, Kernel: float, Bias: float, Output: float}
	depthwise := packing.Identity{Operator: packing.DepthwiseConvolution2D, Shape: []int{1, 3, 3, 8},
		Input: float, Kernel: float, Output: float}
	require.Equal(t, map[string][]xpwc.LoadOption{
		"conv":      {xpwc.PackOnly(), xpwc.PackedAs(convolution)},
		"depthwise": {xpwc.Eager(), xpwc.PackOnly(), xpwc.PackedAs(depthwise)},
		"addend":    {xpwc.Eager(), xpwc.Retain()},
	}, r.opts)
}

func TestHalfPrecisionIsWidenedExactly(t *testing.T) {
	var bits []byte
	for h := range 1 << 16 {
		bits = binary.LittleEndian.AppendUint16(bits, uint16(h))
	}
	m := single(blueOp{code: "ADD", inputs: []int{0, 2}}, []int{1 << 16})
	m.tensors = append(m.tensors, floats("c", []int{1 << 16}),
		blueTensor{name: "h", shape: []int{1 << 16}, dtype: typeFloat16, data: bits})
	m.ops = append([]blueOp{{code: "DEQUANTIZE", inputs: []int{3}, outputs: []int{2}}}, m.ops...)
	model := openModel(t, save(t, m.bytes()))
	tensor, err := model.DataMap().Tensor("c")
	require.NoError(t, err)
	require.Nil(t, tensor.Data)
	dst := make([]byte, tensor.Size)
	require.NoError(t, tensor.Fill(dst))
	for h := range 1 << 16 {
		got := math.Float32frombits(binary.LittleEndian.Uint32(dst[4*h:]))
		switch exp, mant := h>>10&31, h&1023; {
		case exp < 31:
			require.Equal(t, float32(half.Float64(uint16(h))), got, "half %#04x", h)
		case mant != 0:
			require.True(t, math.IsNaN(float64(got)), "half %#04x", h)
		default:
			require.True(t, math.IsInf(float64(got), 1-2*(h>>15)), "half %#04x", h)
		}
	}
	require.Error(t, tensor.Fill(dst[:4]), "memory of another size")
}

func TestWeightsInSinglePrecisionAreUsedWhereTheyLie(t *testing.T) {
	m := single(blueOp{code: "CONV_2D", options: fields{conv2D.strideH: int32(1), conv2D.strideW: int32(1)}},
		[]int{1, 4, 4, 3},
		constantOf("kernel", 5, 1, 1, 3), constantOf("bias", 5), floats("end of the file", []int{4096}, wave(4096)...))
	m.ops[0].inputs = []int{0, 1, 2}
	path := save(t, m.bytes())
	model := openModel(t, path)
	kernel, err := model.DataMap().Tensor("kernel")
	require.NoError(t, err)
	require.Equal(t, littleEndian(wave(15)), kernel.Data)
	require.Nil(t, kernel.Fill)
	require.Equal(t, path, kernel.Identity.Source)
	digest, err := kernel.Identity.Digest()
	require.NoError(t, err)
	require.Equal(t, xpwc.DigestOf(kernel.Data), digest)
	kernel.Evict()
	require.Equal(t, littleEndian(wave(15)), kernel.Data, "released pages are read again from the file")

	_, err = model.DataMap().Tensor("end of the file")
	require.ErrorIs(t, err, xpwc.ErrUnknownTensor, "a constant that no node uses")
}

func TestConstantsReadAtInferenceAreCopiedToMemoryWithSlack(t *testing.T) {
	m := single(blueOp{code: "ADD"}, []int{1, 4}, constantOf("addend", 4))
	tensor, err := openModel(t, save(t, m.bytes())).DataMap().Tensor("addend")
	require.NoError(t, err)
	require.Nil(t, tensor.Data)
	require.Equal(t, 16, tensor.Size)
}

func TestAConstantAtTheVeryEndOfTheFileIsCopied(t *testing.T) {
	page := os.Getpagesize()
	m := single(blueOp{code: "FULLY_CONNECTED"}, []int{1, 16}, constantOf("kernel", 4, 16))
	m.tensors[1].outside = true
	b := m.bytes()
	// The kernel is moved so that it ends where a page ends.
	kernel := littleEndian(wave(64))
	end := (len(b) + len(kernel) + page - 1) / page * page
	m.tensors[1].data = append(make([]byte, end-len(b)), kernel...)
	moved := m.bytes()
	offset := len(moved) - len(kernel)
	old, size := uint64(offset-(end-len(b))), uint64(len(m.tensors[1].data))
	patch(t, moved, old, uint64(end-len(kernel)))
	patch(t, moved, size, uint64(len(kernel)))
	moved = append(moved, make([]byte, page)...)[:end]
	copy(moved[end-len(kernel):], kernel)
	tensor, err := openModel(t, save(t, moved)).DataMap().Tensor("kernel")
	require.NoError(t, err)
	require.Nil(t, tensor.Data, "kernels read beyond the end, where there is no memory")
	dst := make([]byte, tensor.Size)
	require.NoError(t, tensor.Fill(dst))
	require.Equal(t, kernel, dst)
}

func TestHalfPrecisionIsWidenedWhereverItLies(t *testing.T) {
	page := os.Getpagesize()
	for _, n := range []int{1, 63, 64, 65, 8 * page} {
		for _, misplaced := range []int{0, 1} {
			bits := make([]byte, 2*n, 2*n+page)
			for i := range n {
				binary.LittleEndian.PutUint16(bits[2*i:], half.Bits(float64(i%2048)))
			}
			// It ends at the file's end, where a page ends, or a byte before that.
			file := make([]byte, (len(bits)/page+1)*page)
			offset := len(file) - len(bits) - misplaced
			copy(file[offset:], bits)
			mapping, err := mapped.Open(save(t, file))
			require.NoError(t, err)
			c := constant{source: flatbuf.Span{Offset: int64(offset), Size: int64(len(bits))}, stored: typeFloat16,
				dtype: typeFloat32, size: 4 * n}
			wide := make([]byte, c.size)
			c.fill(wide, c.place().In(mapping.Data()))
			for i := range n {
				require.Equal(t, float32(i%2048), math.Float32frombits(binary.LittleEndian.Uint32(wide[4*i:])))
			}
			require.NoError(t, mapping.Close())
		}
	}
}

func TestHalfPrecisionIsWidenedWithoutAnotherCopy(t *testing.T) {
	const n = 1 << 20
	c := constant{stored: typeFloat16, dtype: typeFloat32, size: 4 * n}
	wide, stored := make([]byte, 4*n), make([]byte, 2*n)
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	c.fill(wide, stored)
	runtime.ReadMemStats(&end)
	require.Less(t, end.TotalAlloc-start.TotalAlloc, uint64(n))
}

// patch replaces the only occurrence of a 64-bit number.
func patch(t *testing.T, b []byte, old, new uint64) {
	t.Helper()
	src, dst := binary.LittleEndian.AppendUint64(nil, old), binary.LittleEndian.AppendUint64(nil, new)
	require.Equal(t, 1, strings.Count(string(b), string(src)))
	copy(b[strings.Index(string(b), string(src)):], dst)
}

func TestIdentityChangesWithTheFileAndWithTheConversion(t *testing.T) {
	b := widening()
	path := save(t, b.bytes())
	testkit.Settled(t, path)
	identity := func(name string) (string, xpwc.Digest) {
		m, err := Open(path, nil)
		require.NoError(t, err)
		defer m.Close()
		tensor, err := m.DataMap().Tensor(name)
		require.NoError(t, err)
		d, err := tensor.Identity.Digest()
		require.NoError(t, err)
		return tensor.Identity.Stamp, d
	}
	stamp, digest := identity("conv")
	require.NotEmpty(t, stamp)
	id, sum := identity("conv")
	require.Equal(t, stamp, id)
	require.Equal(t, digest, sum)
	different, _ := identity("depthwise")
	require.NotEqual(t, stamp, different)

	// The same bytes at the same time in another file: another stamp, the same content.
	info, err := os.Stat(path)
	require.NoError(t, err)
	fresh := save(t, b.bytes())
	require.NoError(t, os.Chtimes(fresh, info.ModTime(), info.ModTime()))
	require.NoError(t, os.Rename(fresh, path))
	testkit.Settled(t, path)
	moved, sum := identity("conv")
	require.NotEmpty(t, moved)
	require.NotEqual(t, stamp, moved)
	require.Equal(t, digest, sum)

	// Other weights.
	b.tensors[4] = halves("conv_f16", []int{8, 1, 1, 8}, wave(65)[1:]...)
	require.NoError(t, os.WriteFile(path, b.bytes(), 0o644))
	_, changed := identity("conv")
	require.NotEqual(t, digest, changed)

	// The same bytes, of weights in single precision half as large.
	b.tensors[4] = blueTensor{name: "conv_f16", shape: []int{8, 1, 1, 4}, dtype: typeFloat32, data: b.tensors[4].data}
	b.ops = b.ops[1:]
	b.ops[2].inputs = []int{0, 4}
	b.tensors[0].shape = []int{1, 4, 4, 4}
	require.NoError(t, os.WriteFile(path, b.bytes(), 0o644))
	_, unwidened := identity("conv_f16")
	require.NotEqual(t, changed, unwidened)
}

func TestNamesAreMadeUnique(t *testing.T) {
	names := func(in ...string) []string {
		tensors := make([]tensor, len(in))
		for i, n := range in {
			tensors[i].name = n
		}
		uniqueNames(tensors)
		var out []string
		for _, t := range tensors {
			out = append(out, t.name)
		}
		return out
	}
	require.Equal(t, []string{"a", "b", "c"}, names("a", "b", "c"))
	require.Equal(t, []string{"a", "a#1", "a#2"}, names("a", "a", "a"))
	require.Equal(t, []string{"a", "a#1#", "a#1"}, names("a", "a", "a#1"))
	require.Equal(t, []string{"#0", "#1"}, names("", ""))
	require.Equal(t, []string{"#0#", "#0"}, names("", "#0"))
}

func TestInputsAndOutputsComeInTheModelsOrder(t *testing.T) {
	m := blueprint{
		tensors: []blueTensor{floats("a", []int{2, 2}), floats("b", []int{2}), floats("sum", nil),
			floats("difference", nil), floats("one", []int{1}, 1)},
		ops: []blueOp{{code: "ADD", inputs: []int{0, 1}, outputs: []int{2}},
			{code: "SUB", inputs: []int{0, 1}, outputs: []int{3}}},
		inputs: []int{1, 0},
		// An output may be given twice, and be an input or a constant.
		outputs: []int{3, 2, 3, 1, 4},
	}
	opened := openModel(t, save(t, m.bytes()))
	value := func(id xnnpack.ValueID, name string, shape ...int) models.Value {
		return models.Value{ID: id, Name: name, Type: xnnpack.Float32, Shape: shape}
	}
	require.Equal(t, []models.Value{value(0, "b", 2), value(1, "a", 2, 2)}, opened.Inputs())
	require.Equal(t, []models.Value{
		value(2, "difference", 2, 2), value(3, "sum", 2, 2), value(4, "difference", 2, 2), value(5, "b", 2),
		value(6, "one", 1),
	}, opened.Outputs())
	got := modeltest.Run(t, opened, []float32{10, 20}, []float32{1, 2, 3, 4})
	require.Equal(t, [][]float32{{-9, -18, -7, -16}, {11, 22, 13, 24}, {-9, -18, -7, -16}, {10, 20}, {1}}, got)
}

func TestAnUnknownOperatorIsNamedWithItsIndex(t *testing.T) {
	for _, c := range []struct {
		op   blueOp
		want string
	}{
		{blueOp{code: "UNIQUE"}, "operator 1, UNIQUE: unsupported operator"},
		{blueOp{code: "BITCAST"}, "operator 1, BITCAST: unsupported operator"},
		{blueOp{code: "BUILTIN_9999"}, "operator 1, BUILTIN_9999: unsupported operator"},
		{blueOp{code: "CUSTOM", custom: "Landmarks2TransformMatrix"},
			"operator 1, Landmarks2TransformMatrix: unsupported operator"},
	} {
		m := single(blueOp{code: "RELU"}, []int{4})
		m.tensors = append(m.tensors, floats("more", nil))
		c.op.inputs, c.op.outputs = []int{1}, []int{2}
		m.ops, m.outputs = append(m.ops, c.op), []int{2}
		path := save(t, m.bytes())
		_, err := Open(path, nil)
		require.ErrorIs(t, err, ErrUnsupportedOp)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, path)
	}
}

func TestAClosedModelRefusesToBeUsed(t *testing.T) {
	b := widening()
	m, err := Open(save(t, b.bytes()), nil)
	require.NoError(t, err)
	data, l := m.DataMap(), models.NewMemory(m.DataMap())
	tensor, err := data.Tensor("conv")
	require.NoError(t, err)
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	_, err = data.Tensor("conv")
	require.ErrorIs(t, err, xpwc.ErrClosed)
	require.ErrorIs(t, tensor.Fill(make([]byte, tensor.Size)), xpwc.ErrClosed)
	_, err = tensor.Identity.Digest()
	require.ErrorIs(t, err, xpwc.ErrClosed)
	tensor.Evict()
	_, err = m.Subgraph(l)
	require.ErrorIs(t, err, xpwc.ErrClosed)
	_, err = l.Load("conv")
	require.ErrorIs(t, err, xpwc.ErrClosed)
	require.NoError(t, l.Close())
}

func TestWhatIsNoModelIsAnErrorThatNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	empty, text := filepath.Join(dir, "empty"), filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	require.NoError(t, os.WriteFile(text, []byte("a page of text is not a model"), 0o644))
	for path, want := range map[string]error{
		filepath.Join(dir, "absent"): os.ErrNotExist, dir: nil, empty: ErrMalformed, text: ErrMalformed,
	} {
		_, err := Open(path, nil)
		require.ErrorContains(t, err, path)
		if want != nil {
			require.ErrorIs(t, err, want)
		}
	}
}

func TestWhatNoOutputDependsOnIsLeftOut(t *testing.T) {
	m := blueprint{
		tensors: []blueTensor{floats("in", []int{4}), floats("out", nil), floats("unused", nil),
			constantOf("addend", 4), floats("idle", []int{3})},
		ops: []blueOp{{code: "RELU", inputs: []int{0}, outputs: []int{1}},
			{code: "ADD", inputs: []int{1, 3}, outputs: []int{2}}},
		inputs: []int{4, 0}, outputs: []int{1},
	}
	model := openModel(t, save(t, m.bytes()))
	_, err := model.DataMap().Tensor("addend")
	require.ErrorIs(t, err, xpwc.ErrUnknownTensor)
	require.Equal(t, [][]float32{{0, 2, 0, 4}}, modeltest.Run(t, model, []float32{1, 2, 3}, []float32{-1, 2, -3, 4}))
}

//go:build cgo

package executorch

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/modeltest"
	"xpwc/models"
	"xpwc/xnnpack"
)

// tensors writes tensors of a method.
func tensors(ts ...mtensor) []table {
	var out []table
	for _, t := range ts {
		out = append(out, t.table())
	}
	return out
}

var (
	toDimOrder = "dim_order_ops::_to_dim_order_copy"
	rows       = []byte{0, 1, 2, 3}
	lastly     = []byte{0, 2, 3, 1} // channels last
)

// doubled is a delegate that adds a value to itself.
func doubled(dims ...uint32) xgraph {
	return xgraph{
		values: []xtensor{
			{id: 0, datatype: dtFloat32, dims: dims, external: 0, flags: externalInput},
			{id: 1, datatype: dtFloat32, dims: dims, external: 1, flags: externalOutput},
		},
		nodes: []xnode{{kind: 1, fields: slots(0, 0, 1, 0)}},
	}
}

// betweenFormats is a program whose method takes rows of channels, doubles them in a delegate that has channels last,
// and gives them back, and as they were in between.
func betweenFormats() mprogram {
	sizes := []int32{1, 2, 2, 3}
	return mprogram{segments: [][]byte{doubled(1, 2, 3, 2).bytes()}, methods: []mmethod{{
		name: "forward", operators: []string{toDimOrder}, delegates: []table{inSegment(0)},
		values: append(tensors(
			mtensor{dtype: Float, sizes: sizes, order: rows}, mtensor{dtype: Float, sizes: sizes, order: lastly},
			mtensor{dtype: Float, sizes: sizes, order: lastly}, mtensor{dtype: Float, sizes: sizes, order: rows},
		), table{0: byte(3), 1: table{}}), // and a bool: whether to block
		inputs: []int32{0}, outputs: []int32{3, 2},
		instructions: []table{kernel(0, 0, 4, 1), call(0, 1, 2), kernel(0, 2, 4, 3), {0: byte(5), 1: table{}}},
	}}}
}

func TestCopiesBetweenMemoryFormatsAreComputed(t *testing.T) {
	m := openBytes(t, betweenFormats().bytes()).Methods()[0]
	require.NoError(t, m.Runnable())
	require.Equal(t, []int{1, 2, 2, 3}, m.Inputs()[0].Shape)
	require.Equal(t, []int{1, 2, 3, 2}, m.Outputs()[1].Shape, "in the order of memory")
	x := sequence(12, 0)
	var plain, last []float32
	for _, v := range x {
		plain = append(plain, 2*v)
	}
	for pixel := range 6 {
		last = append(last, plain[pixel], plain[6+pixel])
	}
	got := modeltest.Run(t, m, x)
	require.Equal(t, plain, got[0])
	require.Equal(t, last, got[1])
}

func TestConstantsAreConvertedAndCopied(t *testing.T) {
	p := betweenFormats()
	m := &p.methods[0]
	// The delegate's argument 1 is a constant, converted from integers, which it adds.
	g := doubled(1, 2, 3, 2)
	g.values[1].external = 2
	g.values = append(g.values,
		xtensor{id: 2, datatype: dtFloat32, dims: []uint32{1}, external: 1, flags: externalInput})
	g.nodes[0].fields[1] = uint32(2)
	for _, c := range []struct {
		src     ScalarType
		content []byte
		want    float32
	}{
		{Byte, []byte{200}, 200},
		{Char, []byte{200}, -56},
		{Bool, []byte{2}, 1},
		{Short, []byte{0xfe, 0xff}, -2},
		{Int, []byte{0xfd, 0xff, 0xff, 0xff}, -3},
		{Long, binary.LittleEndian.AppendUint64(nil, 1<<40), 1 << 40},
		{Double, []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, 1.5},
		{Float, floats(-1.25), -1.25},
	} {
		p.segments = [][]byte{g.bytes(), append(make([]byte, 16), c.content...)}
		p.constants = []uint64{0, 16}
		m.operators = []string{toDimOrder}
		m.values = append(betweenFormats().methods[0].values,
			tensors(mtensor{dtype: c.src, data: 1}, mtensor{dtype: Float})...)
		m.instructions = []table{kernel(0, 5, 4, 6), kernel(0, 0, 4, 1), call(0, 1, 6, 2), kernel(0, 2, 4, 3)}
		m := openBytes(t, p.bytes()).Methods()[0]
		require.NoError(t, m.Runnable(), c.src)
		x := sequence(12, 0)
		got := modeltest.Run(t, m, x)[0]
		for i := range x {
			require.Equal(t, x[i]+c.want, got[i], "%v", c.src)
		}
		cache, err := xpwc.Open(filepath.Join(t.TempDir(), "cache"), nil)
		require.NoError(t, err)
		require.Equal(t, got, modeltest.RunCached(t, m, cache, m.DataMap(), x)[0])
		require.NoError(t, cache.Close())
	}
}

func TestOutputsMayBeInputsConstantsAndEachOther(t *testing.T) {
	p := betweenFormats()
	m := &p.methods[0]
	p.segments = append(p.segments, floats(5, 6, 7))
	p.constants = []uint64{0, 4}
	m.values = append(m.values, mtensor{dtype: Float, sizes: []int32{2}, data: 1}.table())
	m.outputs = []int32{3, 0, 5, 3}
	x := sequence(12, 0)
	got := modeltest.Run(t, openBytes(t, p.bytes()).Methods()[0], x)
	require.Equal(t, x, got[1])
	require.Equal(t, []float32{6, 7}, got[2])
	require.Equal(t, got[0], got[3])
}

// XNNPACK aborts where nothing uses what a node computes.
func TestWhatNoOutputNeedsIsLeftOut(t *testing.T) {
	p := betweenFormats()
	p.methods[0].outputs = []int32{2}
	x := sequence(12, 0)
	got := modeltest.Run(t, openBytes(t, p.bytes()).Methods()[0], x)
	require.Len(t, got, 1)
	require.Equal(t, 2*x[6], got[0][1])
}

func TestACopyOfOtherDimensionsIsNotRun(t *testing.T) {
	for name, c := range map[string]struct{ src, dst mtensor }{
		"fewer":        {mtensor{sizes: []int32{6}}, mtensor{sizes: []int32{1, 6}}},
		"fewer, moved": {mtensor{sizes: []int32{6}}, mtensor{sizes: []int32{6, 1}, order: []byte{1, 0}}},
		"more":         {mtensor{sizes: []int32{1, 6}}, mtensor{sizes: []int32{6}}},
		"other sizes":  {mtensor{sizes: []int32{1, 6}}, mtensor{sizes: []int32{1, 7}}},
		"none":         {mtensor{}, mtensor{sizes: []int32{1, 1}}},
	} {
		c.src.dtype, c.dst.dtype = Float, Float
		p := betweenFormats()
		p.methods[0].values = append(p.methods[0].values, tensors(c.src, c.dst)...)
		p.methods[0].instructions = append(p.methods[0].instructions, kernel(0, 5, 4, 6))
		err := openBytes(t, p.bytes()).Methods()[0].Runnable()
		require.ErrorIs(t, err, ErrMalformed, name)
		require.ErrorContains(t, err, `method "forward": instruction 4, `+toDimOrder+".out")
	}
}

func TestWhatIsOutsideOfXNNPACKIsListed(t *testing.T) {
	p := betweenFormats()
	m := &p.methods[0]
	m.operators = append(m.operators, "aten::nonzero", "aten::median")
	m.delegates = append(m.delegates, table{0: "CoreMLBackend", 1: table{0: byte(1), 1: uint32(0)}})
	m.instructions = append(m.instructions, kernel(1, 0), kernel(2, 0), kernel(2, 3), call(1, 0, 1),
		table{0: byte(4), 1: table{}})
	opened := openBytes(t, p.bytes())
	method, err := opened.Method("forward")
	require.NoError(t, err)
	err = method.Runnable()
	require.ErrorIs(t, err, ErrUnsupportedOp)
	require.ErrorContains(t, err, `method "forward"`)
	require.ErrorContains(t, err, "a delegate to CoreMLBackend, a jump, aten::median.out (2 times), aten::nonzero.out")
	require.ErrorContains(t, err, opened.Path())
	_, refused := method.Subgraph(models.NewMemory(method.DataMap()))
	require.Equal(t, err, refused)
	require.Empty(t, method.Inputs())
	require.Empty(t, method.Outputs())
}

func TestWhatStandsInTheWayOfRunningAMethodIsNamed(t *testing.T) {
	float := mtensor{dtype: Float, sizes: []int32{1, 2, 2, 3}, order: rows}
	for name, c := range map[string]struct {
		change   func(m *mmethod)
		sentinel error
		want     string
	}{
		"an input that is no tensor": {func(m *mmethod) { m.inputs = append(m.inputs, 4) }, ErrUnsupported,
			"value 4 is no tensor"},
		"an input of another type": {func(m *mmethod) {
			m.values = append(m.values, mtensor{dtype: UInt32, sizes: []int32{2}}.table())
			m.inputs = append(m.inputs, 5)
		}, ErrUnsupported, "input 1: unsupported in an ExecuTorch file: value 5 is a tensor of UINT32"},
		"an input given twice": {func(m *mmethod) { m.inputs = []int32{0, 0} }, ErrUnsupported,
			"input 1 is given twice"},
		"no inputs":  {func(m *mmethod) { m.inputs = nil }, ErrUnsupported, "0 inputs"},
		"no outputs": {func(m *mmethod) { m.outputs = nil }, ErrUnsupported, "0 outputs"},
		"an output that nothing computes": {func(m *mmethod) {
			m.values = append(m.values, float.table())
			m.outputs = []int32{5}
		}, ErrMalformed, "is not computed"},
		"what is used before it is computed": {func(m *mmethod) {
			m.instructions[0], m.instructions[1] = m.instructions[1], m.instructions[0]
		}, ErrMalformed, "is not computed before it is used"},
		"what is computed twice": {func(m *mmethod) { m.instructions = append(m.instructions, kernel(0, 0, 4, 1)) },
			ErrMalformed,
			"is computed twice"},
		"a conversion of what is no constant": {func(m *mmethod) {
			m.values = append(m.values, mtensor{dtype: Int, sizes: []int32{1, 2, 2, 3}}.table())
			m.instructions[0] = kernel(0, 5, 4, 1)
		}, ErrUnsupportedOp, toDimOrder + ".out from INT to FLOAT"},
		"a state": {func(m *mmethod) {
			state := float
			state.data, state.planned = 1, true
			m.values[0] = state.table()
		}, ErrUnsupportedOp, toDimOrder + ".out of FLOAT"},
	} {
		t.Run(name, func(t *testing.T) {
			p := betweenFormats()
			c.change(&p.methods[0])
			err := openBytes(t, p.bytes()).Methods()[0].Runnable()
			require.ErrorIs(t, err, c.sentinel)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// layers is a program with a method for each number, which has that many fully connected layers; the kernels are named
// by their places, so that methods share them.
func layers(methods ...int) mprogram {
	p := mprogram{named: map[string]uint32{}}
	width := uint32(48)
	for i, n := range methods {
		g := xgraph{values: []xtensor{{id: 0, datatype: dtFloat32, dims: []uint32{2, width}, flags: externalInput}}}
		for l := range n {
			out := xtensor{id: uint32(10*l + 10), datatype: dtFloat32, dims: []uint32{2, width}, external: absent}
			if l == n-1 {
				out.external, out.flags = 1, externalOutput
			}
			g.constants = append(g.constants, blobConstant{name: fmt.Sprint("kernel ", l)}, blobConstant{name: "bias"})
			g.values = append(g.values, out,
				xtensor{id: out.id + 1, datatype: dtFloat32, dims: []uint32{width, width}, constant: uint32(2*l + 1),
					external: absent},
				xtensor{id: out.id + 2, datatype: dtFloat32, dims: []uint32{width}, constant: uint32(2*l + 2),
					external: absent})
			g.nodes = append(g.nodes, xnode{kind: 2, fields: slots(10*l, out.id+1, out.id+2, out.id, 0)})
		}
		p.segments = append(p.segments, g.bytes())
		values := tensors(mtensor{dtype: Float, sizes: []int32{2, int32(width)}},
			mtensor{dtype: Float, sizes: []int32{2, int32(width)}})
		p.methods = append(p.methods, mmethod{
			name: fmt.Sprint("method ", i), values: values, inputs: []int32{0}, outputs: []int32{1},
			delegates: []table{inSegment(i)}, instructions: []table{call(0, 0, 1)},
		})
	}
	p.named["bias"] = uint32(len(p.segments))
	p.segments = append(p.segments, floats(sequence(int(width), 1)...))
	largest := 0
	for _, n := range methods {
		largest = max(largest, n)
	}
	for l := range largest {
		p.named[fmt.Sprint("kernel ", l)] = uint32(len(p.segments))
		p.segments = append(p.segments, floats(sequence(int(width*width), l)...))
	}
	return p
}

// packAll packs all weights of a program.
func packAll(t *testing.T, p *Program, path string) xpwc.Stats {
	t.Helper()
	cache, err := xpwc.Open(path, nil)
	require.NoError(t, err)
	for _, subgraph := range p.Weights() {
		require.NoError(t, models.Pack(cache, p.DataMap(), subgraph))
	}
	require.NoError(t, cache.Save())
	stats := cache.Stats()
	require.NoError(t, cache.Close())
	return stats
}

func TestAllMethodsArePackedOnce(t *testing.T) {
	p := openBytes(t, layers(2, 3, 3).bytes())
	path := filepath.Join(t.TempDir(), "cache")
	require.EqualValues(t, 3, packAll(t, p, path).Packed.Entries)
	require.EqualValues(t, 4*(3*48*48+48), p.WeightBytes())
	require.EqualValues(t, 4*(2*48*48+48), p.Methods()[0].WeightBytes())
	requireAllMethodsPacked(t, p, path)
}

func requireAllMethodsPacked(t *testing.T, p *Program, path string) {
	t.Helper()
	for _, m := range p.Methods() {
		warm := modeltest.PackWhole(t, m, path)
		require.Zero(t, warm.Packed)
		require.Zero(t, warm.WrittenBytes)
	}
}

func TestTheProgramForTheToolsTestsIsWhatIsBuiltHere(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("testdata", "two_methods.pte"))
	require.NoError(t, err)
	require.Equal(t, layers(2, 1).bytes(), content)
}

func TestAKernelThatMethodsPackDifferentlyIsPackedForEach(t *testing.T) {
	program := layers(1, 1)
	g := nodeCase{kind: 2, in: [][]uint32{{2, 48}}, out: []uint32{2, 48},
		constants: []arrayOf{{dims: []uint32{48, 48}}}}.graph()
	g.constants[0] = blobConstant{name: "kernel 0"}
	g.nodes[0].fields = slots(1, 10, absent, 0, 1) // transposed
	program.segments[1] = g.bytes()
	p := openBytes(t, program.bytes())
	path := filepath.Join(t.TempDir(), "cache")
	require.EqualValues(t, 2, packAll(t, p, path).Packed.Entries)
	requireAllMethodsPacked(t, p, path)
}

func TestAProgramThatCannotBeRunIsPackedAllTheSame(t *testing.T) {
	program := layers(3)
	m := &program.methods[0]
	m.operators = []string{"aten::nonzero"}
	m.instructions = append(m.instructions, kernel(0, 1))
	p := openBytes(t, program.bytes())
	require.ErrorIs(t, p.Methods()[0].Runnable(), ErrUnsupportedOp)
	path := filepath.Join(t.TempDir(), "cache")
	require.EqualValues(t, 3, packAll(t, p, path).Packed.Entries)
	require.Zero(t, packAll(t, p, path).Packed)
}

func TestWeightsThatNoOutputNeedsArePackedToo(t *testing.T) {
	program := layers(1, 2)
	m := &program.methods[0]
	m.delegates = append(m.delegates, inSegment(1))
	m.values = append(m.values, tensors(mtensor{dtype: Float, sizes: []int32{2, 48}})...)
	m.instructions = append(m.instructions, call(1, 0, 2))
	program.methods = program.methods[:1]
	p := openBytes(t, program.bytes())
	require.NoError(t, p.Methods()[0].Runnable())
	path := filepath.Join(t.TempDir(), "cache")
	require.EqualValues(t, 2, packAll(t, p, path).Packed.Entries)
	require.EqualValues(t, 1, modeltest.PackWhole(t, p.Methods()[0], path).Hits.Entries)
}

// The Llama-like program of ExecuTorch has 26 delegates and operators between them.
func TestAllDelegatesOfAProgramArePacked(t *testing.T) {
	p := openProgram(t, "llama_8da4w_g32")
	path := filepath.Join(t.TempDir(), "cache")
	cold := packAll(t, p, path)
	require.Positive(t, cold.Packed.Entries)
	warm := packAll(t, p, path)
	require.Zero(t, warm.Packed)
	require.Equal(t, cold.Packed.Entries, warm.Hits.Entries+warm.Reused.Entries)
}

func TestADynamicInputTakesSmallerShapes(t *testing.T) {
	p := openProgram(t, "mlp_dyn_fp32")
	m := p.Methods()[0]
	in, out := m.Inputs()[0], m.Outputs()[0]
	require.True(t, in.Dynamic)
	require.True(t, out.Dynamic)
	x := sequence(in.Shape[0]*in.Shape[1], 0)
	outputs, _ := execution{}.run(t, m, [][]byte{floats(x...)}, [][]int{in.Shape})
	for _, n := range []int{1, in.Shape[0] - 1} {
		part, shapes := execution{}.run(t, m, [][]byte{floats(x[:n*in.Shape[1]]...)}, [][]int{{n, in.Shape[1]}})
		require.Equal(t, []int{n, out.Shape[1]}, shapes[0])
		got, want := floats32(t, part[0], out.Type), floats32(t, outputs[0], out.Type)[:n*out.Shape[1]]
		require.LessOrEqual(t, relativeL2(got, want), 1e-6)
	}
}

// split writes a program whose constants are in other files.
func split(t *testing.T) (pte string, ptd []string) {
	t.Helper()
	p := layers(2)
	for _, name := range []string{"kernel 0", "kernel 1"} {
		index := p.named[name]
		delete(p.named, name)
		data := p.segments[index]
		file := blueprint{data: data, segments: []segment{{0, uint64(len(data))}}, named: []named{{key: name}}}
		ptd = append(ptd, save(t, file.bytes()))
	}
	return save(t, p.bytes()), ptd
}

func TestConstantsComeFromAnyNumberOfFiles(t *testing.T) {
	pte, ptd := split(t)
	p, err := Open(pte, ptd...)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	x := sequence(2*48, 4)
	require.Equal(t, modeltest.Run(t, openBytes(t, layers(2).bytes()).Methods()[0], x),
		modeltest.Run(t, p.Methods()[0], x))
	for i, name := range []string{"kernel 0", "kernel 1"} {
		d, err := p.DataMap().Tensor(name)
		require.NoError(t, err)
		require.Equal(t, ptd[i], d.Identity.Source)
	}
	_, err = p.DataMap().Tensor("absent")
	require.ErrorIs(t, err, xpwc.ErrUnknownTensor)

	_, err = Open(pte, ptd[0])
	require.ErrorIs(t, err, ErrMissingData)
	require.ErrorContains(t, err, `"kernel 1"`)
	_, err = Open(pte, ptd[0], ptd[1], ptd[1])
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, "too")
	_, err = Open(ptd[0], pte)
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, "not a .pte")
	_, err = Open(pte, pte)
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, "not a .ptd")
	_, err = Open(pte, filepath.Join(t.TempDir(), "absent.ptd"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAClosedProgramGivesNoBytes(t *testing.T) {
	p, err := Open(save(t, layers(2).bytes()))
	require.NoError(t, err)
	m := p.Methods()[0]
	l := models.NewMemory(m.DataMap())
	require.NoError(t, m.Close())
	require.NoError(t, p.Close())
	_, err = m.Subgraph(l)
	require.ErrorIs(t, err, xpwc.ErrClosed)
	_, err = p.DataMap().Tensor("kernel 0")
	require.ErrorIs(t, err, xpwc.ErrClosed)
	require.Len(t, m.Inputs(), 1)
}

func TestAMethodThatIsNotThereIsAnErrorWithThoseThatAre(t *testing.T) {
	p := openBytes(t, layers(1, 1).bytes())
	_, err := p.Method("forward")
	require.ErrorIs(t, err, ErrUnknownMethod)
	require.ErrorContains(t, err, `"method 0", "method 1"`)
	m, err := p.Method("method 1")
	require.NoError(t, err)
	require.Equal(t, "method 1", m.Name())
}

func TestAnEmptyNameIsThatOfTheOnlyMethodOrOfForward(t *testing.T) {
	m, err := openBytes(t, layers(1).bytes()).Method("")
	require.NoError(t, err)
	require.Equal(t, "method 0", m.Name())
	two := layers(1, 1)
	_, err = openBytes(t, two.bytes()).Method("")
	require.ErrorIs(t, err, ErrUnknownMethod)
	two.methods[1].name = "forward"
	m, err = openBytes(t, two.bytes()).Method("")
	require.NoError(t, err)
	require.Equal(t, "forward", m.Name())
}

func TestAProgramSaysWhatIsInIt(t *testing.T) {
	program := betweenFormats()
	m := &program.methods[0]
	m.operators = append(m.operators, "aten::median")
	m.instructions = append(m.instructions, kernel(1, 3), kernel(1, 3))
	method := openBytes(t, program.bytes()).Methods()[0]
	require.Equal(t, 1, method.Delegates())
	require.Equal(t, []Operator{
		{"Add", InDelegate, 1}, {toDimOrder + ".out", Between, 2}, {"aten::median.out", Outside, 2},
	}, method.Operators())

	pte, ptd := split(t)
	p, err := Open(pte, ptd...)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	require.Equal(t, []Constant{
		{"kernel 0", ptd[0], xnnpack.Float32, []int{48, 48}, 4 * 48 * 48},
		{"kernel 1", ptd[1], xnnpack.Float32, []int{48, 48}, 4 * 48 * 48},
		{"bias", pte, xnnpack.Float32, []int{48}, 4 * 48},
	}, p.Constants())

	real := openProgram(t, "mobilenet_v3_small_int8")
	require.Equal(t, 1, real.Methods()[0].Delegates())
	for _, o := range real.Methods()[0].Operators() {
		require.Equal(t, InDelegate, o.Place, o.Name)
	}
}

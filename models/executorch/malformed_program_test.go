//go:build cgo

package executorch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/instance"
	"xpwc/models"
	"xpwc/xnnpack"
)

// A program that ExecuTorch may load is packed, whatever is wrong with it besides its weights.
func TestMalformedProgramsAreRefusedWithWhatIsWrong(t *testing.T) {
	type programChange = func(p *mprogram)
	type graphChange = func(g *xgraph)
	method := func(change func(m *mmethod)) programChange { return func(p *mprogram) { change(&p.methods[0]) } }
	header := func(offset int, value uint32) graphChange {
		return func(g *xgraph) {
			g.header = func(h []byte) { binary.LittleEndian.PutUint32(h[offset:], value) }
		}
	}
	node := func(slot int, value any) graphChange { return func(g *xgraph) { g.nodes[0].fields[slot] = value } }
	value := func(change func(v *xtensor)) graphChange { return func(g *xgraph) { change(&g.values[0]) } }
	tensor := func(m mtensor) programChange {
		return method(func(target *mmethod) { target.values[0] = m.table() })
	}
	input := mtensor{dtype: Float, sizes: []int32{1, 5, 6, 2}}
	changed := func(change func(m *mtensor)) programChange {
		m := input
		change(&m)
		return tensor(m)
	}
	for name, c := range map[string]struct {
		program  programChange
		graph    graphChange
		sentinel error
		want     string
		packed   bool // the program is opened and packed, and is only not runnable
	}{
		"no methods": {program: func(p *mprogram) { p.methods = nil }, want: "no methods"},
		"a method twice": {program: func(p *mprogram) { p.methods = append(p.methods, p.methods[0]) },
			want: `"forward" comes twice`},
		"an input not there": {program: method(func(m *mmethod) { m.inputs = []int32{9} }),
			want: `method 0, "forward": malformed ExecuTorch file: value 9 of 2`},
		"an output before all": {program: method(func(m *mmethod) { m.outputs = []int32{-1} }),
			want: "value -1 of 2"},
		"an argument not there": {program: method(func(m *mmethod) { m.instructions = []table{call(0, 0, 2)} }),
			want: "chain 0, instruction 0: malformed ExecuTorch file: value 2 of 2"},
		"an operator not there": {program: method(func(m *mmethod) { m.instructions = []table{kernel(0)} }),
			want: "operator 0 of 0"},
		"an operator without arguments": {program: method(func(m *mmethod) {
			m.operators, m.instructions = []string{"aten::native_group_norm"}, append(m.instructions, kernel(0))
		}), want: "no arguments", packed: true},
		"a number of no arguments": {program: method(func(m *mmethod) {
			m.operators, m.instructions = []string{"executorch_prim::neg.Scalar"}, append(m.instructions, kernel(0))
		}), want: "0 arguments", packed: true},
		"a delegate not there": {program: method(func(m *mmethod) { m.instructions = []table{call(1)} }),
			want: "delegate 1 of 1"},
		"a delegate before all": {program: method(func(m *mmethod) { m.instructions = []table{call(-1)} }),
			want: "delegate -1 of 1"},
		"an unknown instruction": {program: method(func(m *mmethod) {
			m.instructions = []table{{0: byte(6),
				1: table{}}}
		}), want: "an instruction of type 6"},
		"a blob not there": {program: method(func(m *mmethod) { m.delegates = []table{inSegment(2)} }),
			want: "delegate 0: malformed ExecuTorch file: its data is number 2 of 2"},
		"an inline blob not there": {program: method(func(m *mmethod) { m.delegates = []table{inFlatbuffer(0)} }),
			want: "its data is number 0 of 0"},
		"a blob elsewhere": {program: method(func(m *mmethod) {
			m.delegates = []table{{0: "XnnpackBackend", 1: table{0: byte(2), 1: uint32(0)}}}
		}), want: "a location of type 2"},
		"a type not known": {program: changed(func(m *mtensor) { m.dtype = 100 }),
			want: "a tensor of ScalarType(100) where the delegate has fp32", packed: true},
		"a negative size": {program: changed(func(m *mtensor) { m.sizes = []int32{1, -5, 6, 2} }),
			want: "value 0: malformed ExecuTorch file: a tensor of sizes"},
		"an order of others": {program: changed(func(m *mtensor) { m.order = []byte{0, 1, 2, 2} }),
			want: "in the order [0 1 2 2]"},
		"a tensor elsewhere": {program: changed(func(m *mtensor) { m.order = []byte{0, 1, 3, 2} }),
			want: "a tensor of shape [1 5 2 6] in memory where the delegate has [1 5 6 2]", packed: true},
		"a tensor of other type": {program: changed(func(m *mtensor) { m.dtype = Int }),
			want: "a tensor of INT where the delegate has fp32", packed: true},
		"no tensor": {program: method(func(m *mmethod) { m.values[0] = table{0: byte(1), 1: table{}} }),
			want: "it is no tensor", packed: true},
		"a content not there": {program: changed(func(m *mtensor) { m.data = 1 }),
			want: "its content is number 1 of 0"},
		"a content beyond its segment": {program: func(p *mprogram) {
			p.constants = []uint64{0, math.MaxUint64}
			changed(func(m *mtensor) { m.data = 1 })(p)
		}, want: "its content is at byte 18446744073709551615"},
		"a content that is cut off": {program: func(p *mprogram) {
			p.constants = []uint64{0, 8}
			changed(func(m *mtensor) { m.data = 1 })(p)
		}, want: "for a content of 240"},
		"constants in no segment": {program: func(p *mprogram) {
			p.changes = func(root table) { root[5] = table{0: uint32(7), 1: []uint64{0, 0}} }
		}, want: "constants are in segment 7 of 2"},
		"a tensor in no file": {program: changed(func(m *mtensor) { m.name = "absent" }), sentinel: ErrMissingData,
			want: `"absent"`},

		"a graph of no length": {graph: header(14, 0), want: "the header at byte 0"},
		"a graph of another format": {graph: header(10, 40), sentinel: ErrUnsupported,
			want: "delegate 0, its graph: unsupported in an ExecuTorch file: a graph of the format"},
		"a graph beyond the blob":        {graph: header(10, 1<<30), want: "a graph of"},
		"a graph longer than the blob":   {graph: header(14, 1<<30), want: "a graph of 1073741824 bytes at byte 32"},
		"constants beyond the blob":      {graph: header(18, 1<<30), want: "bytes of constants at byte"},
		"constants longer than the blob": {graph: header(22, 1<<30), want: "1073741824 bytes of constants"},
		"a short header":                 {graph: header(8, 29|32<<16), want: "a graph's header of 29 bytes"},
		"a constant not there": {graph: func(g *xgraph) { g.values[1].constant = 3 },
			want: "delegate 0, value 1: malformed ExecuTorch file: constant 3 of 3"},
		"a constant beyond the others": {graph: func(g *xgraph) {
			g.changes = func(root table) { root[8].([]table)[2][0] = uint64(1 << 40) }
		}, want: "constant 2, 12 bytes at byte 1099511627776"},
		"a constant without end": {graph: func(g *xgraph) {
			g.changes = func(root table) { root[8].([]table)[2][1] = uint64(math.MaxUint64) }
		}, want: "constant 2, 18446744073709551615 bytes"},
		"a constant in no file": {graph: func(g *xgraph) { g.constants[0].name = "absent" },
			program: func(p *mprogram) { p.named = nil }, sentinel: ErrMissingData,
			want: `of the program's files: "absent"`},
		"a constant cut off": {graph: func(g *xgraph) { g.constants[0].data = g.constants[0].data[4:] },
			want: "for a content of 144"},
		"an argument of the delegate not there": {graph: value(func(v *xtensor) { v.external = 2 }),
			want: "delegate 0, value 0: malformed ExecuTorch file: argument 2 of 2"},
		"an argument twice": {graph: func(g *xgraph) { g.values[3].external = 0 },
			want: "argument 0 is two values"},
		"a constant argument": {graph: func(g *xgraph) {
			g.values[0].constant,
				g.constants[0].data = 1, make([]byte, 240)
		}, want: "an argument with a content"},
		"input and output": {graph: value(func(v *xtensor) { v.flags = 3 }),
			want: "the flags 0x3"},
		"a flag not known": {graph: value(func(v *xtensor) { v.flags = 5 }),
			want: "the flags 0x5"},
		"a value twice": {graph: value(func(v *xtensor) { v.id = 10 }),
			want: "the number 10 is taken"},
		"a value of no ID": {graph: value(func(v *xtensor) { v.id = absent }), want: "is taken"},
		"an unknown datatype": {graph: value(func(v *xtensor) { v.datatype = 15 }),
			sentinel: ErrUnsupported, want: "datatype 15"},
		"a negative datatype": {graph: value(func(v *xtensor) { v.datatype = -1 }),
			sentinel: ErrUnsupported, want: "datatype -1"},
		"a huge dimension": {graph: value(func(v *xtensor) { v.dims = []uint32{1 << 31} }),
			want: "a dimension of 2147483648"},
		"too many elements": {graph: value(func(v *xtensor) { v.dims = []uint32{1 << 20, 1 << 20, 1} }),
			program:  changed(func(m *mtensor) { m.sizes = []int32{1 << 20, 1 << 20, 1} }),
			sentinel: ErrUnsupported, want: "more than", packed: true},
		"an empty value": {graph: value(func(v *xtensor) { v.dims = []uint32{1, 0, 6, 2} }),
			program: changed(func(m *mtensor) { m.sizes = []int32{1, 0, 6, 2} }),
			want:    "no elements", packed: true},
		"seven dimensions": {graph: value(func(v *xtensor) {
			v.dims = []uint32{1, 1, 1, 1, 1, 1,
				1}
		}), want: "7 dimensions"},
		"an unknown quantization": {graph: value(func(v *xtensor) { v.quant, v.params = 5, table{} }),
			sentinel: ErrUnsupported, want: "quantization of type 5"},
		"quantised at inference to another type": {graph: value(func(v *xtensor) { v.dq = dtQInt32 }),
			sentinel: ErrUnsupported,
			want:     "quantised at inference to datatype 5"},
		"channels along no dimension": {graph: func(g *xgraph) {
			g.values[1].datatype, g.values[1].quant, g.values[1].params = dtChannelQInt8, 1, table{1: int32(4)}
		}, want: "channels along dimension 4"},
		"scales that are cut off": {graph: func(g *xgraph) {
			g.values[1].datatype, g.values[1].quant, g.values[1].params = dtChannelQInt8, 1, table{1: int32(1),
				2: uint32(2)}
			g.values[1].dims = []uint32{1, 36}
		}, want: "12 bytes for a content of 144"},
		"blocks of no size": {graph: func(g *xgraph) {
			g.values[1].datatype, g.values[1].quant, g.values[1].params = dtBlockQInt4, 4, table{1: int32(0),
				2: int32(0)}
		}, want: "blocks of 0"},
		"scales of floats": {graph: func(g *xgraph) { g.values[1].quant, g.values[1].params = 1, table{2: uint32(2)} },
			want: "a list of scales for elements of fp32"},

		"a node's value not there": {graph: node(15, uint32(99)),
			want: "node 0 (Conv2d, debug handle 100): malformed ExecuTorch file: it uses the value 99, which"},
		"a node's filter not there": {graph: node(16, absent), want: "it uses the value 4294967295"},
		"a node's flag not known": {graph: node(19, uint32(1<<9)), sentinel: ErrUnsupported,
			want: "the node's flags 0x200"},
		"a node's huge number": {graph: node(0, uint32(math.MaxUint32)), want: "the number 4294967295"},
		"no stride":            {graph: node(6, uint32(0)), want: "stride 0"},
		"another kernel": {graph: node(4, uint32(2)),
			want: "a filter of shape [3 3 2 2] for a kernel of 2 by 2"},
		"other groups":        {graph: node(12, uint32(2)), want: "2 groups of 2 to 3 channels"},
		"no groups":           {graph: node(12, uint32(0)), want: "0 groups"},
		"a window too large":  {graph: node(8, uint32(100)), want: "a window that reaches over 201", packed: true},
		"another output":      {graph: node(6, uint32(3)), want: "it computes the shape", packed: true},
		"a bias as the input": {graph: node(15, uint32(11)), want: "an input of shape [3]", packed: true},
		"a bias of another shape": {graph: func(g *xgraph) { g.values[2].dims = []uint32{1, 3} },
			want: "a bias of shape [1 3]"},
		"output limits crossed": {graph: func(g *xgraph) { g.nodes[0].limits = []float32{1, 1} },
			want: "limited to 1 to 1"},
		"output limits no numbers": {graph: func(g *xgraph) {
			g.nodes[0].limits = []float32{0,
				float32(math.NaN())}
		}, want: "limited to 0 to NaN"},
		"a constant as the output": {graph: node(18, uint32(11)), want: "it computes a constant"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.sentinel == nil {
				c.sentinel = ErrMalformed
			}
			g := nodeCases()["Conv2d"].graph()
			if c.packed {
				g.constants[1].name = "bias"
			}
			sound := around(g).bytes()
			require.NoError(t, openBytes(t, sound).Methods()[0].Runnable())
			if c.graph != nil {
				c.graph(&g)
			}
			p := around(g)
			p.methods[0].values[0] = input.table()
			if c.program != nil {
				c.program(&p)
			}
			path := save(t, p.bytes())
			opened, err := Open(path)
			if c.packed {
				require.NoError(t, err)
				defer func() { require.NoError(t, opened.Close()) }()
				err = opened.Methods()[0].Runnable()
				requireAsManyPacked(t, opened, openBytes(t, sound))
			}
			require.ErrorIs(t, err, c.sentinel)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, path)
		})
	}
}

// requireAsManyPacked packs another program, and then a program into the same file.
func requireAsManyPacked(t *testing.T, p, q *Program) (stats xpwc.Stats) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cache")
	want := packAll(t, q, path)
	require.NotZero(t, want.Packed)
	stats = packAll(t, p, path)
	require.Equal(t, want.Packed.Entries, stats.Packed.Entries+stats.Hits.Entries+stats.Reused.Entries)
	return stats
}

// requirePackedAlike checks that all which one program packs is what the other packs.
func requirePackedAlike(t *testing.T, p, q *Program) {
	t.Helper()
	require.Zero(t, requireAsManyPacked(t, p, q).Packed)
}

func TestNodesWhoseShapesContradictEachOtherAreNotRun(t *testing.T) {
	for name, c := range nodeCases() {
		t.Run(name, func(t *testing.T) {
			g := c.graph()
			for i := range g.values {
				g := g
				g.values = slices.Clone(g.values)
				v := &g.values[i]
				v.dims = slices.Clone(v.dims)
				if v.constant != 0 {
					continue
				}
				for d := range v.dims {
					saved := v.dims[d]
					v.dims[d] += 7
					exercise(t, around(g).bytes())
					v.dims[d] = saved
				}
				v.dims = append(v.dims, 2)
				p, err := openOnce(t, around(g).bytes())
				if err == nil {
					err = p.Methods()[0].Runnable()
					require.NoError(t, p.Close())
				}
				require.ErrorIs(t, err, ErrMalformed)
			}
		})
	}
}

// specimens are programs with every kind of node.
func specimens() [][]byte {
	var out [][]byte
	cases := nodeCases()
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		out = append(out, around(cases[name].graph()).bytes())
	}
	for _, q := range []quantizedFilter{
		{datatype: dtChannelQInt8, inputs: 24, bits: 8, buffer: true}, {datatype: dtBlockQInt4, inputs: 128, bits: 4,
			block: 32, buffer: true},
	} {
		for _, old := range []bool{false, true} {
			g, _ := q.layer(2, old)
			out = append(out, around(g).bytes())
		}
	}
	six, truths, longs := shaped{2, 3}, typed{Bool, []int32{2, 3}}, typed{Long, []int32{2, 3}}
	for _, p := range []mprogram{
		invoked("aten::embedding.out", []any{shaped{3, 2}, typed{Long, []int32{2}}, -1, false, false}, shaped{2, 2}),
		invoked("aten::where.self_out", []any{truths, six, shaped{1}}, six),
		invoked("aten::any.out", []any{truths, -1, true}, typed{Bool, []int32{2, 1}}),
		invoked("aten::argmax.out", []any{six, 0, false}, typed{Long, []int32{3}}),
		invoked("aten::slice_copy.Tensor_out", []any{longs, 1, 0, nothing{}, 2}, typed{Long, []int32{2, 2}}),
		invoked("aten::select_copy.int_out", []any{six, 1, -1}, shaped{2}),
		invoked("aten::permute_copy.out", []any{longs, wholes{1, 0}}, typed{Long, []int32{3, 2}}),
		invoked("aten::expand_copy.out", []any{shaped{2, 1}, wholes{2, 3}, false}, six),
		invoked("aten::split_with_sizes_copy.out", []any{six, wholes{1, 2}, 1}, parts{{2, 1}, {2, 2}}),
		invoked("aten::cat.out", []any{parts{{1}, {2}, {3}, {1}, {1}, {2}, {4}}, 0}, shaped{14}),
		invoked("aten::stack.out", []any{parts{{2}, {2}, {2}}, 1}, six),
		invoked("aten::constant_pad_nd.out", []any{six, wholes{1, 0}, 0.5}, shaped{2, 4}),
		invoked("aten::_softmax.out", []any{six, 0, false}, six),
		invoked("aten::mean.out", []any{six, wholes{-1}, true, nothing{}}, shaped{2, 1}),
		invoked("aten::_to_copy.out", []any{six, false, nothing{}}, longs),
		invoked("aten::add.out", []any{longs, typed{Long, []int32{}}, 1}, longs),
	} {
		out = append(out, p.bytes())
	}
	states, err := os.ReadFile(filepath.Join("testdata", "states", "attention.pte"))
	if err != nil {
		panic(err)
	}
	return append(out, betweenFormats().bytes(), layers(2, 3).bytes(), states)
}

// openOnce opens a program of these bytes, whose file is gone then. It lies in memory where that can be had: opening a
// file has the system write it to its disk first.
func openOnce(t testing.TB, b []byte) (*Program, error) {
	t.Helper()
	dir := "/dev/shm"
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		dir = ""
	}
	f, err := os.CreateTemp(dir, "*.pte")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.Remove(f.Name())) }()
	_, err = f.Write(b)
	require.NoError(t, errors.Join(err, f.Close()))
	return Open(f.Name())
}

// exercise opens what may be a program, and makes a runtime of it and of its shares. It runs the methods that can be.
func exercise(t testing.TB, b []byte) {
	t.Helper()
	p, err := openOnce(t, b)
	if err != nil {
		return
	}
	defer func() { require.NoError(t, p.Close()) }()
	if s, err := p.Skeleton(anyName); err == nil {
		require.Less(t, s.HoleBytes, s.FileBytes)
	}
	var size int64
	for i := range p.plan.values {
		n := int64(1)
		for _, d := range p.plan.values[i].tensor.Shape {
			n *= int64(d)
		}
		size += n
	}
	if size > 1<<20 {
		return // nothing wrong with it, but too much to compute
	}
	for _, subgraph := range p.Weights() {
		l := models.NewMemory(p.methods[0].DataMap())
		if s, err := subgraph(l); err == nil {
			if r, err := xnnpack.NewRuntime(s, nil); err == nil {
				require.NoError(t, r.Delete())
			}
			require.NoError(t, s.Delete())
		}
		require.NoError(t, l.Close())
	}
	for _, m := range p.methods {
		invoke(t, m)
	}
}

func invoke(t testing.TB, m *Method) {
	if stages, _ := m.Stages(); stages != nil {
		if e, err := instance.New(m, instance.PackedInHeap, 1); err == nil {
			_, _ = e.Infer() // tokens may be in no vocabulary
			require.NoError(t, e.Close())
		}
		return
	}
	l := models.NewMemory(m.DataMap())
	defer func() { require.NoError(t, l.Close()) }()
	s, err := m.Subgraph(l)
	if err != nil {
		return
	}
	defer func() { require.NoError(t, s.Delete()) }()
	r, err := xnnpack.NewRuntime(s, nil)
	if err != nil {
		return
	}
	defer func() { require.NoError(t, r.Delete()) }()
	if r.Reshape() != nil {
		return
	}
	values := map[xnnpack.ValueID][]byte{}
	for _, v := range append(m.Inputs(), m.Outputs()...) {
		n, err := v.ByteSize()
		require.NoError(t, err)
		b, err := xnnpack.NewBuffer(n)
		require.NoError(t, err)
		defer b.Free()
		values[v.ID] = b.Bytes()
	}
	for _, v := range m.Outputs() {
		shape, err := r.ExternalShape(v.ID)
		require.NoError(t, err)
		if len(v.Shape) > 0 { // a number without dimensions has one there
			require.Equal(t, v.Shape, shape, "XNNPACK computes the planned shape")
		}
	}
	if r.Setup(values) == nil {
		_ = r.Invoke()
	}
}

func TestAProgramCutOffAnywhereIsRefused(t *testing.T) {
	good := betweenFormats().bytes()
	for n := range good {
		_, err := openOnce(t, good[:n])
		require.ErrorIs(t, err, ErrMalformed, "%d of %d bytes", n, len(good))
	}
}

func TestADamagedProgramIsRefusedOrRunWithinItsMemory(t *testing.T) {
	good := betweenFormats().bytes()
	for i := range good {
		for _, flip := range []byte{0x01, 0x04, 0x80} {
			bad := bytes.Clone(good)
			bad[i] ^= flip
			exercise(t, bad)
		}
	}
}

// FuzzProgram reads any bytes as a program, and runs what can be run: no shape, index or number may bring XNNPACK down.
func FuzzProgram(f *testing.F) {
	for _, b := range specimens() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { exercise(t, b) })
}

// FuzzPatchedProgram does the same with programs that are well-formed except for a few numbers, which gets past the
// flatbuffers' own structure: each four bytes of patches are a position and a number of one byte or of four.
func FuzzPatchedProgram(f *testing.F) {
	programs := specimens()
	for i := range programs {
		f.Add(uint16(i), []byte{byte(i), 1, 0, byte(i)})
	}
	f.Fuzz(func(t *testing.T, number uint16, patches []byte) {
		b := bytes.Clone(programs[int(number)%len(programs)])
		for ; len(patches) >= 4; patches = patches[4:] {
			offset := (int(patches[0]) | int(patches[1])<<8) % (len(b) - 4)
			if patches[2]&1 == 0 {
				b[offset] = patches[3]
				continue
			}
			binary.LittleEndian.PutUint32(b[offset&^3:], uint32(int32(int8(patches[3]))<<(patches[2]>>3)))
		}
		exercise(t, b)
	})
}

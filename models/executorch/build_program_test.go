//go:build cgo

package executorch

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/flatbuf"
)

type table = flatbuf.Fields

// slots returns a table that has its first fields. A number without a type is a uint32, as most fields are.
func slots(fields ...any) table {
	t := table{}
	for i, f := range fields {
		if n, ok := f.(int); ok {
			f = uint32(n)
		}
		t[i] = f
	}
	return t
}

func finish(root table, identifier string) []byte { return flatbuf.Build(root, identifier) }

// absent is the ID of no value.
const absent = uint32(0xffffffff)

// The schema's numbers of datatypes.
const (
	dtFloat32, dtFloat16, dtQInt8, dtQInt32         = int16(1), int16(2), int16(3), int16(5)
	dtChannelQInt8, dtChannelQInt32, dtChannelQInt4 = int16(6), int16(7), int16(8)
	dtDynamicQInt8, dtBlockQInt4                    = int16(9), int16(10)
)

// xtensor is a value of a graph.
type xtensor struct {
	id       uint32
	datatype int16
	dims     []uint32
	constant uint32
	external uint32 // argument, of an input or output
	flags    uint32
	dq       int16
	quant    byte // kind of quantization
	params   table
}

func (v xtensor) table() table {
	t := table{0: v.datatype, 1: uint32(len(v.dims)), 2: v.dims, 3: v.constant, 4: v.external, 5: v.flags, 6: v.id,
		7: v.dq}
	if v.params == nil {
		return table{0: byte(1), 1: t}
	}
	return table{0: byte(2), 1: table{0: t, 1: v.quant, 2: v.params}}
}

// xnode is a node of a graph.
type xnode struct {
	kind   byte
	fields table
	limits []float32
}

// blobConstant is a constant of a delegate: named, or in the blob.
type blobConstant struct {
	name string
	data []byte
}

// xgraph is a delegate's blob to be written.
type xgraph struct {
	values    []xtensor
	nodes     []xnode
	constants []blobConstant // from number 1
	inline    bool           // the constants are in the flatbuffer, as in the oldest programs
	changes   func(root table)
	header    func(header []byte)
}

func (g xgraph) bytes() []byte {
	var values, nodes, constants, buffers []table
	for _, v := range g.values {
		values = append(values, v.table())
	}
	for i, n := range g.nodes {
		t := table{0: n.kind, 1: n.fields, 2: uint32(100 + i)}
		if n.limits != nil {
			t[3] = table{0: n.limits[0], 1: n.limits[1]}
		}
		nodes = append(nodes, t)
	}
	constants, buffers = []table{{0: uint64(0), 1: uint64(0)}}, []table{{0: []byte{}}}
	var data []byte
	for _, c := range g.constants {
		buffers = append(buffers, table{0: c.data})
		if c.name != "" {
			constants = append(constants, table{0: ^uint64(0), 1: uint64(len(c.data)), 2: c.name})
			continue
		}
		constants = append(constants, table{0: uint64(len(data)), 1: uint64(len(c.data))})
		data = append(append(data, c.data...), make([]byte, -len(c.data)&15)...)
	}
	root := table{0: "1", 1: nodes, 2: values, 3: uint32(len(g.values))}
	if g.inline {
		root[6] = buffers
	} else {
		root[8] = constants
	}
	if g.changes != nil {
		g.changes(root)
	}
	flat := finish(root, "XN01")
	if g.inline {
		return flat
	}
	const begin = 32
	start := (begin + len(flat) + 15) &^ 15
	header := make([]byte, begin)
	copy(header[4:], "XH00")
	binary.LittleEndian.PutUint16(header[8:], 30)
	binary.LittleEndian.PutUint32(header[10:], begin)
	binary.LittleEndian.PutUint32(header[14:], uint32(len(flat)))
	binary.LittleEndian.PutUint32(header[18:], uint32(start))
	binary.LittleEndian.PutUint64(header[22:], uint64(len(data)))
	if g.header != nil {
		g.header(header)
	}
	out := append(header, flat...)
	return append(append(out, make([]byte, start-len(out))...), data...)
}

// mtensor is a tensor of a method.
type mtensor struct {
	dtype   ScalarType
	sizes   []int32
	order   []byte // rows if nil
	data    uint32 // number of its content in the segment of constants
	planned bool
	dynamic byte
	name    string // of external data
}

func (m mtensor) table() table {
	order := m.order
	if order == nil {
		for i := range m.sizes {
			order = append(order, byte(i))
		}
	}
	t := table{0: byte(m.dtype), 1: int32(0), 2: m.sizes, 3: order, 5: m.data, 8: m.dynamic}
	if m.planned {
		t[6] = table{0: uint32(1)}
	}
	if m.name != "" {
		t[9] = table{1: m.name, 2: byte(1)}
	}
	return table{0: byte(5), 1: t}
}

// mmethod is a method to be written.
type mmethod struct {
	name            string
	values          []table
	inputs, outputs []int32
	instructions    []table
	operators       []string
	delegates       []table
	buffers         []uint64 // sizes of memory for values, without which ExecuTorch itself loads no method
}

// kernel and call are instructions: of an operator, and of a delegate.
func kernel(operator int, args ...int32) table {
	return table{0: byte(1), 1: table{0: int32(operator), 1: args}}
}

func call(delegate int, args ...int32) table {
	return table{0: byte(2), 1: table{0: int32(delegate), 1: args}}
}

// inSegment and inFlatbuffer are where a delegate's blob is.
func inSegment(n int) table {
	return table{0: "XnnpackBackend", 1: table{0: byte(1), 1: uint32(n)}}
}

func inFlatbuffer(n int) table {
	return table{0: "XnnpackBackend", 1: table{0: byte(0), 1: uint32(n)}}
}

func (m mmethod) table() table {
	var operators []table
	for _, o := range m.operators {
		name, overload, _ := strings.Cut(o, ".")
		operators = append(operators, table{0: name, 1: cmp.Or(overload, "out")})
	}
	t := table{
		0: m.name, 2: m.values, 3: m.inputs, 4: m.outputs, 5: []table{{2: m.instructions}}, 6: operators,
		7: m.delegates,
	}
	if m.buffers != nil {
		t[8] = m.buffers
	}
	return t
}

// mprogram is a program to be written.
type mprogram struct {
	methods   []mmethod
	segments  [][]byte
	inline    [][]byte          // blobs of delegates
	named     map[string]uint32 // segments
	constants []uint64          // offsets in the last segment
	changes   func(root table)
}

func (p mprogram) bytes() []byte {
	var methods, segments, named, inline []table
	var data []byte
	for _, m := range p.methods {
		methods = append(methods, m.table())
	}
	for _, s := range p.segments {
		data = append(data, make([]byte, -len(data)&127)...)
		segments = append(segments, table{0: uint64(len(data)), 1: uint64(len(s))})
		data = append(data, s...)
	}
	for _, name := range slices.Sorted(maps.Keys(p.named)) {
		named = append(named, table{0: name, 1: p.named[name]})
	}
	for _, b := range p.inline {
		inline = append(inline, table{0: b})
	}
	root := table{0: uint32(0), 1: methods, 3: inline, 4: segments, 7: named}
	if len(p.constants) > 0 {
		root[5] = table{0: uint32(len(p.segments) - 1), 1: p.constants}
	}
	if p.changes != nil {
		p.changes(root)
	}
	flat := finish(root, program.identifier)
	const length = 32
	base := (len(flat) + length + 127) &^ 127
	header := make([]byte, length)
	copy(header, program.magic)
	binary.LittleEndian.PutUint32(header[4:], programHeaderWithSize)
	for i, f := range []uint64{uint64(length + len(flat)), uint64(base), uint64(len(data))} {
		binary.LittleEndian.PutUint64(header[8+8*i:], f)
	}
	binary.LittleEndian.PutUint32(flat, binary.LittleEndian.Uint32(flat)+length)
	out := append(append(append([]byte{}, flat[:headerOffset]...), header...), flat[headerOffset:]...)
	return append(append(out, make([]byte, base-len(out))...), data...)
}

// around makes a program of one method that calls one delegate: its arguments are the graph's inputs and outputs, and
// named constants are named data.
func around(g xgraph) mprogram {
	p := mprogram{segments: [][]byte{g.bytes()}, named: map[string]uint32{}}
	for _, c := range g.constants {
		if _, ok := p.named[c.name]; c.name != "" && !ok {
			p.named[c.name] = uint32(len(p.segments))
			p.segments = append(p.segments, c.data)
		}
	}
	m := mmethod{name: "forward", delegates: []table{inSegment(0)}}
	var args []int32
	for _, v := range g.values {
		if v.flags == 0 {
			continue
		}
		t := mtensor{dtype: map[int16]ScalarType{dtFloat32: Float, dtFloat16: Half, dtQInt8: Char,
			14: BFloat16}[v.datatype]}
		for _, d := range v.dims {
			t.sizes = append(t.sizes, int32(d))
		}
		i := int32(len(m.values))
		m.values = append(m.values, t.table())
		args = append(args, i)
		if v.flags == externalInput {
			m.inputs = append(m.inputs, i)
		} else {
			m.outputs = append(m.outputs, i)
		}
	}
	m.instructions = []table{call(0, args...)}
	p.methods = []mmethod{m}
	return p
}

// openBytes opens a program that consists of b.
func openBytes(t testing.TB, b []byte) *Program {
	t.Helper()
	p, err := Open(save(t, b))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

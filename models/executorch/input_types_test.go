//go:build cgo

package executorch

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
	"xpwc/models"
	"xpwc/xnnpack"
)

// tokens is a program whose method computes (token + 0.5*(n+1)) * bit of a token of int64, an n of int8 and a bit, once
// in single precision and once as int8.
func tokens() mprogram {
	g := tokensGraph([]uint32{2, 3})
	of23 := func(dtype ScalarType) mtensor { return mtensor{dtype: dtype, sizes: []int32{2, 3}} }
	return mprogram{segments: [][]byte{g.bytes()}, methods: []mmethod{{
		name: "forward", operators: []string{toDimOrder}, delegates: []table{inSegment(0)},
		values: append(tensors(of23(Long), of23(Char), of23(Bool), of23(Float), of23(Float), of23(Float), of23(Char)),
			table{0: byte(3), 1: table{}}),
		inputs: []int32{0, 1, 2}, outputs: []int32{5, 6},
		instructions: []table{kernel(0, 0, 7, 3), kernel(0, 2, 7, 4), call(0, 3, 1, 4, 5, 6)},
	}}}
}

func tokensGraph(dims []uint32) xgraph {
	eighths := func(id, external, flags uint32, scale float32, zero int32) xtensor {
		return xtensor{id: id, datatype: dtQInt8, dims: dims, external: external, flags: flags, quant: perTensor,
			params: table{perTensorScale: scale, perTensorZeroPoint: zero}}
	}
	single := func(id, external, flags uint32) xtensor {
		return xtensor{id: id, datatype: dtFloat32, dims: dims, external: external, flags: flags}
	}
	return xgraph{
		values: []xtensor{
			single(0, 0, externalInput), eighths(1, 1, externalInput, 0.5, -1), single(2, 2, externalInput),
			single(3, absent, 0), single(4, absent, 0), single(5, 3, externalOutput),
			eighths(6, 4, externalOutput, 2, 3),
		},
		nodes: []xnode{
			{kind: 18, fields: slots(1, 3, 0)}, {kind: 1, fields: slots(0, 3, 4, 0)},
			{kind: 15, fields: slots(4, 2, 5, 0)}, {kind: 18, fields: slots(5, 6, 0)},
		},
	}
}

func TestTheProgramOfTokensForTheToolsTestsIsWhatIsBuiltHere(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("testdata", "tokens.pte"))
	require.NoError(t, err)
	require.Equal(t, tokens().bytes(), content)
}

func TestInputsThatAreOnlyConvertedToFloatsAreGivenAsFloats(t *testing.T) {
	m := openBytes(t, tokens().bytes()).Methods()[0]
	require.NoError(t, m.Runnable())
	for i, want := range []struct {
		declared models.Element
		kind     xnnpack.Datatype
		input    models.Element
	}{
		{models.Int64, xnnpack.Float32, models.Int64}, {0, xnnpack.QInt8, models.Int8},
		{models.Bool, xnnpack.Float32, models.Bool},
	} {
		require.Equal(t, want.declared, m.Inputs()[i].Declared)
		require.Equal(t, want.kind, m.Inputs()[i].Type)
		require.Equal(t, want.input, m.Inputs()[i].Element())
	}
	require.Equal(t, []Operator{{toDimOrder + ".out", Between, 2}}, m.Operators()[3:])
	got := modeltest.Run(t, m, []float32{-3, 0, 5, 16777216, 7, 1}, []float32{0, 1, 1.5, -2, 0.5, 4},
		[]float32{1, 0, 1, 1, 1, 0})
	require.Equal(t, []float32{-3, 0, 6.5, 16777214, 7.5, 0}, got[0])
	require.Equal(t, []float32{-4, 0, 6, 248, 8, 0}, got[1], "in steps of 2, up to 248")
}

func TestInputsAreConvertedAsExecuTorchDoes(t *testing.T) {
	for _, c := range []struct {
		dtype   ScalarType
		content []byte
		want    []float32
	}{
		{Byte, []byte{0, 255}, []float32{0, 255}},
		{Char, []byte{127, 128}, []float32{127, -128}},
		{Bool, []byte{0, 1}, []float32{0, 1}},
		{Short, []byte{0xff, 0x7f, 0, 0x80}, []float32{32767, -32768}},
		{Int, []byte{0xff, 0xff, 0xff, 0x7f}, []float32{1 << 31}},
		{Long, binary.LittleEndian.AppendUint64(nil, 1<<24+1<<53+1), []float32{1 << 53}},
		{Double, binary.LittleEndian.AppendUint64(nil, math.Float64bits(0.1)), []float32{0.1}},
	} {
		p := betweenFormats()
		m := &p.methods[0]
		m.values[0] = mtensor{dtype: c.dtype, sizes: []int32{1, 2, 2, 3}, order: rows}.table()
		method := openBytes(t, p.bytes()).Methods()[0]
		require.NoError(t, method.Runnable(), c.dtype)
		input := method.Inputs()[0].Declared
		require.Equal(t, c.dtype.Size(), input.Size())
		dst := make([]byte, 4*len(c.want))
		require.NoError(t, input.Widen(dst, c.content))
		require.Equal(t, floats(c.want...), dst, c.dtype)
		require.Error(t, input.Widen(dst[:len(dst)-1], c.content), "too short")
		if c.dtype.Size() > 1 {
			require.Error(t, input.Widen(dst, c.content[1:]), "not whole")
		}
		x := sequence(12, 0)
		require.Equal(t, 2*x[5], modeltest.Run(t, method, x)[0][5], "and then brought into the other memory format")
		var value models.Value = method.Inputs()[0]
		require.Equal(t, xnnpack.Float32, value.Type)
	}
}

// Only a conversion of an input can be left to the caller.
func TestOtherConversionsAreOperatorsOutsideOfXNNPACK(t *testing.T) {
	integers := mtensor{dtype: Int, sizes: []int32{1, 2, 2, 3}, order: rows}
	for name, change := range map[string]func(m *mmethod){
		"of what is an output too": func(m *mmethod) { m.outputs = append(m.outputs, 0) },
		"of what is copied too": func(m *mmethod) {
			m.values = append(m.values, integers.table())
			m.instructions = append(m.instructions, kernel(0, 0, 4, 5))
		},
		"of what a delegate takes too": func(m *mmethod) {
			m.instructions = append(m.instructions, call(1, 0))
			m.delegates = append(m.delegates, table{0: "CoreMLBackend", 1: table{0: byte(1), 1: uint32(0)}})
		},
		"of what is no input": func(m *mmethod) {
			m.values = append(m.values, mtensor{dtype: Float, sizes: []int32{1, 2, 2, 3}, order: rows}.table())
			m.inputs = []int32{5}
		},
		"twice in one": func(m *mmethod) { m.instructions[0] = kernel(0, 0, 0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			p := betweenFormats()
			m := &p.methods[0]
			m.values[0] = integers.table()
			change(m)
			method := openBytes(t, p.bytes()).Methods()[0]
			require.ErrorContains(t, method.Runnable(), toDimOrder+".out from INT to FLOAT")
		})
	}
}

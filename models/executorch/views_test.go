//go:build cgo

package executorch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// viewedIDs is a program of an embedding whose indices are a view of the input: the export gives both one place in
// memory and writes no instruction for the view.
func viewedIDs() mprogram {
	p := invoked("aten::embedding.out", []any{shaped{3, 2}, typed{Long, []int32{2, 2}}, -1, false, false},
		shaped{2, 2, 2})
	m := &p.methods[0]
	const ids = 1
	shared := func(shape ...int32) table {
		t := mtensor{dtype: Long, sizes: shape, planned: true}.table()
		t[1].(table)[6] = table{0: uint32(1), 1: uint32(64)}
		return t
	}
	m.values[ids] = shared(2, 2)
	m.values = append(m.values, shared(1, 4))
	m.inputs[1] = int32(len(m.values) - 1)
	return p
}

func TestIndicesMayBeAViewOfAnInput(t *testing.T) {
	table := []float32{0, 1, 2, 3, 4, 5}
	out, err := loaded(t, openBytes(t, viewedIDs().bytes()).Methods()[0], "").Run(t.Context(), table,
		[]int64{2, 0, 1, 2})
	require.NoError(t, err)
	require.Equal(t, []float32{4, 5, 0, 1, 2, 3, 4, 5}, out[0].Data)
}

func TestAnInputThatIsViewedIsNotOnlyConverted(t *testing.T) {
	p := viewedIDs()
	m := &p.methods[0]
	single := int32(len(m.values))
	m.values = append(m.values, mtensor{dtype: Float, sizes: []int32{1, 4}}.table(),
		table{0: byte(evalueNull), 1: table{}})
	m.operators = append(m.operators, toDimOrder)
	m.instructions = append([]table{kernel(1, m.inputs[1], single+1, single)}, m.instructions...)
	m.outputs = append(m.outputs, single)
	out, err := loaded(t, openBytes(t, p.bytes()).Methods()[0], "").Run(t.Context(), []float32{0, 1, 2, 3, 4, 5},
		[]int64{2, 0, 1, 2})
	require.NoError(t, err)
	require.Equal(t, []float32{4, 5, 0, 1, 2, 3, 4, 5}, out[0].Data)
	require.Equal(t, []float32{2, 0, 1, 2}, out[1].Data)
}

func TestAViewThatMayBeAnotherTensorIsNotRun(t *testing.T) {
	p := viewedIDs()
	p.methods[0].values[1][1].(table)[6] = table{0: uint32(1), 1: uint32(128)}
	require.ErrorIs(t, openBytes(t, p.bytes()).Methods()[0].Runnable(), ErrMalformed)
}

func TestARefusedCallNamesItsCause(t *testing.T) {
	for want, p := range map[string]mprogram{
		"aten::where.self_out from BOOL to FLOAT (a tensor with its dimensions in the order [1 0] in memory)": //
		func() mprogram {
			p := invoked("aten::where.self_out", []any{typed{Bool, []int32{2, 3}}, shaped{2, 3}, shaped{2, 3}},
				shaped{2, 3})
			p.methods[0].values[0] = mtensor{dtype: Bool, sizes: []int32{2, 3}, order: []byte{1, 0}}.table()
			return p
		}(),
		"aten::exp.out of LONG": invoked("aten::exp.out", []any{typed{Long, []int32{2}}}, typed{Long, []int32{2}}),
	} {
		require.ErrorContains(t, openBytes(t, p.bytes()).Methods()[0].Runnable(), want)
	}
}

package tflite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// scattering puts rows of updates into a table, combined by the operators of a subgraph.
func scattering(ops ...blueOp) blueprint {
	return blueprint{
		tensors: []blueTensor{floats("table", []int{3, 2}), int32Tensor("rows", []int{2, 1}, 2, 5),
			floats("updates", []int{2, 2}), floats("y", nil)},
		ops: []blueOp{{code: "STABLEHLO_SCATTER", inputs: []int{0, 1, 2}, outputs: []int{3},
			options: fields{scatterWindowDims: []int64{1}, scatterInserted: []int64{0},
				scatterOperandDims: []int64{0}, scatterVectorDim: int64(1), scatterComputation: int32(1)}}},
		inputs: []int{0, 2}, outputs: []int{3},
		bodies: []blueprint{{tensors: []blueTensor{floats("a", nil), floats("b", nil), floats("c", nil)}, ops: ops,
			inputs: []int{0, 1}, outputs: []int{len(ops) + 1}}},
	}
}

func TestUpdatesAreScatteredAsTheirSubgraphCombinesThem(t *testing.T) {
	m := scattering()
	table, updates := []float32{1, 2, 3, 4, 5, 6}, []float32{10, 20, 30, 40}
	require.Equal(t, []float32{1, 2, 3, 4, 10, 20},
		modeltest.Run(t, openModel(t, save(t, m.bytes())), table, updates)[0])
	m = scattering(blueOp{code: "STABLEHLO_ADD", inputs: []int{0, 1}, outputs: []int{2}})
	require.Equal(t, []float32{1, 2, 3, 4, 15, 26},
		modeltest.Run(t, openModel(t, save(t, m.bytes())), table, updates)[0])
}

func TestScattersThatLiteRTRefusesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *blueprint)
		kind   error
	}{
		"what is there stays": {func(m *blueprint) { m.bodies[0].outputs = []int{0} }, ErrUnsupported},
		"another operator": {func(m *blueprint) {
			*m = scattering(blueOp{code: "SUB", inputs: []int{0, 1}, outputs: []int{2}})
		}, ErrUnsupported},
		"no subgraph":      {func(m *blueprint) { m.ops[0].options[scatterComputation] = int32(7) }, ErrMalformed},
		"one element":      {func(m *blueprint) { m.bodies[0].inputs = []int{0} }, ErrMalformed},
		"more rows":        {func(m *blueprint) { m.tensors[2].shape = []int{3, 2} }, ErrMalformed},
		"a dimension less": {func(m *blueprint) { m.ops[0].options[scatterInserted] = []int64{} }, ErrMalformed},
		"a huge dimension": {func(m *blueprint) { m.ops[0].options[scatterWindowDims] = []int64{1 << 40} },
			ErrMalformed},
		"a far vector": {func(m *blueprint) { m.ops[0].options[scatterVectorDim] = int64(-1) }, ErrMalformed},
		"integers":     {func(m *blueprint) { m.tensors[2].dtype = typeInt32 }, ErrMalformed},
	} {
		m := scattering()
		c.change(&m)
		_, err := load(m.bytes(), Options{})
		require.ErrorIs(t, err, c.kind, name)
	}
}

// composed calls a subgraph that doubles its input.
func composed() blueprint {
	return blueprint{
		tensors: []blueTensor{floats("x", []int{2}), floats("y", nil)},
		ops: []blueOp{{code: "STABLEHLO_COMPOSITE", inputs: []int{0}, outputs: []int{1},
			options: fields{compositeBody: int32(1)}}},
		inputs: []int{0}, outputs: []int{1},
		bodies: []blueprint{{tensors: []blueTensor{floats("x", nil), floats("y", nil)},
			ops:    []blueOp{{code: "ADD", inputs: []int{0, 0}, outputs: []int{1}, options: fields{}}},
			inputs: []int{0}, outputs: []int{1}}},
	}
}

func TestACompositeIsItsBody(t *testing.T) {
	m := composed()
	model := openModel(t, save(t, m.bytes()))
	require.Equal(t, []float32{3, -4}, modeltest.Run(t, model, []float32{1.5, -2})[0])
	require.Len(t, model.plan.steps, 1, "its outputs are computed in place")
}

func TestACompositeThatCallsItselfIsRefused(t *testing.T) {
	m := composed()
	m.bodies[0].ops[0] = m.ops[0]
	_, err := load(m.bytes(), Options{})
	require.ErrorIs(t, err, ErrUnsupported)
}

package tflite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func handle(name string) blueTensor { return blueTensor{name: name, dtype: typeResource} }

func names(name string) blueOp {
	return blueOp{code: "VAR_HANDLE", options: fields{varContainer: "", varName: name}}
}

// summing has two variables: sum, to which each inference adds x, and step, which nothing changes. Its outputs are the
// sum before, and step times the sum after.
func summing() blueprint {
	asState := func(op blueOp, inputs, outputs []int) blueOp {
		op.inputs, op.outputs = inputs, outputs
		return op
	}
	return blueprint{
		tensors: []blueTensor{floats("x", []int{1, 2}), handle("sum"), handle("step"), floats("before", []int{1, 2}),
			floats("times", []int{2}), floats("after", nil), floats("again", []int{1, 2}), floats("y", nil)},
		ops: []blueOp{
			{code: "CALL_ONCE", options: fields{callOnceInit: int32(1)}},
			asState(names("sum"), nil, []int{1}),
			asState(names("step"), nil, []int{2}),
			{code: "READ_VARIABLE", inputs: []int{1}, outputs: []int{3}},
			{code: "ADD", inputs: []int{3, 0}, outputs: []int{5}, options: fields{}},
			{code: "ASSIGN_VARIABLE", inputs: []int{1, 5}},
			{code: "READ_VARIABLE", inputs: []int{1}, outputs: []int{6}},
			{code: "READ_VARIABLE", inputs: []int{2}, outputs: []int{4}},
			{code: "MUL", inputs: []int{6, 4}, outputs: []int{7}, options: fields{}},
		},
		inputs: []int{0}, outputs: []int{3, 7},
		bodies: []blueprint{{
			tensors: []blueTensor{handle("sum"), floats("zero", []int{1, 2}, 10, 20), handle("step"),
				floats("ten", []int{2}, 10, 100)},
			ops: []blueOp{
				asState(names("sum"), nil, []int{0}),
				{code: "ASSIGN_VARIABLE", inputs: []int{0, 1}},
				asState(names("step"), nil, []int{2}),
				{code: "ASSIGN_VARIABLE", inputs: []int{2, 3}},
			},
		}},
	}
}

func TestAVariableStaysUntilItIsReset(t *testing.T) {
	m := summing()
	r, err := Load(save(t, m.bytes()), "", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for range 2 {
		for _, want := range [][]float32{{10, 20, 110, 2200}, {11, 22, 120, 2400}, {12, 24, 130, 2600}} {
			outputs, err := r.Run(t.Context(), []float32{1, 2})
			require.NoError(t, err)
			require.Equal(t, want[:2], outputs[0].Data)
			require.Equal(t, want[2:], outputs[1].Data)
		}
		require.NoError(t, r.Reset(t.Context()))
	}
}

func TestAVariableThatNothingChangesIsAConstant(t *testing.T) {
	m := summing()
	opened := openModel(t, save(t, m.bytes()))
	require.Len(t, opened.plan.states, 1)
	m.ops = append(m.ops[:5:5], m.ops[6:]...)
	opened = openModel(t, save(t, m.bytes()))
	require.Empty(t, opened.plan.states)
	require.False(t, opened.plan.whole.Staged(), "XNNPACK computes all of it")
}

func TestVariablesThatCannotBeKeptAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*blueprint)
		want   error
		text   string
	}{
		"one that begins with nothing": {func(m *blueprint) { m.ops = m.ops[1:] },
			ErrUnsupported, "begins with nothing"},
		"a handle of none": {func(m *blueprint) { m.ops[3].inputs[0] = 0 }, ErrUnsupported, "not known"},
		"another shape": {func(m *blueprint) { m.bodies[0].tensors[1] = floats("zero", []int{1, 1}, 1) },
			ErrUnsupported, "that becomes"},
		"another constant": {func(m *blueprint) {
			m.tensors[5] = floats("after", []int{1, 2}, 1, 2)
			m.ops = append(m.ops[:4:4], m.ops[5:]...)
		}, ErrUnsupported, "given a constant"},
		"a handle and no more": {func(m *blueprint) { m.ops[5].inputs = []int{1} }, ErrMalformed, "1 inputs"},
		"a subgraph of none": {func(m *blueprint) { m.ops[0].options[callOnceInit] = int32(7) },
			ErrMalformed, "subgraph 7"},
		"a change on a condition": {func(m *blueprint) {
			m.tensors = append(m.tensors, blueTensor{name: "if", shape: []int{}, dtype: typeBool}, floats("x", nil))
			m.inputs = append(m.inputs, 8)
			m.ops = append(m.ops, blueOp{code: "IF", inputs: []int{8, 1, 0}, outputs: []int{9},
				options: fields{ifThen: int32(2), ifElse: int32(3)}})
			m.outputs = append(m.outputs, 9)
			branch := blueprint{tensors: []blueTensor{handle("sum"), floats("x", nil)}, inputs: []int{0, 1},
				outputs: []int{1}}
			change := branch
			change.ops = []blueOp{{code: "ASSIGN_VARIABLE", inputs: []int{0, 1}}}
			m.bodies = append(m.bodies, change, branch)
		}, ErrUnsupported, "changes on a condition"},
		"a call within it": {func(m *blueprint) {
			m.bodies[0].ops = append(m.bodies[0].ops, m.ops[0])
		}, ErrUnsupported, "within another subgraph"},
	} {
		t.Run(name, func(t *testing.T) {
			m := summing()
			c.change(&m)
			_, err := Open(save(t, m.bytes()), nil)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.text)
		})
	}
}

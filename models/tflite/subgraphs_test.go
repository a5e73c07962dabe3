package tflite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// looping computes x = tanh(x·w) three times, and joins what each round has. The loop counts to the constant that its
// condition has.
func looping() blueprint {
	weights := constantOf("w", 4, 4)
	count := func(name string) blueTensor { return int32Tensor(name, []int{}) }
	return blueprint{
		tensors: []blueTensor{floats("x", []int{1, 4}), int32Tensor("zero", []int{}, 0),
			floats("none", []int{1, 1, 4}, 0, 0, 0, 0), count("n"), floats("all", nil), floats("last", nil)},
		ops: []blueOp{{code: "WHILE", inputs: []int{1, 2, 0}, outputs: []int{3, 4, 5},
			options: fields{whileCondition: int32(1), whileBody: int32(2)}}},
		inputs: []int{0}, outputs: []int{4, 5},
		bodies: []blueprint{
			{
				tensors: []blueTensor{count("n"), floats("all", nil), floats("x", nil), int32Tensor("end", []int{}, 3),
					typed(floats("less", nil), typeBool)},
				ops:    []blueOp{{code: "LESS", inputs: []int{0, 3}, outputs: []int{4}}},
				inputs: []int{0, 1, 2}, outputs: []int{4},
			},
			{
				tensors: []blueTensor{count("n"), floats("all", nil), floats("x", nil), int32Tensor("one", []int{}, 1),
					count("next"), weights, floats("product", nil), floats("y", nil), floats("row", nil),
					int32Tensor("shape", []int{3}, 1, 1, 4), floats("joined", nil),
					int32Tensor("three", []int{3}, 0, 0, 0), int32Tensor("rest", []int{2}, -1, -1),
					int32Tensor("single", []int{1}, 1), int32Tensor("at", nil), int32Tensor("size", nil),
					floats("before", nil)},
				ops: []blueOp{
					{code: "ADD", inputs: []int{0, 3}, outputs: []int{4}},
					{code: "FULLY_CONNECTED", inputs: []int{2, 5, absent}, outputs: []int{6}},
					{code: "TANH", inputs: []int{6}, outputs: []int{7}},
					{code: "RESHAPE", inputs: []int{7, 9}, outputs: []int{8}},
					// What is there so far, nothing at first.
					{code: "RESHAPE", inputs: []int{0, 13}, outputs: []int{14}},
					{code: "CONCATENATION", inputs: []int{14, 12}, outputs: []int{15}, options: fields{}},
					{code: "SLICE", inputs: []int{1, 11, 15}, outputs: []int{16}},
					{code: "CONCATENATION", inputs: []int{16, 8}, outputs: []int{10}, options: fields{}},
				},
				inputs: []int{0, 1, 2}, outputs: []int{4, 10, 7},
			},
		},
	}
}

func TestALoopThatCountsBecomesAsManySteps(t *testing.T) {
	w := constantOf("w", 4, 4)
	once := single(blueOp{code: "FULLY_CONNECTED"}, []int{1, 4}, w)
	once.tensors = append(once.tensors, floats("y", nil))
	once.ops = append(once.ops, blueOp{code: "TANH", inputs: once.outputs, outputs: []int{len(once.tensors) - 1}})
	once.outputs = []int{len(once.tensors) - 1}
	round := openModel(t, save(t, once.bytes()))
	m := looping()
	opened := openModel(t, save(t, m.bytes()))
	x := []float32{0.5, -1, 2, 0.25}
	var want []float32
	for range 3 {
		x = modeltest.Run(t, round, x)[0]
		want = append(want, x...)
	}
	got := modeltest.Run(t, opened, []float32{0.5, -1, 2, 0.25})
	require.Equal(t, [][]float32{want, x}, got)
	require.Len(t, opened.plan.constants, 1, "the rounds have one constant")
}

// choosing is x·2 if a condition holds, and x-1 otherwise.
func choosing(condition blueTensor) blueprint {
	branch := func(code opcode, number float32) blueprint {
		return blueprint{
			tensors: []blueTensor{floats("x", nil), floats("number", []int{1}, number), floats("y", nil)},
			ops:     []blueOp{{code: code, inputs: []int{0, 1}, outputs: []int{2}, options: fields{}}},
			inputs:  []int{0}, outputs: []int{2},
		}
	}
	return blueprint{
		tensors: []blueTensor{floats("x", []int{1, 3}), condition, floats("y", nil)},
		ops: []blueOp{{code: "IF", inputs: []int{1, 0}, outputs: []int{2},
			options: fields{ifThen: int32(1), ifElse: int32(2)}}},
		inputs: []int{0}, outputs: []int{2},
		bodies: []blueprint{branch("MUL", 2), branch("SUB", 1)},
	}
}

func TestAConditionChoosesASubgraph(t *testing.T) {
	for _, holds := range []bool{true, false} {
		want := []float32{0, 1, 2}
		number := byte(0)
		if holds {
			want, number = []float32{2, 4, 6}, 1
		}
		decided := choosing(blueTensor{name: "c", shape: []int{}, dtype: typeBool, data: []byte{number}})
		opened := openModel(t, save(t, decided.bytes()))
		require.Equal(t, want, modeltest.Run(t, opened, []float32{1, 2, 3})[0])
		require.Len(t, opened.plan.steps, 2, "what is not chosen is not computed")

		undecided := choosing(blueTensor{name: "c", shape: []int{}, dtype: typeBool})
		undecided.inputs = []int{0, 1}
		opened = openModel(t, save(t, undecided.bytes()))
		require.Equal(t, want, modeltest.Run(t, opened, []float32{1, 2, 3}, []float32{float32(number)})[0])
	}
}

// The subgraphs look a row of the input up: one that is outside of it is an error. The first one chooses again.
func TestASubgraphThatIsNotChosenIsNotComputed(t *testing.T) {
	row := func(index int32) blueprint {
		return blueprint{
			tensors: []blueTensor{floats("x", nil), int32Tensor("i", nil), int32Tensor("more", []int{1}, index),
				int32Tensor("row", nil), floats("y", nil), typed(floats("c", nil), typeBool)},
			ops: []blueOp{{code: "ADD", inputs: []int{1, 2}, outputs: []int{3}},
				{code: "GATHER", inputs: []int{0, 3}, outputs: []int{4}, options: fields{}}},
			inputs: []int{0, 1, 5}, outputs: []int{4},
		}
	}
	nested := blueprint{
		tensors: []blueTensor{floats("x", nil), int32Tensor("i", nil), typed(floats("c", nil), typeBool),
			floats("y", nil)},
		ops: []blueOp{{code: "IF", inputs: []int{2, 0, 1, 2}, outputs: []int{3},
			options: fields{ifThen: int32(2), ifElse: int32(4)}}},
		inputs: []int{0, 1, 2}, outputs: []int{3},
	}
	m := blueprint{
		tensors: []blueTensor{floats("x", []int{2, 2}), int32Tensor("i", []int{1}),
			blueTensor{name: "c", shape: []int{}, dtype: typeBool},
			blueTensor{name: "d", shape: []int{}, dtype: typeBool}, floats("y", nil)},
		ops: []blueOp{{code: "IF", inputs: []int{2, 0, 1, 3}, outputs: []int{4},
			options: fields{ifThen: int32(1), ifElse: int32(3)}}},
		inputs: []int{0, 1, 2, 3}, outputs: []int{4},
		bodies: []blueprint{nested, row(1), row(0), row(-1)},
	}
	opened := openModel(t, save(t, m.bytes()))
	for _, c := range []struct {
		index, condition, inner float32
		want                    []float32
	}{
		{0, 1, 1, []float32{3, 4}}, {1, 1, 0, []float32{1, 2}}, {0, 0, 1, []float32{1, 2}}, {1, 0, 0, []float32{3, 4}},
	} {
		got := modeltest.Run(t, opened, []float32{1, 2, 3, 4}, []float32{c.index}, []float32{c.condition},
			[]float32{c.inner})
		require.Equal(t, c.want, got[0], "%v", c)
	}
}

func TestLoopsThatCannotBeUnrolledAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*blueprint)
		want   error
		text   string
	}{
		"as often as an input says": {func(m *blueprint) {
			m.tensors = append(m.tensors, int32Tensor("times", []int{}))
			m.inputs, m.ops[0].inputs[0] = []int{0, 6}, 6
		}, ErrUnsupported, "how often it repeats depends on what is computed"},
		"without an end": {func(m *blueprint) { m.bodies[1].outputs[0] = 0 }, ErrUnsupported,
			"operators in all rounds"},
		"itself": {func(m *blueprint) {
			m.bodies[1].ops[1] = blueOp{code: "WHILE", inputs: []int{0, 1, 2}, outputs: []int{4, 10, 7},
				options: m.ops[0].options}
			m.bodies[1].ops = m.bodies[1].ops[1:2]
		}, ErrUnsupported, "calls in each other"},
		"an operator that cannot run": {func(m *blueprint) { m.bodies[1].ops[2].code = "SVDF" }, ErrUnsupportedOp,
			"operator 0, WHILE: operator 2, SVDF: unsupported operator"},
		"no such subgraph": {func(m *blueprint) { m.ops[0].options[whileBody] = int32(3) }, ErrMalformed,
			"calls subgraph 3 of 3"},
		"fewer values after a round": {func(m *blueprint) { m.bodies[1].outputs = []int{4, 10} }, ErrMalformed,
			"a round has 3 values, and the next 2"},
		"fewer values": {func(m *blueprint) { m.bodies[0].inputs = []int{0, 1} }, ErrMalformed,
			"3 values for a subgraph of 2"},
		"a value of another type": {func(m *blueprint) { m.bodies[0].tensors[1].dtype = typeInt8 }, ErrMalformed,
			"of type FLOAT32"},
		"a constant input": {func(m *blueprint) { m.bodies[0].inputs[1] = 3 }, ErrMalformed, "is constant"},
		"a condition that is a number": {func(m *blueprint) { m.bodies[0].outputs[0] = 3 }, ErrMalformed,
			"a condition of INT32"},
		"two conditions":  {func(m *blueprint) { m.bodies[0].outputs = []int{4, 4} }, ErrMalformed, "of 2 values"},
		"a missing value": {func(m *blueprint) { m.ops[0].inputs[1] = absent }, ErrMalformed, "a value is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			m := looping()
			c.change(&m)
			_, err := load(m.bytes(), Options{})
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.text)
		})
	}
}

package tflite

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/operators"
	"xpwc/internal/tests/modeltest"
	"xpwc/models"
)

func typed(t blueTensor, dtype elementType) blueTensor {
	t.dtype = dtype
	return t
}

func TestComparisonsOfIntegersAndSelect(t *testing.T) {
	input := []float32{-7, 0, 3, 4, 5, 16777215}
	const rows = 4
	for name, holds := range map[string]func(x float32) bool{
		"LESS":          func(x float32) bool { return x < rows },
		"GREATER":       func(x float32) bool { return x > rows },
		"EQUAL":         func(x float32) bool { return x == rows },
		"LESS_EQUAL":    func(x float32) bool { return x <= rows },
		"GREATER_EQUAL": func(x float32) bool { return x >= rows },
		"NOT_EQUAL":     func(x float32) bool { return x != rows },
	} {
		t.Run(name, func(t *testing.T) {
			// CAST(SELECT_V2(x ? other, x+other, x))
			m := blueprint{
				tensors: []blueTensor{typed(floats("x", []int{2, 3}), typeInt32), int32Tensor("other", []int{}, rows),
					typed(floats("holds", nil), typeBool), typed(floats("sum", nil), typeInt32),
					typed(floats("chosen", nil), typeInt32), floats("out", nil)},
				ops: []blueOp{
					{code: opcode(name), inputs: []int{0, 1}, outputs: []int{2}},
					{code: "ADD", inputs: []int{0, 1}, outputs: []int{3}},
					{code: "SELECT_V2", inputs: []int{2, 3, 0}, outputs: []int{4}},
					{code: "CAST", inputs: []int{4}, outputs: []int{5}},
				},
				inputs: []int{0}, outputs: []int{5},
			}
			opened := openModel(t, save(t, m.bytes()))
			require.Equal(t, models.Int32, opened.Inputs()[0].Element())
			var want []float32
			for _, x := range input {
				if holds(x) {
					x += rows
				}
				want = append(want, x)
			}
			got := modeltest.Run(t, opened, input)[0]
			require.Equal(t, want, got)
		})
	}
}

func TestRowsOfATableAreThoseOfTheTable(t *testing.T) {
	const rows, width = 37, 6
	ids := []float32{36, 0, 7, 7, 35, 1, 2, 3}
	tables := map[string]blueTensor{
		"single precision": floats("table", []int{rows, 2, 3}, wave(rows*width)...),
		"int8": quantizedTensor("table", typeInt8, []int{rows, 2, 3}, 0, 5, []float32{1. / 16},
			wave(rows*width)),
	}
	for name, table := range tables {
		for _, code := range []opcode{"GATHER", "EMBEDDING_LOOKUP"} {
			t.Run(string(code)+" "+name, func(t *testing.T) {
				out := floats("out", nil)
				out.dtype, out.scales, out.zeroPoints = table.dtype, table.scales, table.zeroPoints
				m := blueprint{tensors: []blueTensor{typed(floats("ids", []int{2, 4}), typeInt64), table, out},
					ops:    []blueOp{{code: code, inputs: []int{1, 0}, outputs: []int{2}}},
					inputs: []int{0}, outputs: []int{2}}
				if code == "EMBEDDING_LOOKUP" {
					m.ops[0].inputs = []int{0, 1}
				}
				opened := openModel(t, save(t, m.bytes()))
				require.Equal(t, models.Int64, opened.Inputs()[0].Element())
				require.Equal(t, []int{2, 4, 2, 3}, opened.Outputs()[0].Shape)
				var want []float32
				for _, id := range ids {
					want = append(want, wave(rows * width)[int(id)*width:][:width]...)
				}
				require.Equal(t, want, modeltest.Run(t, opened, ids)[0])
				for _, wrong := range []int64{rows, -1} {
					stages, _ := opened.Stages()
					ids := binary.LittleEndian.AppendUint64(nil, uint64(wrong))
					err := stages[0].Compute([][]byte{slices.Repeat(ids, 8)}, [][]byte{make([]byte, 4*8*width)})
					require.ErrorIs(t, err, operators.ErrIndex)
					require.ErrorContains(t, err, string(code))
				}
			})
		}
	}
}

// TestShapesThatAModelComputesAreFolded reshapes [2, 3, 4] to shapes that integer operators compute.
func TestShapesThatAModelComputesAreFolded(t *testing.T) {
	scalar := func(n int32) blueTensor { return int32Tensor("scalar", []int{}, n) }
	list := func(n ...int32) blueTensor { return int32Tensor("list", []int{len(n)}, n...) }
	type step struct {
		op        blueOp       // its operands are the step's constants, by index, or what the step before gave
		constants []blueTensor // the constants
	}
	const low = -2
	for name, c := range map[string]struct {
		steps []step
		want  []int
	}{
		"SHAPE": {nil, []int{2, 3, 4}},
		"STRIDED_SLICE, PACK": {[]step{
			{op: blueOp{code: "STRIDED_SLICE", options: fields{sliceShrinkAxisMask: int32(1)}},
				constants: []blueTensor{list(-1), list(0), list(1)}},
			{op: blueOp{code: "PACK", inputs: []int{low, 0}}, constants: []blueTensor{scalar(6)}}}, []int{4, 6}},
		"STRIDED_SLICE by 2": {[]step{
			{op: blueOp{code: "STRIDED_SLICE"}, constants: []blueTensor{list(0), list(3), list(2)}},
			{op: blueOp{code: "CONCATENATION", inputs: []int{low, 0}}, constants: []blueTensor{list(3)}}},
			[]int{2, 4, 3}},
		"GATHER, REDUCE_PROD, EXPAND_DIMS": {[]step{
			{op: blueOp{code: "GATHER"}, constants: []blueTensor{list(2, 0, 1)}},
			{op: blueOp{code: "REDUCE_PROD"}, constants: []blueTensor{list(0)}},
			{op: blueOp{code: "EXPAND_DIMS"}, constants: []blueTensor{scalar(0)}}}, []int{24}},
		"SLICE, SUB, MUL, ADD, MAXIMUM, MINIMUM": {[]step{
			{op: blueOp{code: "SLICE"}, constants: []blueTensor{list(1), list(-1)}}, // 3, 4
			{op: blueOp{code: "SUB"}, constants: []blueTensor{list(1, 3)}},          // 2, 1
			{op: blueOp{code: "MUL"}, constants: []blueTensor{scalar(3)}},           // 6, 3
			{op: blueOp{code: "ADD"}, constants: []blueTensor{list(0, 1)}},          // 6, 4
			{op: blueOp{code: "MAXIMUM"}, constants: []blueTensor{scalar(5)}},       // 6, 5
			{op: blueOp{code: "MINIMUM"}, constants: []blueTensor{list(9, 4)}}}, []int{6, 4}},
		"SLICE, BROADCAST_ARGS": {[]step{
			{op: blueOp{code: "SLICE"}, constants: []blueTensor{list(2), list(1)}}, // 4
			{op: blueOp{code: "BROADCAST_ARGS"}, constants: []blueTensor{list(6, 1)}}}, []int{6, 4}},
		"SUM, RESHAPE, CAST": {[]step{
			{op: blueOp{code: "SUM", options: fields{reducerKeepDims: true}}, constants: []blueTensor{list(0)}}, // 9
			{op: blueOp{code: "RESHAPE"}, constants: []blueTensor{list(1)}},
			{op: blueOp{code: "CAST"}},
			{op: blueOp{code: "SUB"}, constants: []blueTensor{list(1)}},
			{op: blueOp{code: "CONCATENATION", inputs: []int{low, 0}}, constants: []blueTensor{list(3)}}}, []int{8, 3}},
		"REDUCE_MAX, FILL": {[]step{
			{op: blueOp{code: "REDUCE_MAX", options: fields{reducerKeepDims: true}},
				constants: []blueTensor{list(0)}}, // 4
			{op: blueOp{code: "SUB"}, constants: []blueTensor{list(1)}},
			{op: blueOp{code: "FILL", inputs: []int{low, 0}}, constants: []blueTensor{scalar(1)}}, // 1, 1, 1
			{op: blueOp{code: "MUL"}, constants: []blueTensor{list(3, 2, 4)}}}, []int{3, 2, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			m := blueprint{tensors: []blueTensor{floats("in", []int{2, 3, 4}), floats("out", nil),
				typed(floats("shape", nil), typeInt32)},
				ops:    []blueOp{{code: "SHAPE", inputs: []int{0}, outputs: []int{2}}},
				inputs: []int{0}, outputs: []int{1}}
			last := 2
			for _, s := range c.steps {
				first := len(m.tensors)
				m.tensors = append(m.tensors, s.constants...)
				if s.op.inputs == nil {
					s.op.inputs = []int{low}
					for i := range s.constants {
						s.op.inputs = append(s.op.inputs, i)
					}
				}
				operands := []int{}
				for _, i := range s.op.inputs {
					if i == low {
						operands = append(operands, last)
					} else {
						operands = append(operands, first+i)
					}
				}
				last = len(m.tensors)
				m.tensors = append(m.tensors, typed(floats("n", nil), typeInt32))
				s.op.inputs, s.op.outputs = operands, []int{last}
				m.ops = append(m.ops, s.op)
			}
			m.ops = append(m.ops, blueOp{code: "RESHAPE", inputs: []int{0, last}, outputs: []int{1}})
			opened := openModel(t, save(t, m.bytes()))
			require.Equal(t, c.want, opened.Outputs()[0].Shape)
			require.Equal(t, wave(24), modeltest.Run(t, opened, wave(24))[0])
		})
	}
}

func TestAFilledTensorIsAConstant(t *testing.T) {
	m := blueprint{tensors: []blueTensor{floats("in", []int{3, 5}), int32Tensor("shape", []int{2}, 3, 5),
		floats("value", []int{}, 0.75), floats("filled", nil), floats("out", nil)},
		ops: []blueOp{{code: "FILL", inputs: []int{1, 2}, outputs: []int{3}},
			{code: "MUL", inputs: []int{0, 3}, outputs: []int{4}}},
		inputs: []int{0}, outputs: []int{4}}
	want := wave(15)
	for i := range want {
		want[i] *= 0.75
	}
	require.Equal(t, want, modeltest.Run(t, openModel(t, save(t, m.bytes())), wave(15))[0])
}

func TestShapesOfIntegersThatOverflowAreMalformed(t *testing.T) {
	m := single(blueOp{code: "SHAPE"}, []int{4})
	m.tensors[1] = typed(m.tensors[1], typeInt32)
	big := binary.LittleEndian.AppendUint32(nil, 1<<30)
	m.tensors = append(m.tensors, blueTensor{name: "big", shape: []int{}, dtype: typeInt32, data: big},
		typed(floats("product", nil), typeInt32), floats("reshaped", nil))
	m.ops = append(m.ops, blueOp{code: "MUL", inputs: []int{1, 2}, outputs: []int{3}},
		blueOp{code: "RESHAPE", inputs: []int{0, 3}, outputs: []int{4}})
	m.outputs = []int{4}
	_, err := Open(save(t, m.bytes()), nil)
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, "operator 2, RESHAPE")
}

func TestAPartWithoutElementsIsTheShapeOfAScalar(t *testing.T) {
	m := blueprint{
		tensors: []blueTensor{floats("in", []int{2, 3, 4}), typed(floats("shape", nil), typeInt32),
			int32Tensor("lengths", []int{3}, 2, 1, 0), int32Tensor("axis", []int{}, 0),
			typed(floats("rows", nil), typeInt32), typed(floats("last", nil), typeInt32),
			typed(floats("nothing", nil), typeInt32), typed(floats("scalar", nil), typeInt32),
			int32Tensor("six", []int{}, 6), typed(floats("packed", nil), typeInt32), floats("out", nil)},
		ops: []blueOp{
			{code: "SHAPE", inputs: []int{0}, outputs: []int{1}},
			{code: "SPLIT_V", inputs: []int{1, 2, 3}, outputs: []int{4, 5, 6}},
			{code: "RESHAPE", inputs: []int{5, 6}, outputs: []int{7}},
			{code: "PACK", inputs: []int{7, 8}, outputs: []int{9}},
			{code: "RESHAPE", inputs: []int{0, 9}, outputs: []int{10}},
		},
		inputs: []int{0}, outputs: []int{10},
	}
	opened := openModel(t, save(t, m.bytes()))
	require.Equal(t, []int{4, 6}, opened.Outputs()[0].Shape)
	input := wave(24)
	require.Equal(t, input, modeltest.Run(t, opened, input)[0])
}

func TestPartsThatHaveElementsAreComputedBesideThoseThatHaveNone(t *testing.T) {
	for _, dtype := range []elementType{typeFloat32, typeInt32} {
		m := blueprint{
			tensors: []blueTensor{typed(floats("in", []int{6}), dtype), int32Tensor("lengths", []int{4}, 0, 2, 0, 4),
				int32Tensor("axis", []int{}, 0), typed(floats("a", nil), dtype), typed(floats("b", nil), dtype),
				typed(floats("c", nil), dtype), typed(floats("d", nil), dtype)},
			ops:    []blueOp{{code: "SPLIT_V", inputs: []int{0, 1, 2}, outputs: []int{3, 4, 5, 6}}},
			inputs: []int{0}, outputs: []int{4, 6},
		}
		got := modeltest.Run(t, openModel(t, save(t, m.bytes())), []float32{1, 2, 3, 4, 5, 6})
		require.Equal(t, [][]float32{{1, 2}, {3, 4, 5, 6}}, got, dtype)
	}
}

package tflite

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// A move is an operator whose every output element is one of the input's.
type move struct {
	name      string
	op        blueOp
	input     []int
	constants []blueTensor
	outputs   [][]int
	// source is the place in the input of an element of an output; nil is a zero of padding.
	source func(output int, pos []int) []int
}

func moves() []move {
	identity := func(_ int, pos []int) []int { return pos }
	ints1 := func(name string, values ...int32) blueTensor { return int32Tensor(name, []int{len(values)}, values...) }
	slice := func(begin, end, stride []int32, masks fields, out []int, source func(int, []int) []int) move {
		return move{fmt.Sprintf("STRIDED_SLICE from %v to %v %v", begin, end, masks),
			blueOp{code: "STRIDED_SLICE", options: masks}, []int{3, 4, 5},
			[]blueTensor{ints1("b", begin...), ints1("e", end...), ints1("s", stride...)}, [][]int{out}, source}
	}
	unstack := func(axis int32, shape []int, n int) move {
		m := move{fmt.Sprint("UNPACK along ", axis), blueOp{code: "UNPACK", options: fields{unpackAxis: axis}},
			[]int{2, 3, 4}, nil, nil, func(output int, pos []int) []int {
				index := append([]int(nil), pos[:axis]...)
				return append(append(index, output), pos[axis:]...)
			}}
		for range n {
			m.outputs = append(m.outputs, shape)
		}
		return m
	}
	return []move{
		{"EXPAND_DIMS", blueOp{code: "EXPAND_DIMS"}, []int{2, 3}, []blueTensor{int32Tensor("axis", []int{}, -1)},
			[][]int{{2, 3, 1}}, func(_ int, pos []int) []int { return pos[:2] }},
		{"SQUEEZE", blueOp{code: "SQUEEZE", options: fields{squeezeDims: []int32{-2}}}, []int{1, 2, 1, 3}, nil,
			[][]int{{1, 2, 3}}, func(_ int, pos []int) []int { return []int{0, pos[1], 0, pos[2]} }},
		{"SQUEEZE of all", blueOp{code: "SQUEEZE"}, []int{1, 2, 1, 3}, nil,
			[][]int{{2, 3}}, func(_ int, pos []int) []int { return []int{0, pos[0], 0, pos[1]} }},
		{"TRANSPOSE", blueOp{code: "TRANSPOSE"}, []int{2, 3, 4}, []blueTensor{ints1("p", 2, 0, 1)},
			[][]int{{4, 2, 3}}, func(_ int, pos []int) []int { return []int{pos[1], pos[2], pos[0]} }},
		{"SLICE", blueOp{code: "SLICE"}, []int{4, 5}, []blueTensor{ints1("b", 1, 2), ints1("s", 2, -1)},
			[][]int{{2, 3}}, func(_ int, pos []int) []int { return []int{pos[0] + 1, pos[1] + 2} }},
		slice([]int32{1, -3}, []int32{3, -1}, []int32{1, 1}, nil, []int{2, 2, 5},
			func(_ int, pos []int) []int { return []int{pos[0] + 1, pos[1] + 1, pos[2]} }),
		slice([]int32{1, 2, 3}, []int32{0, 0, 4}, []int32{1, 1, 1}, fields{sliceShrinkAxisMask: int32(1),
			sliceEndMask: int32(2), sliceBeginMask: int32(4)}, []int{2, 4},
			func(_ int, pos []int) []int { return []int{1, pos[0] + 2, pos[1]} }),
		slice([]int32{-1}, []int32{99}, []int32{3}, nil, []int{1, 4, 5},
			func(_ int, pos []int) []int { return []int{2, pos[1], pos[2]} }),
		{"SPLIT", blueOp{code: "SPLIT", inputs: []int{1, 0}}, []int{2, 6},
			[]blueTensor{int32Tensor("a", []int{}, 1)},
			[][]int{{2, 2}, {2, 2}, {2, 2}}, func(o int, pos []int) []int { return []int{pos[0], 2*o + pos[1]} }},
		{"SPLIT_V", blueOp{code: "SPLIT_V"}, []int{2, 6},
			[]blueTensor{ints1("lengths", 1, 5), int32Tensor("a", []int{}, -1)},
			[][]int{{2, 1}, {2, 5}}, func(o int, pos []int) []int { return []int{pos[0], o + pos[1]} }},
		{"SPLIT_V, and what is left", blueOp{code: "SPLIT_V"}, []int{2, 6},
			[]blueTensor{ints1("lengths", 1, -1, 2), int32Tensor("a", []int{}, 1)},
			[][]int{{2, 1}, {2, 3}, {2, 2}},
			func(o int, pos []int) []int { return []int{pos[0], []int{0, 1, 4}[o] + pos[1]} }},
		{"REVERSE_SEQUENCE", blueOp{code: "REVERSE_SEQUENCE", options: fields{reverseSequenceAxis: int32(1)}},
			[]int{2, 4, 3}, []blueTensor{ints1("lengths", 3, 1)}, [][]int{{2, 4, 3}},
			func(_ int, pos []int) []int {
				if n := 3 - 2*pos[0]; pos[1] < n {
					return []int{pos[0], n - 1 - pos[1], pos[2]}
				}
				return pos
			}},
		{"MATRIX_DIAG", blueOp{code: "MATRIX_DIAG"}, []int{2, 3}, nil, [][]int{{2, 3, 3}},
			func(_ int, pos []int) []int {
				if pos[1] != pos[2] {
					return nil
				}
				return pos[:2]
			}},
		unstack(0, []int{3, 4}, 2), unstack(1, []int{2, 4}, 3), unstack(2, []int{2, 3}, 4),
		{"PACK", blueOp{code: "PACK", inputs: []int{0, 0, 0}, options: fields{packAxis: int32(-1)}}, []int{2, 3}, nil,
			[][]int{{2, 3, 3}}, func(_ int, pos []int) []int { return pos[:2] }},
		{"TILE", blueOp{code: "TILE"}, []int{2, 3}, []blueTensor{ints1("n", 7, 2)}, [][]int{{14, 6}},
			func(_ int, pos []int) []int { return []int{pos[0] % 2, pos[1] % 3} }},
		{"TILE once", blueOp{code: "TILE"}, []int{2, 3}, []blueTensor{ints1("n", 1, 1)}, [][]int{{2, 3}}, identity},
		{"RESIZE_NEAREST_NEIGHBOR", blueOp{code: "RESIZE_NEAREST_NEIGHBOR"}, []int{2, 3, 4, 5},
			[]blueTensor{ints1("s", 9, 8)},
			[][]int{{2, 9, 8, 5}}, func(_ int, pos []int) []int {
				return []int{pos[0], pos[1] / 3, pos[2] / 2, pos[3]}
			}},
		{"SPACE_TO_DEPTH", blueOp{code: "SPACE_TO_DEPTH", options: fields{spaceToDepthBlockSize: int32(2)}},
			[]int{2, 4, 6, 3}, nil, [][]int{{2, 2, 3, 12}}, func(_ int, pos []int) []int {
				return []int{pos[0], 2*pos[1] + pos[3]/6, 2*pos[2] + pos[3]/3%2, pos[3] % 3}
			}},
		{"SPACE_TO_BATCH_ND", blueOp{code: "SPACE_TO_BATCH_ND"}, []int{2, 3, 6, 2},
			[]blueTensor{ints1("block", 2, 3), int32Tensor("pads", []int{2, 2}, 1, 0, 0, 3)},
			[][]int{{12, 2, 3, 2}}, func(_ int, pos []int) []int {
				y, x := 2*pos[1]+pos[0]/2/3-1, 3*pos[2]+pos[0]/2%3
				if y < 0 || x >= 6 {
					return nil
				}
				return []int{pos[0] % 2, y, x, pos[3]}
			}},
		{"BATCH_TO_SPACE_ND", blueOp{code: "BATCH_TO_SPACE_ND"}, []int{12, 2, 3, 2},
			[]blueTensor{ints1("block", 2, 3), int32Tensor("crops", []int{2, 2}, 1, 0, 0, 3)},
			[][]int{{2, 3, 6, 2}}, func(_ int, pos []int) []int {
				y, x := pos[1]+1, pos[2]
				return []int{(y%2*3+x%3)*2 + pos[0], y / 2, x / 3, pos[3]}
			}},
	}
}

// model makes a model of the move, with values of a type and the scale of its input and of its outputs.
func (v move) model(dtype elementType, scales ...float32) blueprint {
	m := single(v.op, v.input, v.constants...)
	m.tensors, m.outputs = m.tensors[:len(m.tensors)-1], nil
	for range v.outputs {
		m.outputs = append(m.outputs, len(m.tensors))
		m.tensors = append(m.tensors, floats(fmt.Sprint("out", len(m.tensors)), nil))
	}
	m.ops[0].outputs = m.outputs
	for i, n := range append([]int{0}, m.outputs...) {
		if t := &m.tensors[n]; dtype != typeFloat32 {
			t.dtype, t.scales, t.zeroPoints = dtype, []float32{scales[min(i, 1)]}, []int64{64}
		}
	}
	return m
}

func (v move) want(input []float32) [][]float32 {
	var out [][]float32
	for o, shape := range v.outputs {
		a := newArray(shape...)
		values := make([]float32, len(a.v))
		pos := make([]int, len(shape))
		for i := range values {
			rest := i
			for d := len(shape) - 1; d >= 0; d-- {
				pos[d], rest = rest%shape[d], rest/shape[d]
			}
			if index := v.source(o, pos); index != nil {
				offset := 0
				for d, p := range index {
					offset = offset*v.input[d] + p
				}
				values[i] = input[offset]
			}
		}
		out = append(out, values)
	}
	return out
}

func TestOperatorsThatMoveElementsPutEachWhereTensorFlowLiteDoes(t *testing.T) {
	for _, v := range moves() {
		t.Run(v.name, func(t *testing.T) {
			input := wave(len(newArray(v.input...).v))
			want := v.want(input)
			for _, c := range []struct {
				dtype  elementType
				scales []float32
			}{
				{typeFloat32, nil}, {typeInt8, []float32{1. / 16, 1. / 16}}, {typeUint8, []float32{1. / 16, 1. / 16}},
				{typeUint8, []float32{1. / 16, 1. / 32}}, // another scale on the way
			} {
				m := v.model(c.dtype, c.scales...)
				got := modeltest.Run(t, openModel(t, save(t, m.bytes())), input)
				require.Len(t, got, len(want))
				for i := range want {
					require.Len(t, got[i], len(want[i]))
					for j, w := range want[i] {
						require.Equal(t, w, got[i][j], "%v: output %d, element %d", c, i, j)
					}
				}
			}
		})
	}
}

package tflite

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// TestWeightsMayBeComputed multiplies an input by the positive ones of its own rows.
func TestWeightsMayBeComputed(t *testing.T) {
	const rows, channels = 3, 4
	input, bias := wave(rows*channels), []float32{0.5, -1, 2}
	for _, dtype := range []elementType{typeFloat32, typeInt8} {
		for _, biased := range []bool{false, true} {
			if biased && dtype != typeFloat32 {
				continue
			}
			t.Run(fmt.Sprint(dtype, biased), func(t *testing.T) {
				m := single(blueOp{code: "RELU"}, []int{rows, channels})
				m.tensors = append(m.tensors, floats("out", nil), floats("b", []int{rows}, bias...))
				op := blueOp{code: "FULLY_CONNECTED", inputs: []int{0, 1}, outputs: []int{2},
					options: fields{fullyConnectedActivation: byte(activationReLU6)}}
				if biased {
					op.inputs = append(op.inputs, 3)
				}
				m.ops, m.outputs = append(m.ops, op), []int{2}
				step := float32(1e-5)
				if dtype == typeInt8 {
					step = 1. / 16
					for i := range 3 {
						t := &m.tensors[i]
						t.dtype, t.scales, t.zeroPoints = dtype, []float32{step}, []int64{0}
					}
				}
				got := modeltest.Run(t, openModel(t, save(t, m.bytes())), input)[0]
				for i := range rows * rows {
					var sum float32
					for k := range channels {
						sum += input[i/rows*channels+k] * max(0, input[i%rows*channels+k])
					}
					if biased {
						sum += bias[i%rows]
					}
					require.InDelta(t, min(max(sum, 0), 6), got[i], float64(step), "number %d", i)
				}
			})
		}
	}
}

func TestAShapeWithoutElementsIsThatOfAScalar(t *testing.T) {
	m := blueprint{
		tensors: []blueTensor{floats("in", []int{2, 3}), typed(floats("shape", nil), typeInt32),
			typed(floats("none", []int{0}), typeInt32), typed(floats("together", nil), typeInt32), floats("out", nil),
			floats("one", []int{}, 7), typed(floats("nothing", nil), typeInt32), floats("scalar", nil)},
		ops: []blueOp{
			{code: "SHAPE", inputs: []int{0}, outputs: []int{1}},
			{code: "BROADCAST_ARGS", inputs: []int{1, 2}, outputs: []int{3}},
			{code: "BROADCAST_TO", inputs: []int{5, 3}, outputs: []int{4}},
			{code: "BROADCAST_ARGS", inputs: []int{2, 2}, outputs: []int{6}},
			{code: "BROADCAST_TO", inputs: []int{5, 6}, outputs: []int{7}},
		},
		inputs: []int{0}, outputs: []int{4, 7},
	}
	got := modeltest.Run(t, openModel(t, save(t, m.bytes())), wave(6))
	require.Equal(t, [][]float32{{7, 7, 7, 7, 7, 7}, {7}}, got)
}

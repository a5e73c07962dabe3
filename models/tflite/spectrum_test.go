package tflite

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// spectrum makes a model of the spectrum of 8 numbers, squeezed, from which ops compute outputs 5 and more.
func spectrum(size []int32, ops ...blueOp) blueprint {
	m := blueprint{
		tensors: []blueTensor{floats("in", []int{1, 8}), int32Tensor("size", []int{2}, size...),
			typed(floats("spectrum", nil), typeComplex64), typed(floats("squeezed", nil), typeComplex64),
			int32Tensor("shape", []int{1}, -1)},
		ops: []blueOp{
			{code: "RFFT2D", inputs: []int{0, 1}, outputs: []int{2}},
			{code: "SQUEEZE", inputs: []int{2}, outputs: []int{3}},
		},
		inputs: []int{0},
	}
	for _, op := range ops {
		op.inputs, op.outputs = []int{3}, []int{len(m.tensors)}
		m.tensors = append(m.tensors, floats("", nil))
		m.ops, m.outputs = append(m.ops, op), append(m.outputs, op.outputs[0])
	}
	return m
}

func TestASpectrumIsComputedBetweenSubgraphs(t *testing.T) {
	m := spectrum([]int32{1, 8}, blueOp{code: "COMPLEX_ABS"}, blueOp{code: "REAL"},
		blueOp{code: "IMAG"},
		blueOp{code: "CAST"})
	input := wave(8)
	got := modeltest.Run(t, openModel(t, save(t, m.bytes())), input)
	for k := range 5 {
		var z complex128
		for i, x := range input {
			z += complex(float64(x), 0) * cmplx.Rect(1, -2*math.Pi*float64(k*i)/8)
		}
		for i, want := range []float64{cmplx.Abs(z), real(z), imag(z), real(z)} {
			require.InDelta(t, want, got[i][k], 1e-5, "output %d, number %d", i, k)
		}
	}
}

func TestComplexNumbersAreRefusedWhereNothingComputesWithThem(t *testing.T) {
	magnitude := blueOp{code: "COMPLEX_ABS"}
	for name, m := range map[string]blueprint{
		"a size that is no power of 2": spectrum([]int32{1, 6}, magnitude),
		"a size that takes all memory": spectrum([]int32{1 << 14, 1 << 14}, magnitude),
		"what is for reals":            spectrum([]int32{1, 8}, blueOp{code: "ABS"}),
		"an output": func() blueprint {
			m := spectrum([]int32{1, 8}, magnitude)
			m.outputs = []int{3}
			return m
		}(),
		"an input": func() blueprint {
			m := spectrum([]int32{1, 8}, magnitude)
			m.tensors[0].dtype = typeComplex64
			return m
		}(),
		"made of reals": {
			tensors: []blueTensor{floats("in", []int{8}), typed(floats("complex", nil), typeComplex64),
				floats("out", nil)},
			ops: []blueOp{{code: "CAST", inputs: []int{0}, outputs: []int{1}},
				{code: "COMPLEX_ABS", inputs: []int{1}, outputs: []int{2}}},
			inputs: []int{0}, outputs: []int{2},
		},
	} {
		_, err := Open(save(t, m.bytes()), nil)
		require.ErrorIs(t, err, ErrUnsupported, name)
	}
}

package tflite

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// TestManyBytesAreLookedUpWhereFewAreComputed computes an operator on many bytes at once, which a table serves, and on
// the same bytes in parts that are too short for one.
func TestManyBytesAreLookedUpWhereFewAreComputed(t *testing.T) {
	const step, zero, parts, length = 1.0 / 8, 5, 6, byteValues / 2
	for _, dtype := range []elementType{typeInt8, typeUint8} {
		constant := func(x float32) []blueTensor {
			return []blueTensor{quantizedTensor("c", dtype, []int{1}, 0, zero, []float32{step}, []float32{x})}
		}
		for _, c := range []struct {
			code      opcode
			out       elementType
			constants []blueTensor
		}{
			{"GREATER", typeBool, constant(0.5)},
			{"NOT_EQUAL", typeBool, constant(0)},
			{"ATAN2", dtype, constant(1.5)},
			{"LOG", dtype, nil},
			{"SIGN", dtype, nil},
		} {
			t.Run(fmt.Sprint(c.code, " of ", dtype), func(t *testing.T) {
				compute := func(input []float32) []float32 {
					m := single(blueOp{code: c.code}, []int{1, len(input)}, c.constants...)
					in, out := &m.tensors[0], &m.tensors[len(m.tensors)-1]
					in.dtype, in.scales, in.zeroPoints = dtype, []float32{step}, []int64{zero}
					if out.dtype = c.out; c.out == dtype {
						out.scales, out.zeroPoints = []float32{step / 2}, []int64{zero + 3}
					}
					return modeltest.Run(t, openModel(t, save(t, m.bytes())), input)[0]
				}
				input, want := make([]float32, parts*length), []float32{}
				for i := range input {
					input[i] = step * (float32(i*7%byteValues) - zero + float32(zeroRange(dtype, 0, 0)))
				}
				for i := range parts {
					want = append(want, compute(input[i*length:][:length])...)
				}
				require.Equal(t, want, compute(input))
			})
		}
	}
}

func TestTheLogarithmOfANegativeByteIsTheLowest(t *testing.T) {
	const step, zero = 1.0 / 8, 5
	for _, elements := range []int{2, byteValues} {
		m := single(blueOp{code: "LOG"}, []int{elements})
		for i := range m.tensors {
			m.tensors[i] = quantizedTensor("t", typeInt8, []int{elements}, 0, zero, []float32{step}, nil)
		}
		input := slices.Repeat([]float32{-1, 1}, elements/2)
		want := slices.Repeat([]float32{step * (-128 - zero), 0}, elements/2)
		require.Equal(t, want, modeltest.Run(t, openModel(t, save(t, m.bytes())), input)[0])
	}
}

// TestBytesAreDividedAsIntegers has quantized numbers: TensorFlow Lite divides what is stored.
func TestBytesAreDividedAsIntegers(t *testing.T) {
	const step, zero = 1.0 / 8, 5
	stored := func(n ...float32) (numbers []float32) {
		for _, n := range n {
			numbers = append(numbers, step*(n-zero))
		}
		return numbers
	}
	for code, want := range map[opcode][]float32{"FLOOR_DIV": stored(-4, 3, 0), "FLOOR_MOD": stored(1, 1, 2)} {
		m := single(blueOp{code: code}, []int{3},
			quantizedTensor("by", typeInt8, []int{}, 0, zero, []float32{step}, stored(3)))
		last := len(m.tensors) - 1
		for _, i := range []int{0, last} {
			m.tensors[i] = quantizedTensor("t", typeInt8, []int{3}, 0, zero, []float32{step}, nil)
		}
		require.Equal(t, want, modeltest.Run(t, openModel(t, save(t, m.bytes())), stored(-11, 10, 2))[0], code)
	}
}

package tflite

import (
	"fmt"
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
			{"FLOOR_DIV", dtype, constant(1.5)},
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

package tflite

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// TestAStrideMayBeLongerThanTheWindow moves windows of all kinds over images, with SAME padding: where the stride is
// longer, there are pixels that no window sees, also at the end.
func TestAStrideMayBeLongerThanTheWindow(t *testing.T) {
	padSame := byte(paddingSame)
	for size := 1; size < 4; size++ {
		kernel, filter := []int{2, 3, size, 2}, []int{1, 3, size, 2}
		pool := func(stride int) fields {
			return fields{pool2D.padding: padSame, pool2D.strideH: int32(3), pool2D.strideW: int32(stride),
				poolFilterHeight: int32(3), poolFilterWidth: int32(size)}
		}
		for stride := 1; stride < 5; stride++ {
			ops := []blueprint{}
			for in := 4; in < 9; in++ {
				image := []int{1, 5, in, 2}
				ops = append(ops,
					single(blueOp{code: "CONV_2D", options: fields{conv2D.padding: padSame, conv2D.strideH: int32(1),
						conv2D.strideW: int32(stride)}}, image, floats("k", kernel, wave(12*size)...)),
					single(blueOp{code: "DEPTHWISE_CONV_2D", options: fields{depthwise2D.padding: padSame,
						depthwise2D.strideH: int32(1), depthwise2D.strideW: int32(stride)}}, image,
						floats("k", filter, wave(6*size)...)),
					single(blueOp{code: "AVERAGE_POOL_2D", options: pool(stride)}, image))
				if stride <= size { // XNNPACK of 2024 has no others
					ops = append(ops, single(blueOp{code: "MAX_POOL_2D", options: pool(stride)}, image))
				}
			}
			for _, m := range ops {
				t.Run(fmt.Sprint(m.ops[0].code, size, stride, m.tensors[0].shape), func(t *testing.T) {
					input := wave(len(newArray(m.tensors[0].shape...).v))
					got := modeltest.Run(t, openModel(t, save(t, m.bytes())), input)
					require.InDeltaSlice(t, interpret(t, m.bytes(), input)[0], got[0], 1e-4)
				})
			}
		}
	}
}

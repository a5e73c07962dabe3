package tflite

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/modeltest"
)

// TestADepthwiseFilterThatIsWidenedIsPackedFromItsContent has one output for each channel, or several, with and without
// a bias.
func TestADepthwiseFilterThatIsWidenedIsPackedFromItsContent(t *testing.T) {
	const channels, size = 4, 3
	for _, multiplier := range []int{1, 3} {
		for inputs := 2; inputs <= 3; inputs++ {
			t.Run(fmt.Sprintf("multiplier %d, %d operands", multiplier, inputs), func(t *testing.T) {
				n := channels * multiplier
				m := single(blueOp{code: "DEPTHWISE_CONV_2D", inputs: []int{0, 2, 3}[:inputs],
					options: fields{depthwise2D.strideH: int32(1), depthwise2D.strideW: int32(1)}},
					[]int{1, 9, 9, channels},
					halves("k", []int{1, size, size, n}, wave(size*size*n)...), floats("wide", nil),
					floats("b", []int{n}, wave(n)...))
				m.ops = append([]blueOp{{code: "DEQUANTIZE", inputs: []int{1}, outputs: []int{2}}}, m.ops...)
				opened := openModel(t, save(t, m.bytes()))
				input := wave(9 * 9 * channels)
				plain := modeltest.Run(t, opened, input)
				path := filepath.Join(t.TempDir(), "d.xpwc")
				for range 2 {
					cache, err := xpwc.Open(path, nil)
					require.NoError(t, err)
					require.Equal(t, plain, modeltest.RunCached(t, opened, cache, opened.DataMap(), input))
					require.NoError(t, cache.Close())
				}
			})
		}
	}
}

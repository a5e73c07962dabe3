package tflite

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/modeltest"
)

func TestSharesPackWhatAWholeLoadLooksUp(t *testing.T) {
	models, err := filepath.Glob(filepath.Join(filepath.Dir(modelPath(t, "selfie_segmentation.tflite")), "*.tflite"))
	require.NoError(t, err)
	require.NotEmpty(t, models)
	for _, path := range models {
		m := openModel(t, path)
		for _, n := range []int{1, 3, 1000} {
			t.Run(fmt.Sprintf("%s in %d", filepath.Base(path), n), func(t *testing.T) {
				modeltest.CheckShares(t, m, n)
			})
		}
	}
}

func TestSharesAreOfAboutTheSameSize(t *testing.T) {
	m := openModel(t, modelPath(t, "pose_landmark_heavy.tflite"))
	all := m.Shares(1)
	require.Len(t, all, 1)
	for _, n := range []int{2, 4} {
		shares := m.Shares(n)
		require.Len(t, shares, n)
		for _, s := range shares {
			require.InDelta(t, all[0].Bytes/int64(n), s.Bytes, float64(all[0].Bytes)/20)
		}
	}
	require.Empty(t, openModel(t, save(t, new(single(blueOp{code: code("ABS")}, []int{2, 3})).bytes())).Shares(2))
}

// Two operators may pack one kernel alike or not, which only a runtime with both can see.
func TestOperatorsOfOneKernelComeIntoOneShare(t *testing.T) {
	one, other := constantOf("b", 4), constantOf("c", 4)
	m := single(blueOp{code: opFullyConnected, inputs: []int{0, 1, 2}}, []int{3, 4}, constantOf("k", 4, 4), one,
		other, constantOf("l", 4, 4))
	last := len(m.tensors) - 1
	for _, inputs := range [][]int{{last, 1, 3}, {last + 1, 1, 2}, {last + 2, 4, 2}} {
		m.tensors = append(m.tensors, m.tensors[last])
		m.tensors[len(m.tensors)-1].name = fmt.Sprint("output ", len(m.tensors))
		m.ops = append(m.ops, blueOp{code: opFullyConnected, inputs: inputs, outputs: []int{len(m.tensors) - 1}})
	}
	m.outputs = []int{len(m.tensors) - 1}
	b := openModel(t, save(t, m.bytes()))
	shares := b.Shares(4)
	require.Len(t, shares, 2)
	require.Len(t, b.plan.weighted()[0].Steps, 3)
	require.EqualValues(t, 4*(4*4+3*4), shares[0].Bytes)

	path := filepath.Join(t.TempDir(), "cache.xpwc")
	packed := modeltest.PackShares(t, b, path, 4)
	require.EqualValues(t, 3, packed.Packed.Entries, "k with b, k with c, l with b")
	warm := modeltest.PackWhole(t, b, path)
	require.Zero(t, warm.Packed)
	require.Zero(t, warm.WrittenBytes)
}

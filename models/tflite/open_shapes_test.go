package tflite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/inference"
)

// TestAModelThatOnlyAnotherShapeSuitsIsLoadedWithIt: sound of one number, from which no window can be cut.
func TestAModelThatOnlyAnotherShapeSuitsIsLoadedWithIt(t *testing.T) {
	m := single(blueOp{code: "SLICE"}, []int{1, 1}, int32Tensor("first", []int{2}, 0, 2),
		int32Tensor("size", []int{2}, 1, 3))
	m.tensors[0].free = []int{1, -1}
	path := save(t, m.bytes())
	_, err := Load(path, "", nil)
	require.ErrorContains(t, err, `the file leaves the shape of input "in" open, [1 -1]: give another`)
	r, err := Load(path, "", &Options{Shapes: [][]int{{1, 6}}, Options: inference.Options{Threads: 1}})
	require.NoError(t, err)
	outputs, err := r.Run(t.Context(), []float32{0, 1, 2, 3, 4, 5})
	require.NoError(t, err)
	require.Equal(t, []float32{2, 3, 4}, outputs[0].Data)
	require.NoError(t, r.Close())
}

// TestASignatureIsLoadedWhereTheFirstHasNoInputs: the first one resets a state, the second takes two rows of sound.
func TestASignatureIsLoadedWhereTheFirstHasNoInputs(t *testing.T) {
	path := filepath.Join("testdata", "signatures", "stream_state.tflite")
	_, err := Load(path, "", nil)
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, `has no inputs, and there is nothing to run; the others are of ["reset" "step"]`)
	r, err := Load(path, "", &Options{Signature: "step"})
	require.NoError(t, err)
	_, err = r.Run(t.Context(), make([]float32, 32))
	require.NoError(t, err)
	require.NoError(t, r.Close())
}

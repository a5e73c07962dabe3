package tflite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/flatbuf"
)

// If the indices depended only on the model's structure, an editor could append buffers to a similar model so that its
// packed file has entries for kernels that no check sees.
func TestAKernelWithoutACheckHasIndicesThatDependOnTheModel(t *testing.T) {
	indices := func(bias float32) (index []uint32) {
		m := single(blueOp{code: "FULLY_CONNECTED"}, []int{1, 4},
			floats("w", []int{2, 4}, 1, 2, 3, 4, 5, 6, 7, 8), floats("b", []int{2}, bias, 1))
		path := filepath.Join(t.TempDir(), "model.tflite")
		require.NoError(t, os.WriteFile(path, m.bytes(), 0o600))
		s, err := NewSkeleton(path, &SkeletonOptions{Minimum: 1})
		require.NoError(t, err)
		defer s.Close()
		require.Len(t, s.Kernels, 1)
		kernel := s.Kernels[0].Buffer
		s.Packed(map[uint64]bool{kernel: true})
		out, err := os.Create(filepath.Join(t.TempDir(), "skeleton.tflite"))
		require.NoError(t, err)
		defer out.Close()
		require.NoError(t, s.Write(out))
		b, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		graph := flatbuf.Root(b, fileIdentifier, ErrMalformed).Tables(modelSubgraphs).Table(0)
		tensors := graph.Tables(subgraphTensors)
		inputs := graph.Tables(subgraphOperators).Table(0).Int32s(operatorInputs)
		for _, i := range inputs[1:3] {
			index = append(index, tensors.Table(int(i)).Uint32(tensorBuffer))
			require.GreaterOrEqual(t, uint64(index[len(index)-1]), s.Buffers(), "none of the model's own")
		}
		return index
	}
	first, second := indices(1), indices(2)
	require.NotEqual(t, first[0], second[0])
	require.NotEqual(t, first[1], second[1])
}

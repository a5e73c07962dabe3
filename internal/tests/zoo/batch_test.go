//go:build cgo

package zoo

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/execution"
	"xpwc/internal/instance"
	"xpwc/models"
	"xpwc/models/tflite"
)

// TestABatchIsComputedAsItsPartsAre gives each model whose file leaves the batch open two inputs at once, the second
// one with its numbers in another order.
func TestABatchIsComputedAsItsPartsAre(t *testing.T) {
	paths, err := filepath.Glob("testdata/tflite/*.tflite")
	require.NoError(t, err)
	batches := 0
	for _, path := range paths {
		if strings.Contains(path, "dynamic_batch") { // its answer is its input's shape
			continue
		}
		single, err := tflite.Open(path, nil)
		require.NoError(t, err, path)
		shapes := make([][]int, len(single.Inputs()))
		for i, v := range single.Inputs() {
			shapes[i] = slices.Clone(v.Shape)
			if len(v.Shape) > 0 {
				shapes[i][0] *= 2
			}
		}
		two, err := tflite.Open(path, &tflite.Options{Shapes: shapes})
		if errors.Is(err, tflite.ErrShape) || errors.Is(err, tflite.ErrMalformed) { // the exporter has written 1 in
			require.NoError(t, single.Close())
			continue
		}
		batches++
		t.Run(strings.TrimSuffix(filepath.Base(path), ".tflite"), func(t *testing.T) {
			require.NoError(t, err)
			inputs := make([][][]byte, 3) // of one, the other, and both
			for i := range shapes {
				b := array(t, fmt.Sprintf("%s.in%d.npy", strings.TrimSuffix(path, ".tflite"), i)).Data
				second := bytes.Clone(b)
				size := single.Inputs()[i].Element().Size()
				for offset := 0; offset+2*size <= len(b); offset += 2 * size {
					copy(second[offset:], b[offset+size:offset+2*size])
					copy(second[offset+size:], b[offset:offset+size])
				}
				inputs[0], inputs[1] = append(inputs[0], b), append(inputs[1], second)
				inputs[2] = append(inputs[2], slices.Concat(b, second))
			}
			a, b, pair := outputs(t, single, inputs[0]), outputs(t, single, inputs[1]), outputs(t, two, inputs[2])
			for i := range pair {
				require.LessOrEqual(t, distance(t, pair[i], slices.Concat(a[i], b[i])), 1e-5, "output %d", i)
			}
		})
		require.NoError(t, single.Close())
		require.NoError(t, two.Close())
	}
	t.Log(batches, "of", len(paths), "models take a batch")
	require.Greater(t, batches, 30)
}

func outputs(t *testing.T, m models.Model, inputs [][]byte) (complete [][]float64) {
	t.Helper()
	e, err := instance.New(m, execution.PackedIn("", nil), 1)
	require.NoError(t, err)
	for i, b := range inputs {
		require.NoError(t, e.Give(i, b))
	}
	_, err = e.Infer()
	require.NoError(t, err)
	for i := range m.Outputs() {
		b, _, err := e.Output(i)
		require.NoError(t, err)
		complete = append(complete, numbers(t, execution.ElementOf(e.Model.Outputs()[i]).Dtype, b))
	}
	require.NoError(t, e.Close())
	return complete
}

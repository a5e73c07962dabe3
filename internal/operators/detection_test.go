package operators

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/fault"
	"xpwc/models"
)

// detected runs a detection of three boxes, the second of which overlaps the first, with scores of two classes after
// the background's.
func detected(t *testing.T, d Detection, height float64) (out []Array, err error) {
	t.Helper()
	boxes := arrayOf(models.Float32, []int{1, 3, 4}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	scores := arrayOf(models.Float32, []int{1, 3, 3}, 1, 0.5, 0.6, 1, 0.7, 0.2, 1, 0.1, 0.3)
	anchors := arrayOf(models.Float32, []int{3, 4}, 0.5, 0.5, height, 1, 0.5, 0.5, 1, 0.9, 2.5, 2.5, 1, 1)
	d.Overlap, d.Scales = 0.5, [4]float64{1, 1, 1, 1}
	err = fault.Try(func() {
		k := Detect(d)([][]int{boxes.Shape, scores.Shape, anchors.Shape})
		for _, shape := range k.Shapes {
			out = append(out, New(models.Float32, shape...))
		}
		k.Run(out, []Array{boxes, scores, anchors})
	})
	return out, err
}

func TestBoxesSuppressOthersByTheirBestClass(t *testing.T) {
	out, err := detected(t, Detection{Most: 3, Classes: 2, PerBox: 2, MinScore: 0.3}, 1)
	require.NoError(t, err)
	require.Equal(t, []float64{0, 1, 1, 0, 0, 0}, out[1].list())
	require.InDeltaSlice(t, []float64{0.7, 0.2, 0.3, 0.1, 0, 0}, out[2].list(), 1e-6)
	require.Equal(t, []float64{2}, out[3].list())
	require.InDeltaSlice(t, []float64{0, 0.05, 1, 0.95}, out[0].list()[:4], 1e-6)
}

func TestBoxesSuppressOthersClassByClass(t *testing.T) {
	out, err := detected(t, Detection{Most: 2, Classes: 2, PerBox: 1, PerClass: 5, ByClass: true, MinScore: 0.25}, 1)
	require.NoError(t, err)
	require.Equal(t, []float64{0, 1}, out[1].list())
	require.InDeltaSlice(t, []float64{0.7, 0.6}, out[2].list(), 1e-6)
	require.Equal(t, []float64{2}, out[3].list())
}

func TestABoxThatEndsBeforeItBeginsIsAnError(t *testing.T) {
	_, err := detected(t, Detection{Most: 1, Classes: 2, PerBox: 1}, -1)
	require.ErrorIs(t, err, ErrBox)
}

func TestDetectionsThatDoNotFitAreRefused(t *testing.T) {
	for name, d := range map[string]Detection{
		"more classes":  {Most: 1, Classes: 4, PerBox: 1},
		"no detections": {Classes: 2, PerBox: 1},
		"too many":      {Most: MostIndices, Classes: 2, PerBox: 2},
		"none a class":  {Most: 1, Classes: 2, PerBox: 1, ByClass: true},
	} {
		_, err := detected(t, d, 1)
		require.Error(t, err, name)
	}
}

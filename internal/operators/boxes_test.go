package operators

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models"
)

func TestBoxesThatOverlapBetterOnesGo(t *testing.T) {
	boxes := arrayOf(models.Float32, []int{6, 4},
		0, 0, 1, 1, // half of it is the next
		1, 0.5, 0, 0, // with its corners in the other order
		2, 2, 3, 3,
		2, 2, 2, 3, // nothing is in it
		0, 0, 1, 1,
		5, 5, 6, 6)
	scores := arrayOf(models.Float32, []int{6}, 0.5, 0.75, 0.25, 0.5, 0.125, 0.0625)
	for name, c := range map[string]struct {
		suppression
		selected, best []float64
		count          int
	}{
		"as far as an overlap": {suppression{Overlap: 0.5, MinScore: 0.1}, []float64{1, 3, 2, 0},
			[]float64{0.75, 0.5, 0.25, 0}, 3},
		"none, and equal ones": {suppression{Overlap: 2, MinScore: 0.1}, []float64{1, 0, 3, 2},
			[]float64{0.75, 0.5, 0.5, 0.25}, 4},
		"none is good enough": {suppression{Overlap: 0.5, MinScore: 1}, []float64{0, 0, 0, 0},
			[]float64{0, 0, 0, 0}, 0},
		"a score that is least": {suppression{Overlap: 0.5, MinScore: 0.5}, []float64{1, 0, 0, 0},
			[]float64{0.75, 0, 0, 0}, 1},
		"lower scores": {suppression{Overlap: 1, MinScore: 0.1, Sigma: 0.5}, []float64{1, 3, 0, 2},
			[]float64{0.75, 0.5, 0.5 * math.Exp(-0.25), 0.25}, 4},
	} {
		selected, best := arrayOf(models.Int32, []int{4}, 9, 9, 9, 9), arrayOf(models.Float32, []int{4}, 9, 9, 9, 9)
		require.Equal(t, c.count, c.suppress(selected, best, boxes, scores), name)
		require.Equal(t, c.selected, selected.list(), name)
		require.InDeltaSlice(t, c.best, best.list(), 1e-6, name)
	}
}

package divide

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryPieceIsInOnePart(t *testing.T) {
	sizes := []int64{7, 0, 100, 3, 3, 50, 49, 1, 0}
	for n := range 12 {
		parts := evenly(sizes, n)
		require.Len(t, parts, min(n, len(sizes)))
		var all []int
		for _, p := range parts {
			require.NotEmpty(t, p)
			require.True(t, slices.IsSorted(p))
			all = append(all, p...)
		}
		slices.Sort(all)
		if n > 0 {
			require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, all)
		}
	}
	require.Empty(t, evenly(nil, 3))
	require.Empty(t, evenly(sizes, -1))
}

func TestPartsAreOfAboutTheSameSize(t *testing.T) {
	require.Equal(t, [][]int{{1, 2}, {0, 3}}, evenly([]int64{10, 9, 8, 6}, 2))
	require.Equal(t, [][]int{{1}, {0, 2, 3}}, evenly([]int64{1, 100, 2, 3}, 2), "the largest comes first")
}

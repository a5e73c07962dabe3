package operators

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models"
)

// movedElements have each size that C moves.
var movedElements = []models.Element{models.Uint8, models.Int16, models.Float32, models.Int64}

// countingArray has the elements 0 to 100, again and again.
func countingArray(e models.Element, shape ...int) Array {
	a := New(e, shape...)
	for i := range product(shape) {
		a.Put(i, float64(i%101))
	}
	return a
}

func TestElementsAreTransferredAsOneByOne(t *testing.T) {
	in := []int{3, 40, 21}
	for _, c := range []struct {
		shape, dst, src []int
		first           int
	}{
		{[]int{3, 40, 21}, []int{840, 21, 1}, []int{840, 21, 1}, 0},          // all of it
		{[]int{3, 21, 40}, []int{840, 40, 1}, []int{840, 1, 21}, 0},          // matrices turned
		{[]int{21, 3, 40}, []int{120, 40, 1}, []int{1, 840, 21}, 0},          // the last dimension first
		{[]int{3, 40, 21}, []int{840, 21, 1}, []int{840, 21, -1}, 20},        // rows reversed
		{[]int{3, 40, 21}, []int{840, 21, 1}, []int{-840, 21, 1}, 1680},      // matrices reversed
		{[]int{3, 20, 7}, []int{140, 7, 1}, []int{840, 42, 3}, 22},           // every second row, every third element
		{[]int{2, 3, 840}, []int{2520, 840, 1}, []int{0, 840, 1}, 0},         // twice
		{[]int{840, 3}, []int{3, 1}, []int{1, 0}, 5},                         // each three times
		{[]int{3, 840}, []int{1, 3}, []int{840, 1}, 0},                       // the last dimension written first
		{[]int{1, 840, 1}, []int{840, 2, 1}, []int{840, 1, 1}, 0},            // with gaps
		{[]int{3, 40, 2}, []int{80, 2, 1}, []int{840, 21, 1}, 4},             // short rows
		{[]int{2, 3, 20, 2}, []int{120, 40, 2, 1}, []int{21, 840, 42, 1}, 0}, // the first dimension inside
	} {
		for _, e := range movedElements {
			t.Run(fmt.Sprint(c.shape, c.src, e), func(t *testing.T) {
				src, dst := countingArray(e, in...), New(e, 6000)
				want := New(e, 6000)
				walk(c.shape, [][]int{c.dst, c.src}, func(_ int, places []int) {
					copy(want.elem(places[0]), src.elem(c.first+places[1]))
				})
				move := newTransfer(c.shape, side{steps: c.dst}, side{first: c.first, steps: c.src})
				move.run(e.Size(), dst.Data, src.Data)
				require.Equal(t, want.Data, dst.Data)
			})
		}
	}
}

func TestPlacesAreTakenWithAndWithoutAPattern(t *testing.T) {
	const rows, columns = 30, 25
	random := func(n, length int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = (i*i*7+3*i)%(length+1) - 1 // some of them are missing
		}
		return out
	}
	for name, places := range map[string][][]int{
		"reversed":    {Every(rows-1, rows, -1), Every(columns-1, columns, -1)},
		"every third": {Every(2, 9, 3), Every(0, 12, 2)},
		"surrounded": {slices.Concat(Every(-1, 2, 0), Every(0, rows, 1)),
			slices.Concat(Every(0, columns, 1), Every(-1, 3, 0))},
		"repeated": {slices.Repeat(Every(0, rows, 1), 3), slices.Repeat(Every(0, columns, 1), 2)},
		"anywhere": {random(300, rows), random(300, columns)},
		"any row":  {random(300, rows), Every(0, columns, 1)},
	} {
		for _, e := range movedElements {
			t.Run(fmt.Sprint(name, e), func(t *testing.T) {
				in, out := countingArray(e, rows, columns), New(e, len(places[0]), len(places[1]))
				take(out, in, places, Number(e, 7).Data)
				for i, y := range places[0] {
					for k, x := range places[1] {
						want := 7.0
						if y >= 0 && x >= 0 {
							want = in.Number(y*columns + x)
						}
						require.Equal(t, want, out.Number(i*len(places[1])+k), "row %d, column %d", i, k)
					}
				}
			})
		}
	}
}

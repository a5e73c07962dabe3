// Package divide divides a model among workers that pack it.
package divide

import (
	"cmp"
	"slices"
)

// evenly divides pieces of the given sizes among n parts, or fewer if there are fewer pieces. The sums are about the
// same: each piece, the largest first, goes to the part that has least (Graham's rule, at most a third above the
// best). A part is its pieces' indices in ascending order. The largest part comes first.
func evenly(sizes []int64, n int) [][]int {
	order := make([]int, len(sizes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[b], sizes[a]) })
	type part struct {
		pieces []int
		sum    int64
	}
	parts := make([]part, max(0, min(n, len(sizes))))
	if len(parts) == 0 {
		return nil
	}
	for i, piece := range order {
		least := &parts[0]
		if i < len(parts) {
			least = &parts[i] // no part stays empty, whatever the sizes
		} else {
			for j := range parts {
				if parts[j].sum < least.sum {
					least = &parts[j]
				}
			}
		}
		least.pieces = append(least.pieces, piece)
		least.sum += sizes[piece]
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.sum, a.sum) })
	out := make([][]int, len(parts))
	for i, p := range parts {
		slices.Sort(p.pieces)
		out[i] = p.pieces
	}
	return out
}

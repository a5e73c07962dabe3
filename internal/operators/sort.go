package operators

import "slices"

// Extremes computes the k largest or smallest numbers along an axis, the largest or the smallest first, and their
// indices. Of equal ones the first comes first. NaN counts as the largest.
func Extremes(axis, k int, largest bool) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		if along(axis, in); k < 1 || k > in[axis] {
			wrong("%d numbers along axis %d of shape %v", k, axis, in)
		}
		shape := replaced(in, axis, k)
		return Kernel{Shapes: [][]int{shape, shape}, Run: func(out, in []Array) {
			line, order := make([]float64, in[0].Shape[axis]), make([]int, in[0].Shape[axis])
			firsts, put := firstsOf(shape, axis), out[0].putter(in[0])
			lines(in[0].Shape, axis, func(n, first, step int) {
				in[0].numbers(line, first, step)
				for i := range order {
					order[i] = i
				}
				slices.SortStableFunc(order, func(a, b int) int {
					if !largest {
						a, b = b, a
					}
					return int(bit(larger(line[b], line[a])) - bit(larger(line[a], line[b])))
				})
				dst := firsts(n)
				for i, index := range order[:k] {
					put(dst+i*step, first+index*step)
					putWhole(out[1].Element, out[1].elem(dst+i*step), int64(index))
				}
			})
		}}
	}
}

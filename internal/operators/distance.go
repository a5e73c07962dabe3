package operators

import (
	"math"
	"slices"
)

// A norm sums up differences to a distance.
type norm struct {
	add    func(sum, difference float64) float64
	finish func(sum float64) float64
}

// normOf returns the norm of a power, which may be 0 or infinite.
func normOf(power float64) norm {
	identity := func(sum float64) float64 { return sum }
	switch {
	case power == 0:
		return norm{func(sum, x float64) float64 { return sum + float64(bit(x != 0)) }, identity}
	case power == 1:
		return norm{func(sum, x float64) float64 { return sum + math.Abs(x) }, identity}
	case power == 2:
		return norm{func(sum, x float64) float64 { return sum + x*x }, math.Sqrt}
	case math.IsInf(power, 1):
		return norm{func(sum, x float64) float64 { return max(sum, math.Abs(x)) }, identity}
	}
	return norm{func(sum, x float64) float64 { return sum + math.Pow(math.Abs(x), power) },
		func(sum float64) float64 { return math.Pow(sum, 1/power) }}
}

func (n norm) distance(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum = n.add(sum, x-b[i])
	}
	return n.finish(sum)
}

// Distances computes the distance of each row of the first input from each row of the second, [..., m, n] of
// [..., m, d] and [..., n, d]: the root of the sum of powers of differences. The power may be 0 or infinite. Dimensions
// before the last two are broadcast.
func Distances(power float64) Operator {
	return func(shapes [][]int) Kernel {
		a, b := shapes[0], shapes[1]
		if len(a) < 2 || len(b) < 2 || a[len(a)-1] != b[len(b)-1] || !(power >= 0) {
			wrong("distances of power %g between shapes %v and %v", power, a, b)
		}
		batch, ok := Broadcast(a[:len(a)-2], b[:len(b)-2])
		if !ok {
			wrong("shapes %v and %v do not go together", a, b)
		}
		m, n, size := a[len(a)-2], b[len(b)-2], a[len(a)-1]
		far := [][]int{steps(a[:len(a)-2], batch), steps(b[:len(b)-2], batch)}
		return computing(append(slices.Clone(batch), m, n), func(out Array, in []Array) {
			norm, x, y, line := normOf(power), make([]float64, size), make([]float64, size), make([]float64, n)
			walk(batch, far, func(i int, places []int) {
				for row := range m {
					in[0].numbers(x, (places[0]*m+row)*size, 1)
					for k := range line {
						in[1].numbers(y, (places[1]*n+k)*size, 1)
						line[k] = norm.distance(x, y)
					}
					out.putNumbers(line, (i*m+row)*n, 1)
				}
			})
		})
	}
}

// PairDistances computes the distances of each row from all rows after it, see [Distances]: [n*(n-1)/2] of [n, d].
func PairDistances(power float64) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		if len(in) != 2 || in[0] < 2 || in[0] > MostIndices || !(power >= 0) {
			wrong("distances of power %g of shape %v", power, in)
		}
		n, size := in[0], in[1]
		return computing([]int{n * (n - 1) / 2}, func(out Array, in []Array) {
			norm, x, y, next := normOf(power), make([]float64, size), make([]float64, size), 0
			for row := range n {
				in[0].numbers(x, row*size, 1)
				for k := row + 1; k < n; k++ {
					in[0].numbers(y, k*size, 1)
					out.Put(next, norm.distance(x, y))
					next++
				}
			}
		})
	}
}

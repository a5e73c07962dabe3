package operators

import (
	"math"
	"slices"
)

// Products multiplies matrices [..., m, k] of the first input by matrices [..., k, n] of the second. The output is
// alpha times the product, plus beta times a third input, if there is one, which is broadcast. Integers are summed as
// integers, other numbers in double precision.
func Products(alpha, beta float64) Operator {
	return func(shapes [][]int) Kernel {
		a, b, rank := shapes[0], shapes[1], len(shapes[0])
		if rank < 2 || len(b) != rank || a[rank-1] != b[rank-2] || !slices.Equal(a[:rank-2], b[:rank-2]) {
			wrong("a product of matrices of shapes %v and %v", a, b)
		}
		size := matrixSize{a[rank-2], a[rank-1], b[rank-1]}
		return products(slices.Concat(a[:rank-1], b[rank-1:]), shapes[2:], size, size.columns, 1, alpha, beta)
	}
}

// Linear multiplies rows [..., k] of the first input by the second, weights of shape [n, k], and adds a third input, if
// there is one. See [Products].
func Linear() Operator {
	return func(shapes [][]int) Kernel {
		x, w, rank := shapes[0], shapes[1], len(shapes[0])
		if rank < 1 || len(w) != 2 || x[rank-1] != w[1] {
			wrong("rows of shape %v with weights of shape %v", x, w)
		}
		size := matrixSize{product(x[:rank-1]), w[1], w[0]}
		return products(slices.Concat(x[:rank-1], w[:1]), shapes[2:], size, 1, size.depth, 1, 1)
	}
}

// A matrixSize is the size of a product: of its first matrix, and how many columns the second has.
type matrixSize struct{ rows, depth, columns int }

// products returns the kernel of products of a size. Neighbours in a column of the second matrix are down elements
// apart, and in a row across.
func products(shape []int, addends [][]int, size matrixSize, down, across int, alpha, beta float64) Kernel {
	for _, addend := range addends {
		if joint, ok := Broadcast(addend, shape); !ok || !slices.Equal(joint, shape) {
			wrong("an addend of shape %v for a product of shape %v", addend, shape)
		}
	}
	return computing(shape, func(out Array, in []Array) {
		batches := product(shape) / (size.rows * size.columns)
		if whole(out.Element) {
			multiply(out, in, size, batches, down, across, Array.integers, Array.putIntegers)
		} else {
			multiply(out, in, size, batches, down, across, Array.numbers, Array.putNumbers)
		}
		if alpha != 1 {
			combine(Product, out, out, Number(out.Element, alpha))
		}
		for _, addend := range in[2:] {
			if beta != 1 {
				scaled := New(out.Element, addend.Shape...)
				combine(Product, scaled, addend, Number(out.Element, beta))
				addend = scaled
			}
			combine(Sum, out, out, addend)
		}
	})
}

// multiply computes the products of some batches of matrices.
func multiply[T int64 | float64](out Array, in []Array, size matrixSize, batches, down, across int,
	read func(a Array, dst []T, first, step int), write func(a Array, src []T, first, step int)) {
	column, row := make([]T, size.rows), make([]T, size.columns)
	sums := make([]T, size.rows*size.columns)
	for batch := range batches {
		a, b := batch*size.rows*size.depth, batch*size.depth*size.columns
		clear(sums)
		for k := range size.depth {
			read(in[0], column, a+k, size.depth)
			read(in[1], row, b+k*down, across)
			for i, x := range column {
				line := sums[i*size.columns:][:len(row)]
				for j, y := range row {
					line[j] += x * y
				}
			}
		}
		write(out, sums, batch*len(sums), 1)
	}
}

// Softmax computes the softmax along an axis.
func Softmax(axis int) Operator {
	return func(shapes [][]int) Kernel {
		along(axis, shapes[0])
		return unary(func(out, in Array) {
			line := make([]float64, in.Shape[axis])
			lines(in.Shape, axis, func(_, first, step int) {
				in.numbers(line, first, step)
				peak, sum := slices.Max(line), 0.0
				for k, x := range line {
					line[k] = math.Exp(x - peak)
					sum += line[k]
				}
				for k := range line {
					line[k] /= sum
				}
				out.putNumbers(line, first, step)
			})
		})(shapes)
	}
}

// LayerNorm normalizes the last dimensions, so many, of the first input: minus their mean, over the root of their
// variance plus epsilon. A scale and a shift of as many elements follow, each if there is one.
func LayerNorm(dims int, epsilon float64, scale, shift bool) Operator {
	return func(shapes [][]int) Kernel {
		x := shapes[0]
		if dims < 1 || dims > len(x) {
			wrong("%d dimensions of %d", dims, len(x))
		}
		n := product(x[len(x)-dims:])
		for _, s := range shapes[1:] {
			if product(s) != n {
				wrong("a scale or shift of shape %v for %d elements", s, n)
			}
		}
		return computing(x, func(out Array, in []Array) {
			line, factors, terms := make([]float64, n), slices.Repeat([]float64{1}, n), make([]float64, n)
			if scale {
				in[1].numbers(factors, 0, 1)
			}
			if shift {
				in[len(in)-1].numbers(terms, 0, 1)
			}
			for first := 0; first < product(x); first += n {
				in[0].numbers(line, first, 1)
				mean, variance := 0.0, 0.0
				for _, v := range line {
					mean += v / float64(n)
				}
				for _, v := range line {
					variance += (v - mean) * (v - mean) / float64(n)
				}
				inverse := 1 / math.Sqrt(variance+epsilon)
				for k, v := range line {
					line[k] = (v-mean)*inverse*factors[k] + terms[k]
				}
				out.putNumbers(line, first, 1)
			}
		})
	}
}

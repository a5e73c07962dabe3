package compute

import (
	"math"

	"xpwc/models"
)

// Arithmetic fills an output with what a function of two integers says of the inputs.
func Arithmetic(of func(a, b int64) int64, out, a, b Array) error {
	together(out, []Array{a, b}, func(i int, at []int) {
		putWhole(out.Element, out.at(i), of(wholeOf(a.Element, a.at(at[0])), wholeOf(b.Element, b.at(at[1]))))
	})
	return nil
}

// ArgMax fills an output with the index along an axis of the largest element, of equal ones the first. A number that is
// none counts as the largest.
func ArgMax(out, in Array, axis int) error {
	outer, length, inner := product(in.Shape[:axis]), in.Shape[axis], product(in.Shape[axis+1:])
	for o := range outer {
		for i := range inner {
			best, at := 0.0, -1
			for k := range length {
				x := numberOf(in.Element, in.at((o*length+k)*inner+i))
				if at < 0 || x > best || x != x && best == best {
					best, at = x, k
				}
			}
			putWhole(out.Element, out.at(o*inner+i), int64(at))
		}
	}
	return nil
}

// Number returns an array of one number.
func Number(e models.Element, x float64) Array {
	a := Array{e, []int{1}, make([]byte, e.Size())}
	putNumber(e, a.Data, x)
	return a
}

// Count fills an output with a first number, and each following one a step further.
func Count(out Array, from, step float64) error {
	for i := range product(out.Shape) {
		putNumber(out.Element, out.at(i), from+float64(i)*step)
	}
	return nil
}

// Apply fills an output with what a function says of each number of the input.
func Apply(of func(x float64) float64, out, in Array) error {
	for i := range product(out.Shape) {
		putNumber(out.Element, out.at(i), of(numberOf(in.Element, in.at(i))))
	}
	return nil
}

// Largest fills an output with the largest number of those that each element stands for, or with the smallest: along
// the dimensions that are 1 in the output's shape, kept, and not in the input's.
func Largest(out, in Array, kept []int, smallest bool) error {
	sign := 1.0
	if smallest {
		sign = -1
	}
	begun := make([]bool, product(out.Shape))
	walk(in.Shape, [][]int{steps(kept, in.Shape)}, func(i int, at []int) {
		x, to := numberOf(in.Element, in.at(i)), out.at(at[0])
		if !begun[at[0]] || sign*x > sign*numberOf(out.Element, to) || x != x {
			begun[at[0]] = true
			putNumber(out.Element, to, x)
		}
	})
	return nil
}

// LogSoftmax fills an output with the logarithm of the softmax along an axis.
func LogSoftmax(out, in Array, axis int) error {
	outer, length, inner := product(in.Shape[:axis]), in.Shape[axis], product(in.Shape[axis+1:])
	for o := range outer {
		for i := range inner {
			at := func(k int) int { return (o*length+k)*inner + i }
			most, sum := math.Inf(-1), 0.0
			for k := range length {
				most = max(most, numberOf(in.Element, in.at(at(k))))
			}
			for k := range length {
				sum += math.Exp(numberOf(in.Element, in.at(at(k))) - most)
			}
			for k := range length {
				putNumber(out.Element, out.at(at(k)), numberOf(in.Element, in.at(at(k)))-most-math.Log(sum))
			}
		}
	}
	return nil
}

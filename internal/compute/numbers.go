package compute

import (
	"math"

	"xpwc/models"
)

// Reduce fills an output with the results for all elements that each stands for, one after the other, each as an
// element of the output: along the dimensions that are 1 in the output's shape, kept, and not in the input's. For [And]
// and [Or] an element is 0 or 1.
func Reduce(o Operation, out, in Array, kept []int) {
	if o.compares {
		in = in.as(models.Bool)
	}
	in = in.as(out.Element)
	begun := make([]bool, product(out.Shape))
	walk(in.Shape, [][]int{steps(kept, in.Shape)}, func(i int, at []int) {
		to := out.at(at[0])
		if begun[at[0]] {
			o.of(out.Element, to, to, in.at(i))
		} else {
			begun[at[0]] = true
			copy(to, in.at(i))
		}
	})
}

// Segments fills each row of an output with the results for the rows of an input whose index it is, or with a number if
// there is none. A negative index is no row's.
func Segments(o Operation, out, in, indices Array, empty float64) {
	all := out.Shape[0]
	size, begun := product(out.Shape[1:]), make([]bool, all)
	for i := range product(out.Shape) {
		out.Put(i, empty)
	}
	for i := range product(indices.Shape) {
		if indices.Whole(i) < 0 {
			continue
		}
		n := indices.Index(i, all)
		for k := range size {
			if to, from := out.at(n*size+k), in.at(i*size+k); begun[n] {
				o.of(out.Element, to, to, from)
			} else {
				copy(to, from)
			}
		}
		begun[n] = true
	}
}

// CumulativeSum fills an output with the sum of all elements along an axis up to each: without that itself if
// exclusive, and from the last one back if reverse.
func CumulativeSum(out, in Array, axis int, exclusive, reverse bool) {
	outer, length, inner := product(in.Shape[:axis]), in.Shape[axis], product(in.Shape[axis+1:])
	sum := make([]byte, in.Element.Size())
	for n := range outer * inner {
		clear(sum)
		for k := range length {
			if reverse {
				k = length - 1 - k
			}
			i := (n/inner*length+k)*inner + n%inner
			if exclusive {
				copy(out.at(i), sum)
			}
			if Sum.of(in.Element, sum, sum, in.at(i)); !exclusive {
				copy(out.at(i), sum)
			}
		}
	}
}

// ArgMax fills an output with the index along an axis of the largest element, of equal ones the first. A number that is
// none counts as the largest. ArgMin is its counterpart.
func ArgMax(out, in Array, axis int) { arg(out, in, axis, 1) }

// ArgMin fills an output with the index of the smallest element, as ArgMax does.
func ArgMin(out, in Array, axis int) { arg(out, in, axis, -1) }

func arg(out, in Array, axis int, sign float64) {
	outer, length, inner := product(in.Shape[:axis]), in.Shape[axis], product(in.Shape[axis+1:])
	for n := range outer * inner {
		best, at := 0.0, -1
		for k := range length {
			x := sign * in.Number((n/inner*length+k)*inner+n%inner)
			if at < 0 || x > best || x != x && best == best {
				best, at = x, k
			}
		}
		putWhole(out.Element, out.at(n), int64(at))
	}
}

// Number returns an array of one number.
func Number(e models.Element, x float64) Array {
	a := Array{e, []int{1}, make([]byte, e.Size())}
	putNumber(e, a.Data, x)
	return a
}

// Count fills an output with a first number, and each following one a step further.
func Count(out Array, from, step float64) {
	for i := range product(out.Shape) {
		out.Put(i, from+float64(i)*step)
	}
}

// Apply fills an output with what a function says of each number of the input.
func Apply(of func(x float64) float64, out, in Array) {
	for i := range product(out.Shape) {
		out.Put(i, of(in.Number(i)))
	}
}

// LogSoftmax fills an output with the logarithm of the softmax along an axis.
func LogSoftmax(out, in Array, axis int) {
	outer, length, inner := product(in.Shape[:axis]), in.Shape[axis], product(in.Shape[axis+1:])
	for o := range outer {
		for i := range inner {
			at := func(k int) int { return (o*length+k)*inner + i }
			most, sum := math.Inf(-1), 0.0
			for k := range length {
				most = max(most, in.Number(at(k)))
			}
			for k := range length {
				sum += math.Exp(in.Number(at(k)) - most)
			}
			for k := range length {
				out.Put(at(k), in.Number(at(k))-most-math.Log(sum))
			}
		}
	}
}

// LocalNormalization fills an output with numbers divided by (bias + alpha * s)^beta, where s is the sum of the squares
// of those that are at most radius away along the last dimension.
func LocalNormalization(out, in Array, radius int, bias, alpha, beta float64) {
	length := in.Shape[len(in.Shape)-1]
	for i := range product(in.Shape) {
		sum, at := 0.0, i%length
		for k := i - min(radius, at); k <= i+min(radius, length-1-at); k++ {
			sum += in.Number(k) * in.Number(k)
		}
		out.Put(i, in.Number(i)*math.Pow(bias+alpha*sum, -beta))
	}
}

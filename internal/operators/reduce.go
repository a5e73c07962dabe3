package operators

import (
	"math"

	"xpwc/models"
)

// Reduce fills an output with the results for all elements that each stands for, one after the other, each as an
// element of the output: along the dimensions that are 1 in the output's shape, kept, and not in the input's. For [And]
// and [Or] an element is 0 or 1.
func Reduce(o Operation, out, in Array, reduced []int) {
	if o.compares {
		in = in.retyped(models.Bool)
	}
	in = in.retyped(out.Element)
	begun := make([]bool, product(out.Shape))
	walk(in.Shape, [][]int{steps(reduced, in.Shape)}, func(i int, pos []int) {
		dst := out.elem(pos[0])
		if begun[pos[0]] {
			o.apply(out.Element, dst, dst, in.elem(i))
		} else {
			begun[pos[0]] = true
			copy(dst, in.elem(i))
		}
	})
}

// Segments fills each row of an output with the results for the rows of an input whose index it is, or with a number if
// there is none. A negative index is no row's.
func Segments(o Operation, out, in, indices Array, empty float64) {
	rows := out.Shape[0]
	size, begun := product(out.Shape[1:]), make([]bool, rows)
	for i := range product(out.Shape) {
		out.Put(i, empty)
	}
	for i := range product(indices.Shape) {
		if indices.Whole(i) < 0 {
			continue
		}
		n := indices.Index(i, rows)
		for k := range size {
			if dst, src := out.elem(n*size+k), in.elem(i*size+k); begun[n] {
				o.apply(out.Element, dst, dst, src)
			} else {
				copy(dst, src)
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
				copy(out.elem(i), sum)
			}
			if Sum.apply(in.Element, sum, sum, in.elem(i)); !exclusive {
				copy(out.elem(i), sum)
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
		best, index := 0.0, -1
		for k := range length {
			x := sign * in.Number((n/inner*length+k)*inner+n%inner)
			if index < 0 || x > best || x != x && best == best {
				best, index = x, k
			}
		}
		putWhole(out.Element, out.elem(n), int64(index))
	}
}

// Number returns an array of one number.
func Number(e models.Element, x float64) Array {
	a := Array{e, []int{1}, make([]byte, e.Size())}
	putNumber(e, a.Data, x)
	return a
}

// Count fills an output with a first number, and each following one a step further.
func Count(out Array, start, step float64) {
	for i := range product(out.Shape) {
		out.Put(i, start+float64(i)*step)
	}
}

// Apply fills an output with what a function says of each number of the input.
func Apply(f func(x float64) float64, out, in Array) {
	for i := range product(out.Shape) {
		out.Put(i, f(in.Number(i)))
	}
}

// LogSoftmax fills an output with the logarithm of the softmax along an axis.
func LogSoftmax(out, in Array, axis int) {
	outer, length, inner := product(in.Shape[:axis]), in.Shape[axis], product(in.Shape[axis+1:])
	for o := range outer {
		for i := range inner {
			index := func(k int) int { return (o*length+k)*inner + i }
			peak, sum := math.Inf(-1), 0.0
			for k := range length {
				peak = max(peak, in.Number(index(k)))
			}
			for k := range length {
				sum += math.Exp(in.Number(index(k)) - peak)
			}
			for k := range length {
				out.Put(index(k), in.Number(index(k))-peak-math.Log(sum))
			}
		}
	}
}

// LocalNormalization fills an output with numbers divided by (bias + alpha * s)^beta, where s is the sum of the squares
// of those that are at most radius away along the last dimension.
func LocalNormalization(out, in Array, radius int, bias, alpha, beta float64) {
	length := in.Shape[len(in.Shape)-1]
	for i := range product(in.Shape) {
		sum, pos := 0.0, i%length
		for k := i - min(radius, pos); k <= i+min(radius, length-1-pos); k++ {
			sum += in.Number(k) * in.Number(k)
		}
		out.Put(i, in.Number(i)*math.Pow(bias+alpha*sum, -beta))
	}
}

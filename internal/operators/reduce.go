package operators

import (
	"math"
	"slices"

	"xpwc/models"
)

// reduction returns the shapes of what an input is reduced to along axes: of the output, and with dimensions of 1.
func reduction(in, axes []int, keep bool) (out, kept []int) {
	kept = slices.Clone(in)
	for _, d := range axes {
		along(d, in)
		kept[d] = 1
	}
	for d, n := range kept {
		if keep || !slices.Contains(axes, d) {
			out = append(out, n)
		}
	}
	return out, kept
}

// Reduce computes an operation on all elements along axes, which are dimensions of 1 then, or none. For [And] and [Or]
// an element is 0 or 1.
func Reduce(o Operation, axes []int, keep bool) Operator {
	return func(shapes [][]int) Kernel {
		out, kept := reduction(shapes[0], axes, keep)
		return Kernel{Shapes: [][]int{out}, Run: func(out, in []Array) { reduce(o, out[0], in[0], kept) }}
	}
}

// Mean computes the mean along axes, which is cut off if it is an integer.
func Mean(axes []int, keep bool) Operator {
	return func(shapes [][]int) Kernel {
		k := Reduce(Sum, axes, keep)(shapes)
		sum, count := k.Run, float64(product(shapes[0])/product(k.Shapes[0]))
		k.Run = func(out, in []Array) {
			sum(out, in)
			combine(Quotient, out[0], out[0], Number(models.Int64, count))
		}
		return k
	}
}

// ArgMax computes the index along an axis of the largest element, of equal ones the first. NaN counts as the largest.
func ArgMax(axis int) Operator { return extreme(axis, 1) }

// ArgMin computes the index along an axis of the smallest element, as [ArgMax] does.
func ArgMin(axis int) Operator { return extreme(axis, -1) }

func extreme(axis int, sign float64) Operator {
	return func(shapes [][]int) Kernel {
		along(axis, shapes[0])
		return Kernel{Shapes: [][]int{replaced(shapes[0], axis)},
			Run: func(out, in []Array) { arg(out[0], in[0], axis, sign) }}
	}
}

// Flat computes an operator of inputs that have one dimension.
func Flat(op Operator) Operator {
	return func(shapes [][]int) Kernel {
		flat := make([][]int, len(shapes))
		for i, shape := range shapes {
			flat[i] = []int{product(shape)}
		}
		k := op(flat)
		run := k.Run
		k.Run = func(out, in []Array) {
			in = slices.Clone(in)
			for i := range in {
				in[i].Shape = flat[i]
			}
			run(out, in)
		}
		return k
	}
}

// TopK computes the k largest numbers along the last dimension, the largest first, and their indices. Of equal ones the
// first comes first.
func TopK(k int) Operator {
	return func(shapes [][]int) Kernel {
		last := len(shapes[0]) - 1
		if last < 0 || k < 1 || k > shapes[0][last] {
			wrong("the largest %d of shape %v", k, shapes[0])
		}
		shape := replaced(shapes[0], last, k)
		return Kernel{Shapes: [][]int{shape, shape}, Run: func(out, in []Array) { topK(out[0], out[1], in[0]) }}
	}
}

// CumulativeSum computes the sum of all elements along an axis up to each: without it if exclusive, and from the last
// one back if reverse.
func CumulativeSum(axis int, exclusive, reverse bool) Operator {
	return func(shapes [][]int) Kernel {
		along(axis, shapes[0])
		return unary(func(out, in Array) {
			cumulativeSum(out, in.retyped(out.Element), axis, exclusive, reverse)
		})(shapes)
	}
}

// Segments computes in each of some rows an operation on the rows of the first input whose index, in the second, it is;
// a row of none has a number, which may be another one for integers. No row is that of a negative index.
func Segments(o Operation, rows int, empty, emptyWhole float64) Operator {
	return func(shapes [][]int) Kernel {
		in, indices := shapes[0], shapes[1]
		n := len(indices)
		if n > len(in) || !slices.Equal(indices, in[:n]) || rows < 1 {
			wrong("rows of %v for indices of shape %v", in, indices)
		}
		shape := append([]int{rows}, in[n:]...)
		return Kernel{Shapes: [][]int{shape}, Run: func(out, in []Array) {
			fill := empty
			if whole(in[0].Element) {
				fill = emptyWhole
			}
			segments(o, out[0], in[0], in[1], fill)
		}}
	}
}

// reduce fills an output with the results for all elements that each stands for, one after the other, each as an
// element of the output: along the dimensions that are 1 in the output's shape, kept, and not in the input's. For [And]
// and [Or] an element is 0 or 1.
func reduce(o Operation, out, in Array, reduced []int) {
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

// segments fills each row of an output with the results for the rows of an input whose index it is, or with a number if
// there is none. A negative index is no row's.
func segments(o Operation, out, in, indices Array, empty float64) {
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

// cumulativeSum fills an output with the sum of all elements along an axis up to each: without that itself if
// exclusive, and from the last one back if reverse.
func cumulativeSum(out, in Array, axis int, exclusive, reverse bool) {
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

// arg fills an output with the index along an axis of the largest element, or with the sign -1 of the smallest.
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

// Count fills an array with a first number, and each following one a step further.
func (a Array) Count(start, step float64) {
	for i := range product(a.Shape) {
		a.Put(i, start+float64(i)*step)
	}
}

// apply fills an output with what a function says of each number of the input.
func apply(f func(x float64) float64, out, in Array) {
	for i := range product(out.Shape) {
		out.Put(i, f(in.Number(i)))
	}
}

// logSoftmax fills an output with the logarithm of the softmax along an axis.
func logSoftmax(out, in Array, axis int) {
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

// localNormalization fills an output with numbers divided by (bias + alpha * s)^beta, where s is the sum of the squares
// of those that are at most radius away along the last dimension.
func localNormalization(out, in Array, radius int, bias, alpha, beta float64) {
	length := in.Shape[len(in.Shape)-1]
	for i := range product(in.Shape) {
		sum, pos := 0.0, i%length
		for k := i - min(radius, pos); k <= i+min(radius, length-1-pos); k++ {
			sum += in.Number(k) * in.Number(k)
		}
		out.Put(i, in.Number(i)*math.Pow(bias+alpha*sum, -beta))
	}
}

// topK fills values with the largest numbers along the input's last dimension, as many as values has there, the
// largest first, and indices with their indices. Of equal ones the first comes first.
func topK(values, indices, in Array) {
	last := len(in.Shape) - 1
	length, k := in.Shape[last], values.Shape[last]
	for o := range product(in.Shape[:last]) {
		row := Every(0, length, 1)
		slices.SortStableFunc(row, func(a, b int) int {
			switch x, y := in.Number(o*length+a), in.Number(o*length+b); {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return 0 // also if one is no number
		})
		for i, index := range row[:k] {
			copy(values.elem(o*k+i), in.elem(o*length+index))
			putWhole(indices.Element, indices.elem(o*k+i), int64(index))
		}
	}
}

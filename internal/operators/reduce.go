package operators

import (
	"math"
	"slices"

	"xpwc/internal/half"
	"xpwc/models"
)

// reduction returns the shape of an input that is reduced along axes, and the same with dimensions of 1.
func reduction(in, axes []int, keep bool) (out, ranked []int) {
	ranked = slices.Clone(in)
	for _, d := range axes {
		along(d, in)
		ranked[d] = 1
	}
	for d, n := range ranked {
		if keep || !slices.Contains(axes, d) {
			out = append(out, n)
		}
	}
	return out, ranked
}

// Reduce computes an operation on all elements along axes, which are dimensions of 1 then, or none. For [And] and [Or]
// an element is 0 or 1.
func Reduce(o Operation, axes []int, keep bool) Operator {
	return func(shapes [][]int) Kernel {
		out, ranked := reduction(shapes[0], axes, keep)
		return computing(out, func(out Array, in []Array) { reduce(o, out, in[0], ranked) })
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
		return computing(replaced(shapes[0], axis), func(out Array, in []Array) { arg(out, in[0], axis, sign) })
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
		return computing(shape, func(out Array, in []Array) {
			fill := empty
			if whole(in[0].Element) {
				fill = emptyWhole
			}
			segments(o, out, in[0], in[1], fill)
		})
	}
}

// reduce fills an output with the results for all elements that each stands for, one after the other, each as an
// element of the output: along the dimensions that are 1 in the shape ranked, and not in the input's. For [And] and
// [Or] an element is 0 or 1.
func reduce(o Operation, out, in Array, ranked []int) {
	if o.compares {
		in = in.retyped(models.Bool)
	}
	in = in.retyped(out.Element)
	begun, wholes, size := make([]bool, product(out.Shape)), whole(out.Element), out.Element.Size()
	var numbers [buffered]float64
	var integers [buffered]int64
	together(in, []Array{in, out.shaped(ranked)}, func(i, n int, places, apart []int) {
		place, step := places[1], apart[1]
		if step != 0 && !begun[place] { // a row of the output, of which all or nothing is begun
			copy(out.Data[place*size:][:n*size], in.Data[i*size:])
			begun[place] = true
			return
		}
		if step != 0 {
			combine(o, Array{out.Element, []int{n}, out.Data[place*size:][:n*size]},
				Array{out.Element, []int{n}, out.Data[place*size:][:n*size]},
				Array{in.Element, []int{n}, in.Data[i*size:][:n*size]})
			return
		}
		if !begun[place] {
			copy(out.elem(place), in.elem(i))
			begun[place] = true
			i, n = i+1, n-1
		}
		if wholes {
			in.integers(integers[:n], i, 1)
			sum := out.Whole(place)
			for _, x := range integers[:n] {
				sum = o.Whole(sum, x)
			}
			putWhole(out.Element, out.elem(place), sum)
			return
		}
		in.numbers(numbers[:n], i, 1)
		sum := out.Number(place)
		for _, x := range numbers[:n] {
			sum = rounded(out.Element, o.Number(sum, x))
		}
		out.Put(place, sum)
	})
}

// rounded returns what a number is as an element.
func rounded(e models.Element, x float64) float64 {
	switch e {
	case models.Float32:
		return float64(float32(x))
	case models.Float16:
		return half.Float64(half.Bits(x))
	}
	return x
}

// lines calls do for each line of a shape along an axis, with its number, its first element, and their distance.
func lines(shape []int, axis int, do func(line, first, step int)) {
	outer, length, inner := product(shape[:axis]), shape[axis], product(shape[axis+1:])
	for n := range outer * inner {
		do(n, n/inner*length*inner+n%inner, inner)
	}
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

// cumulativeSum fills an output with the sum of all elements along an axis up to each, see [CumulativeSum].
func cumulativeSum(out, in Array, axis int, exclusive, reverse bool) {
	numbers, integers := make([]float64, in.Shape[axis]), make([]int64, in.Shape[axis])
	lines(in.Shape, axis, func(_, first, step int) {
		if whole(in.Element) {
			in.integers(integers, first, step)
			sumUp(in.Element, integers, exclusive, reverse)
			out.putIntegers(integers, first, step)
			return
		}
		in.numbers(numbers, first, step)
		sumUp(in.Element, numbers, exclusive, reverse)
		out.putNumbers(numbers, first, step)
	})
}

func sumUp[N int64 | float64](e models.Element, line []N, exclusive, reverse bool) {
	if reverse {
		slices.Reverse(line)
		defer slices.Reverse(line)
	}
	var sum N
	for i, x := range line {
		next := sum + x
		if !whole(e) {
			next = N(rounded(e, float64(next)))
		}
		if line[i] = next; exclusive {
			line[i] = sum
		}
		sum = next
	}
}

// arg fills an output with the index along an axis of the largest element, or with the sign -1 of the smallest.
func arg(out, in Array, axis int, sign float64) {
	line := make([]float64, in.Shape[axis])
	lines(in.Shape, axis, func(n, first, step int) {
		in.numbers(line, first, step)
		best, index := sign*line[0], 0
		for k, x := range line[1:] {
			if x *= sign; x > best || x != x && best == best {
				best, index = x, k+1
			}
		}
		putWhole(out.Element, out.elem(n), int64(index))
	})
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

// apply fills an output with the results of a function for each number of the input.
func apply(f func(x float64) float64, out, in Array) {
	var numbers [buffered]float64
	together(out, []Array{in.shaped(out.Shape)}, func(i, n int, _, _ []int) {
		in.numbers(numbers[:n], i, 1)
		for k, x := range numbers[:n] {
			numbers[k] = f(x)
		}
		out.putNumbers(numbers[:n], i, 1)
	})
}

// logSoftmax fills an output with the logarithm of the softmax along an axis.
func logSoftmax(out, in Array, axis int) {
	line := make([]float64, in.Shape[axis])
	lines(in.Shape, axis, func(_, first, step int) {
		in.numbers(line, first, step)
		peak, sum := math.Inf(-1), 0.0
		for _, x := range line {
			peak = max(peak, x)
		}
		for _, x := range line {
			sum += math.Exp(x - peak)
		}
		logarithm := math.Log(sum)
		for k, x := range line {
			line[k] = x - peak - logarithm
		}
		out.putNumbers(line, first, step)
	})
}

// localNormalization fills an output with numbers divided by (bias + alpha * s)^beta, where s is the sum of the squares
// of the numbers that are at most radius away along the last dimension.
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
// largest first, and indices with their indices. Of equal ones the first comes first. NaN counts as the largest.
func topK(values, indices, in Array) {
	last := len(in.Shape) - 1
	k := values.Shape[last]
	line, best := make([]float64, in.Shape[last]), make([]int, 0, k+1)
	lines(in.Shape, last, func(n, first, step int) {
		in.numbers(line, first, step)
		best = best[:0]
		for i, x := range line {
			if len(best) == k && !larger(x, line[best[k-1]]) {
				continue
			}
			place, _ := slices.BinarySearchFunc(best, x, func(i int, x float64) int {
				if larger(x, line[i]) {
					return 1
				}
				return -1
			})
			best = slices.Insert(best, place, i)
			best = best[:min(len(best), k)]
		}
		for i, index := range best {
			copy(values.elem(n*k+i), in.elem(first+index))
			putWhole(indices.Element, indices.elem(n*k+i), int64(index))
		}
	})
}

// larger reports whether x comes before y.
func larger(x, y float64) bool { return x > y || x != x && y == y }

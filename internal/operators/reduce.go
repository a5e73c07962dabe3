package operators

import (
	"bytes"
	"encoding/binary"
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
func ArgMax(axis int) Operator { return extreme(axis, false) }

// ArgMin computes the index along an axis of the smallest element, as [ArgMax] does.
func ArgMin(axis int) Operator { return extreme(axis, true) }

func extreme(axis int, smallest bool) Operator {
	return func(shapes [][]int) Kernel {
		along(axis, shapes[0])
		return computing(replaced(shapes[0], axis), func(out Array, in []Array) { arg(out, in[0], axis, smallest) })
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
// element of the output, in single precision if that has 16 bits: along the dimensions that are 1 in the shape ranked,
// and not in the input's. For [And] and [Or] an element is 0 or 1.
func reduce(o Operation, out, in Array, ranked []int) {
	if o.compares {
		reduceTruths(o, out, in.retyped(models.Bool), ranked)
		return
	}
	if e := out.Element; e == models.Float16 || e == models.BFloat16 { // partial results would be rounded
		wide := New(models.Float32, out.Shape...)
		reduce(o, wide, in, ranked)
		cast(out, wide)
		return
	}
	in = in.retyped(out.Element)
	if foldRows(o.loop, out, in, ranked) {
		return
	}
	begun, size := make([]bool, product(out.Shape)), out.Element.Size()
	walk(in.Shape, [][]int{steps(ranked, in.Shape)}, func(i int, places []int) {
		dst := out.elem(places[0])
		if begun[places[0]] {
			o.apply(out.Element, dst, dst, in.elem(i))
		} else {
			begun[places[0]] = copy(dst, in.elem(i)) == size
		}
	})
}

// addRows adds a row to another.
func addRows[T number](dst, src []T) {
	for i, x := range src {
		dst[i] += x
	}
}

// reduceTruths reduces booleans by [And] or [Or].
func reduceTruths(o Operation, out, in Array, ranked []int) {
	truths := out
	if out.Element != models.Bool {
		truths = New(models.Bool, out.Shape...)
	}
	if !foldBlocks(o.loop, truths, in, ranked) {
		decideTruths(o, truths, in, ranked)
	}
	if out.Element != models.Bool {
		cast(out, truths)
	}
}

// decideTruths reduces booleans by [And] or [Or], as far as the result is open.
func decideTruths(o Operation, truths, in Array, ranked []int) {
	ends := o.Whole(0, 1) // a boolean that decides: 1 for Or, 0 for And
	repeat(truths.Data, []byte{byte(1 - ends)})
	open := len(truths.Data)
	rows(in.Shape, [][]int{steps(ranked, in.Shape)}, func(i, n int, offsets, apart []int) {
		src, dst := in.Data[i:][:n], truths.Data[offsets[0]:]
		switch {
		case open == 0:
		case apart[0] == 0:
			if dst[0] != byte(ends) && decided(src, ends != 0) {
				dst[0] = byte(ends)
				open--
			}
		default:
			for k, x := range src {
				if dst[k] != byte(ends) && (x != 0) == (ends != 0) {
					dst[k] = byte(ends)
					open--
				}
			}
		}
	})
}

// decided reports whether any of some booleans is true, or false.
func decided(truths []byte, value bool) bool {
	if !value {
		return bytes.IndexByte(truths, 0) >= 0
	}
	for ; len(truths) >= 8; truths = truths[8:] {
		if binary.LittleEndian.Uint64(truths) != 0 {
			return true
		}
	}
	for _, x := range truths {
		if x != 0 {
			return true
		}
	}
	return false
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
	if sum, ok := cumulativeSums.forElement(out.Element); ok {
		sum(out, in, axis, exclusive, reverse)
		return
	}
	// Numbers of 16 bits are rounded at each step.
	rounded := func(x float64) float64 { return half.Float64(half.Bits(x)) }
	if out.Element == models.BFloat16 {
		rounded = func(x float64) float64 { return half.Brain(half.BrainBits(x)) }
	}
	wide := New(models.Float32, out.Shape...)
	src, sums := inputOf[float32](in.retyped(models.Float32)), inputOf[float32](wide)
	lines(in.Shape, axis, func(_, first, step int) {
		sum := 0.0
		for k := range in.Shape[axis] {
			if reverse {
				k = in.Shape[axis] - 1 - k
			}
			place := first + k*step
			next := rounded(sum + float64(src[place]))
			if exclusive {
				sums[place] = float32(sum)
			} else {
				sums[place] = float32(next)
			}
			sum = next
		}
	})
	cast(out, wide)
}

var cumulativeSums = typed[func(out, in Array, axis int, exclusive, reverse bool)]{cumulativeSumsOf[int8],
	cumulativeSumsOf[uint8], cumulativeSumsOf[int16], cumulativeSumsOf[int32], cumulativeSumsOf[int64],
	cumulativeSumsOf[float32], cumulativeSumsOf[float64]}

func cumulativeSumsOf[T number](out, in Array, axis int, exclusive, reverse bool) {
	dst, done := outputOf[T](out)
	defer done()
	src, length, inner := inputOf[T](in), in.Shape[axis], product(in.Shape[axis+1:])
	size := length * inner
	if inner == 1 && !exclusive && !reverse {
		const lines = 4 // at the same time, for the additions of one wait for each other
		for ; len(dst) >= lines*size; dst, src = dst[lines*size:], src[lines*size:] {
			sumFourLines(dst, src, size)
		}
	}
	for ; len(dst) > 0; dst, src = dst[size:], src[size:] {
		sums := make([]T, inner)
		for k := range length {
			if reverse {
				k = length - 1 - k
			}
			sumRows(dst[k*inner:][:inner], src[k*inner:][:inner], sums, exclusive)
		}
	}
}

func sumFourLines[T number](dst, src []T, n int) {
	a, b, c, d := src[:n], src[n:][:n], src[2*n:][:n], src[3*n:][:n]
	p, q, r, s := dst[:n], dst[n:][:n], dst[2*n:][:n], dst[3*n:][:n]
	var sa, sb, sc, sd T
	for i := range n {
		sa += a[i]
		sb += b[i]
		sc += c[i]
		sd += d[i]
		p[i], q[i], r[i], s[i] = sa, sb, sc, sd
	}
}

// sumRows adds a row to the sums so far, which are the result, or were before if exclusive.
func sumRows[T number](dst, src, sums []T, exclusive bool) {
	dst, sums = dst[:len(src)], sums[:len(src)]
	if exclusive {
		for i, x := range src {
			dst[i], sums[i] = sums[i], sums[i]+x
		}
		return
	}
	for i, x := range src {
		sums[i] += x
		dst[i] = sums[i]
	}
}

// extremes compute the index along an axis of the largest element, or of the smallest.
var extremes = typed[func(indices []int64, in Array, axis int, smallest bool)]{extremesOf[int8], extremesOf[uint8],
	extremesOf[int16], extremesOf[int32], extremesOf[int64], extremesOf[float32], extremesOf[float64]}

func extremesOf[T number](indices []int64, in Array, axis int, smallest bool) {
	if product(in.Shape[axis+1:]) == 1 && extremesOfRows[T](indices, in, axis, smallest) {
		return
	}
	src, length, inner := inputOf[T](in), in.Shape[axis], product(in.Shape[axis+1:])
	best := make([]T, inner)
	for outer := range product(in.Shape[:axis]) {
		dst, rows := indices[outer*inner:][:inner], src[outer*length*inner:][:length*inner]
		switch {
		case inner == 1 && smallest:
			dst[0] = indexOfMin(rows)
		case inner == 1:
			dst[0] = indexOfMax(rows)
		default:
			copy(best, rows)
			for k := 1; k < length; k++ {
				if row := rows[k*inner:][:inner]; smallest {
					minIndices(best, dst, row, int64(k))
				} else {
					maxIndices(best, dst, row, int64(k))
				}
			}
		}
	}
}

// extremesOfRows looks for the extreme of each row, and then for its first place. It returns false if C has no such
// loop.
func extremesOfRows[T number](indices []int64, in Array, axis int, smallest bool) bool {
	l := loopMaximum
	if smallest {
		l = loopMinimum
	}
	out, ranked := reduction(in.Shape, []int{axis}, true)
	peaks := New(in.Element, out...)
	if !foldRows(l, peaks, in, ranked) {
		return false
	}
	src, length := inputOf[T](in), in.Shape[axis]
	for i, peak := range inputOf[T](peaks) {
		row := src[i*length:][:length]
		if peak == peak {
			indices[i] = int64(slices.Index(row, peak))
		} else {
			indices[i] = int64(slices.IndexFunc(row, func(x T) bool { return x != x }))
		}
	}
	return true
}

func indexOfMax[T number](row []T) (index int64) {
	best := row[0]
	for k, x := range row {
		if best != best {
			break
		}
		if !(x <= best) {
			best, index = x, int64(k)
		}
	}
	return index
}

func indexOfMin[T number](row []T) (index int64) {
	best := row[0]
	for k, x := range row {
		if best != best {
			break
		}
		if !(x >= best) {
			best, index = x, int64(k)
		}
	}
	return index
}

func maxIndices[T number](best []T, indices []int64, row []T, k int64) {
	indices = indices[:len(row)]
	for i, x := range row {
		if y := best[i]; !(x <= y) && y == y {
			best[i], indices[i] = x, k
		}
	}
}

func minIndices[T number](best []T, indices []int64, row []T, k int64) {
	indices = indices[:len(row)]
	for i, x := range row {
		if y := best[i]; !(x >= y) && y == y {
			best[i], indices[i] = x, k
		}
	}
}

// arg fills an output with the index along an axis of the largest element, or of the smallest.
func arg(out, in Array, axis int, smallest bool) {
	in = in.comparable()
	indices := make([]int64, product(out.Shape))
	compute, _ := extremes.forElement(in.Element)
	compute(indices, in, axis, smallest)
	out.putIntegers(indices, 0, 1)
}

// comparable returns an array whose elements Go compares as they are: those of 16 bits in single precision, and
// booleans as bytes.
func (a Array) comparable() Array {
	switch a.Element {
	case models.Float16, models.BFloat16:
		return a.retyped(models.Float32)
	case models.Bool:
		return a.retyped(models.Uint8)
	}
	return a
}

// Number returns an array of one number.
func Number(e models.Element, x float64) Array {
	a := Array{e, []int{1}, make([]byte, e.Size())}
	putNumber(e, a.Data, x)
	return a
}

// Count fills an array with a first number, and each following one a step further.
func (a Array) Count(start, step float64) {
	if step == 0 {
		first := Number(a.Element, start)
		repeat(a.Data, first.Data)
		return
	}
	if a.Element == models.Float32 {
		dst, done := outputOf[float32](a)
		for i := range dst {
			dst[i] = float32(start + float64(i)*step)
		}
		done()
		return
	}
	var numbers [buffered]float64
	for first, n := 0, product(a.Shape); first < n; first += buffered {
		part := numbers[:min(n-first, buffered)]
		for k := range part {
			part[k] = start + float64(first+k)*step
		}
		a.putNumbers(part, first, 1)
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
	if in.Element == models.Float16 {
		inSinglePrecision(out, func(out Array) { logSoftmax(out, in.retyped(models.Float32), axis) })
		return
	}
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
	if in.Element == models.Float32 && beta == 0.5 {
		divideByRoots(out, in, radius, bias, alpha)
		return
	}
	line, sums, divided := make([]float64, length), make([]float64, length+1), make([]float64, length)
	for first := range product(in.Shape) / length {
		in.numbers(line, first*length, 1)
		for i, x := range line {
			sums[i+1] = sums[i] + x*x
		}
		for i, x := range line {
			sum := sums[min(i+radius+1, length)] - sums[max(i-radius, 0)]
			switch base := bias + alpha*sum; beta {
			case 0.75:
				divided[i] = x / math.Sqrt(base*math.Sqrt(base))
			default:
				divided[i] = x * math.Pow(base, -beta)
			}
		}
		out.putNumbers(divided, first*length, 1)
	}
}

// divideByRoots is [localNormalization] in single precision with a beta of 1/2.
func divideByRoots(out, in Array, radius int, bias, alpha float64) {
	dst, done := outputOf[float32](out)
	defer done()
	length := in.Shape[len(in.Shape)-1]
	sums := make([]float64, length+1)
	for src := inputOf[float32](in); len(src) > 0; dst, src = dst[length:], src[length:] {
		for i, x := range src[:length] {
			sums[i+1] = sums[i] + float64(x)*float64(x)
		}
		for i, x := range src[:length] {
			sum := sums[min(i+radius+1, length)] - sums[max(i-radius, 0)]
			dst[i] = x / float32(math.Sqrt(float64(float32(bias+alpha*sum))))
		}
	}
}

// topK fills values with the largest numbers along the input's last dimension, as many as values has there, the
// largest first, and indices with their indices. Of equal ones the first comes first. NaN counts as the largest.
func topK(values, indices, in Array) {
	last := len(in.Shape) - 1
	k, length := values.Shape[last], in.Shape[last]
	ranked := in.comparable()
	rank, _ := ranks.forElement(ranked.Element)
	best := make([]int64, product(values.Shape))
	rank(best, ranked, k)
	indices.putIntegers(best, 0, 1)
	for i, index := range best {
		copy(values.elem(i), in.elem(i/k*length+int(index)))
	}
}

// ranks find the indices of the largest elements of each row.
var ranks = typed[func(best []int64, in Array, k int)]{ranksOf[int8], ranksOf[uint8], ranksOf[int16], ranksOf[int32],
	ranksOf[int64], ranksOfFloats, ranksOf[float64]}

// ranksOfFloats sorts one integer for each element: above its order, reversed, and below its index.
func ranksOfFloats(best []int64, in Array, k int) {
	if k <= mostInserted {
		ranksOf[float32](best, in, k)
		return
	}
	length := in.Shape[len(in.Shape)-1]
	keys := make([]uint64, length)
	for src := inputOf[float32](in); len(best) > 0; best, src = best[k:], src[length:] {
		for i, x := range src[:length] {
			order := math.Float32bits(x + 0) // -0 is 0
			switch {
			case x != x:
				order = 0
			case order>>31 == 0:
				order = ^order &^ (1 << 31)
			}
			keys[i] = uint64(order)<<32 | uint64(i)
		}
		slices.Sort(keys)
		for i := range k {
			best[i] = int64(uint32(keys[i]))
		}
	}
}

// mostInserted is how many of the largest elements are kept in order while a row is read. Of more, the row is sorted.
const mostInserted = 64

func ranksOf[T number](best []int64, in Array, k int) {
	length := in.Shape[len(in.Shape)-1]
	src, row := inputOf[T](in), make([]ranked[T], 0, length)
	for ; len(best) > 0; best, src = best[k:], src[length:] {
		row = row[:0]
		if k <= mostInserted {
			row = largestOf(row, src[:length], k)
		} else {
			for i, x := range src[:length] {
				row = append(row, ranked[T]{x, int64(i)})
			}
			slices.SortFunc(row, func(a, b ranked[T]) int {
				switch {
				case larger(a.number, b.number):
					return -1
				case larger(b.number, a.number):
					return 1
				}
				return int(a.index - b.index)
			})
		}
		for i := range k {
			best[i] = row[i].index
		}
	}
}

// ranked is a number of a row with its index.
type ranked[T number] struct {
	number T
	index  int64
}

// largestOf inserts numbers into a list of the k largest so far, the largest first.
func largestOf[T number](list []ranked[T], row []T, k int) []ranked[T] {
	for i, x := range row {
		place := len(list)
		if place == k {
			if least := list[k-1].number; x <= least || !larger(x, least) {
				continue
			}
			place--
		} else {
			list = list[:place+1]
		}
		for ; place > 0 && larger(x, list[place-1].number); place-- {
			list[place] = list[place-1]
		}
		list[place] = ranked[T]{x, int64(i)}
	}
	return list
}

// larger reports whether x comes before y.
func larger[T number](x, y T) bool { return x > y || x != x && y == y }

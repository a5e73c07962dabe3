package operators

import (
	"slices"

	"xpwc/models"
)

// A loop is an operation that C computes for a whole row: loops.h has the same list. Go's compiler makes no vector
// instructions, and the standard library has the functions of double precision only.
type loop uint8

// The loops.
const (
	noLoop loop = iota
	loopEqual
	loopNotEqual
	loopLess
	loopLessOrEqual
	loopGreater
	loopGreaterOrEqual
	loopAnd
	loopOr
	loopXor
	loopAdd
	loopSubtract
	loopMultiply
	loopMaximum
	loopMinimum
	loopDivide
	loopRemainder
	loopFloorRemainder
	loopFloorQuotient
	loopTruncatedQuotient
	loopPower
	loopArcTangent2
	loopArcCosine
	loopAreaCosine
	loopArcSine
	loopAreaSine
	loopArcTangent
	loopAreaTangent
	loopHyperbolicCosine
	loopHyperbolicSine
	loopTangent
	loopErrorFunction
	loopExponentialLess1
	loopLogarithm10
	loopLogarithm1More
	loopLogarithm2
	loopTruncate
	loopSign
	loopAbsolute
	loopNegate
	loopNot
)

// result returns the type of the loop's results for elements of a type.
func (l loop) result(e models.Element) models.Element {
	if l >= loopEqual && l <= loopGreaterOrEqual {
		return models.Bool
	}
	return e
}

// combineRows fills an output with the results of a loop for two inputs that are broadcast to it. It returns false if
// there is no loop for the elements.
func combineRows(l loop, out, a, b Array) bool {
	if l == noLoop || a.Element != b.Element || out.Element != l.result(a.Element) || !inPlace(out, a, b) ||
		!combineRow(l, a.Element, nil, nil, 1, nil, 1, 0) {
		return false
	}
	dst, src := out.Element.Size(), a.Element.Size()
	operands := [][]int{steps(a.Shape, out.Shape), steps(b.Shape, out.Shape)}
	rows(out.Shape, operands, func(i, n int, offsets, apart []int) {
		x, y := a.Data[offsets[0]*src:], b.Data[offsets[1]*src:]
		combineRow(l, a.Element, out.Data[i*dst:], x, apart[0], y, apart[1], n)
	})
	return true
}

// foldRows reduces an input to an output, see [reduce]. It returns false if there is no loop for the elements.
func foldRows(l loop, out, in Array, ranked []int) bool {
	if l == noLoop || !inPlace(out, in) || !foldRow(l, in.Element, make([]byte, in.Element.Size()), 1, nil, 0) {
		return false
	}
	size, count := in.Element.Size(), product(out.Shape)
	if l == loopMaximum || l == loopMinimum {
		if n, ok := rowLength(in.Shape, ranked); ok { // an extreme of a row may begin with any of its elements
			for i := range count {
				copy(out.elem(i), in.elem(i*n))
			}
			return foldRow(l, in.Element, out.Data, count, in.Data, n)
		}
	}
	_, n, inner, ok := foldedBlock(in.Shape, ranked)
	if ok && inner == 1 && l == loopAdd && whole(in.Element) { // a sum of floats depends on their order
		clear(out.Data)
		return foldRow(l, in.Element, out.Data, count, in.Data, n)
	}
	if foldBlocks(l, out, in, ranked) {
		return true
	}
	begun := make([]bool, count)
	rows(in.Shape, [][]int{steps(ranked, in.Shape)}, func(i, n int, offsets, apart []int) {
		place, src := offsets[0], in.Data[i*size:][:n*size]
		dst, first := out.Data[place*size:], !begun[place]
		begun[place] = true
		switch {
		case apart[0] == 0 && first:
			copy(dst[:size], src)
			foldRow(l, in.Element, dst, 1, src[size:], n-1)
		case apart[0] == 0:
			foldRow(l, in.Element, dst, 1, src, n)
		case first:
			copy(dst, src)
		default:
			combineRow(l, in.Element, dst, dst, 1, src, 1, n)
		}
	})
	return true
}

// foldBlocks reduces columns of blocks, see [foldedBlock]. It returns false if they are none, or there is no loop.
func foldBlocks(l loop, out, in Array, ranked []int) bool {
	outer, n, inner, ok := foldedBlock(in.Shape, ranked)
	if !ok || inner <= 1 || !inPlace(out, in) {
		return false
	}
	size := in.Element.Size()
	for o := range outer {
		src, dst := in.Data[o*n*inner*size:][:n*inner*size], out.Data[o*inner*size:][:inner*size]
		row := copy(dst, src)
		if !foldColumns(l, in.Element, dst, n-1, src[row:], inner) {
			return false
		}
	}
	return true
}

// rowLength returns how many elements are reduced to one, if they are a row: the dimensions that are reduced come last.
func rowLength(shape, ranked []int) (n int, ok bool) {
	n = 1
	for d := len(shape) - 1; d >= 0; d-- {
		switch reduced := ranked[d] != shape[d]; {
		case reduced && n != product(shape[d+1:]):
			return 0, false
		case reduced:
			n *= shape[d]
		}
	}
	return n, true
}

// foldedBlock returns how many elements are reduced to one, and how many dimensions multiply to before and after them,
// if the dimensions that are reduced follow each other.
func foldedBlock(shape, ranked []int) (outer, n, inner int, ok bool) {
	outer, n, inner = 1, 1, 1
	for d, length := range shape {
		switch reduced := ranked[d] != length; {
		case reduced && inner > 1:
			return 0, 0, 0, false
		case reduced:
			n *= length
		case n > 1:
			inner *= length
		default:
			outer *= length
		}
	}
	return outer, n, inner, true
}

// selectRows fills an output with elements of a where the condition is not 0, and of b elsewhere. All three have the
// same type.
func selectRows(out, condition, a, b Array) {
	size, looped := out.Element.Size(), inPlace(out, a, b)
	strides := [][]int{steps(condition.Shape, out.Shape), steps(a.Shape, out.Shape), steps(b.Shape, out.Shape)}
	var buffer [buffered]byte
	rows(out.Shape, strides, func(i, n int, offsets, apart []int) {
		dst, x, y := out.Data[i*size:][:n*size], a.Data[offsets[1]*size:], b.Data[offsets[2]*size:]
		if apart[0] == 0 {
			if condition.Number(offsets[0]) == 0 {
				x, apart = y, slices.Delete(slices.Clone(apart), 1, 2)
			}
			fill(dst, x, apart[1]*size, size)
			return
		}
		for first := 0; first < n; {
			flags := condition.flags(buffer[:], offsets[0]+first, n-first)
			part, x, y := len(flags), x[first*apart[1]*size:], y[first*apart[2]*size:]
			if !looped || !selectRow(size, dst[first*size:], flags, x, apart[1], y, apart[2], part) {
				selectElements(size, dst[first*size:], flags, x, apart[1], y, apart[2])
			}
			first += part
		}
	})
}

// fill fills memory with elements of so many bytes that are a step apart: each the same, or one after the other.
func fill(dst, src []byte, step, size int) {
	if step == 0 {
		repeat(dst, src[:size])
	} else {
		copy(dst, src)
	}
}

func selectElements(size int, dst, flags, a []byte, aStep int, b []byte, bStep int) {
	for k, flag := range flags {
		src := b[k*bStep*size:]
		if flag != 0 {
			src = a[k*aStep*size:]
		}
		copy(dst[k*size:][:size], src)
	}
}

// flags returns bytes that are 0 where elements are, from element i on: all n in place, or as many as the buffer has.
func (a Array) flags(buffer []byte, i, n int) []byte {
	if a.Element.Size() == 1 {
		return a.Data[i:][:n]
	}
	var numbers [buffered]float64
	n = min(n, len(buffer))
	a.numbers(numbers[:n], i, 1)
	for k, x := range numbers[:n] {
		buffer[k] = byte(bit(x != 0))
	}
	return buffer[:n]
}

// Package operators is the library of operators that readers of models share. Readers read an operator's arguments, and
// the library checks shapes and computes in Go what XNNPACK does not have: looking up tokens, comparisons for masks,
// integers and booleans. A model computes these between its subgraphs ([models.Staged]). [Function] and [Operation]
// also name XNNPACK's node for an elementwise operator, and the nodes that move elements take their shapes from here.
//
// An [Operator] makes a [Kernel] for the shapes of its inputs. Indices out of range ([ErrIndex]) and integers that are
// divided by 0 ([ErrDivision]) are faults of a run (package fault). A new operator is a function here in the file of
// its family, with a row in that family's test, and a row in the table of each format that has it.
package operators

import (
	"encoding/binary"
	"errors"
	"math"

	"xpwc/internal/half"
	"xpwc/models"
	"xpwc/xnnpack"
)

// ErrIndex: a number that is an index, such as a token, is not in range.
var ErrIndex = errors.New("an index is out of range")

// An Array is a tensor in memory, its elements row by row.
type Array struct {
	Element models.Element
	Shape   []int
	Data    []byte
}

// elem returns the bytes of element i.
func (a Array) elem(i int) []byte {
	n := a.Element.Size()
	return a.Data[i*n : i*n+n : i*n+n]
}

// Number returns element i.
func (a Array) Number(i int) float64 { return numberOf(a.Element, a.elem(i)) }

// Whole returns element i, an integer, with all its digits.
func (a Array) Whole(i int) int64 { return wholeOf(a.Element, a.elem(i)) }

// Put sets element i.
func (a Array) Put(i int, x float64) { putNumber(a.Element, a.elem(i), x) }

// whole reports whether an element is an integer or a boolean.
func whole(e models.Element) bool {
	switch e {
	case models.Int8, models.Uint8, models.Int16, models.Int32, models.Int64, models.Bool:
		return true
	}
	return false
}

// wholeOf reads an integer; a boolean is 0 or 1, and a float is cut off.
func wholeOf(e models.Element, b []byte) int64 {
	switch e {
	case models.Int8:
		return int64(int8(b[0]))
	case models.Uint8:
		return int64(b[0])
	case models.Int16:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case models.Int32:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	case models.Int64:
		return int64(binary.LittleEndian.Uint64(b))
	case models.Bool:
		return int64(min(b[0], 1))
	}
	return int64(numberOf(e, b))
}

// numberOf reads a number.
func numberOf(e models.Element, b []byte) float64 {
	switch e {
	case models.Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case models.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	case models.Float16:
		return half.Float64(binary.LittleEndian.Uint16(b))
	case models.BFloat16:
		return half.Brain(binary.LittleEndian.Uint16(b))
	}
	return float64(wholeOf(e, b))
}

// Computable reports whether this package reads and writes an element.
func Computable(e models.Element) bool {
	switch e {
	case models.Float32, models.Float64, models.Float16, models.BFloat16:
		return true
	}
	return whole(e)
}

// putWhole writes an integer.
func putWhole(e models.Element, b []byte, n int64) {
	switch e {
	case models.Int8, models.Uint8:
		b[0] = byte(n)
	case models.Bool:
		b[0] = byte(bit(n != 0))
	case models.Int16:
		binary.LittleEndian.PutUint16(b, uint16(n))
	case models.Int32:
		binary.LittleEndian.PutUint32(b, uint32(n))
	case models.Int64:
		binary.LittleEndian.PutUint64(b, uint64(n))
	case models.Float32, models.Float64, models.Float16, models.BFloat16:
		putNumber(e, b, float64(n))
	}
}

// putNumber writes a number.
func putNumber(e models.Element, b []byte, x float64) {
	switch e {
	case models.Float32:
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(x)))
	case models.Float64:
		binary.LittleEndian.PutUint64(b, math.Float64bits(x))
	case models.Float16:
		binary.LittleEndian.PutUint16(b, half.Bits(x))
	case models.BFloat16:
		binary.LittleEndian.PutUint16(b, half.BrainBits(x))
	case models.Bool:
		b[0] = byte(bit(x != 0))
	default:
		putWhole(e, b, int64(x))
	}
}

// Broadcast returns the shape that arrays of several shapes have together: these are aligned at their last dimensions,
// and one that is missing or 1 is repeated. It is not ok if they do not fit.
func Broadcast(shapes ...[]int) (shape []int, ok bool) {
	for _, s := range shapes {
		for len(shape) < len(s) {
			shape = append([]int{1}, shape...)
		}
		for i, d := range s {
			dim := len(shape) - len(s) + i
			switch {
			case shape[dim] == 1:
				shape[dim] = d
			case d != 1 && d != shape[dim]:
				return nil, false
			}
		}
	}
	return shape, true
}

// steps returns how far apart in memory neighbours along each dimension of shape are in an array that is broadcast to
// it.
func steps(operand, shape []int) []int {
	out := make([]int, len(shape))
	step := 1
	for i := len(operand) - 1; i >= 0; i-- {
		if operand[i] > 1 {
			out[len(shape)-len(operand)+i] = step
		}
		step *= operand[i]
	}
	return out
}

// rows calls do for the rows of an array of a shape, in order, which are as long as can be: with the first element, how
// many there are, where they begin in the arrays that have these steps, and how far apart they are there.
func rows(shape []int, steps [][]int, do func(i, n int, offsets, apart []int)) {
	dims, apart := []int{1}, [][]int{make([]int, len(steps))}
	for d, n := range shape {
		if n == 1 {
			continue
		}
		last, step, joins := len(dims)-1, make([]int, len(steps)), true
		for k, s := range steps {
			step[k] = s[d]
			joins = joins && (dims[last] == 1 || apart[last][k] == s[d]*n)
		}
		if joins {
			dims[last], apart[last] = dims[last]*n, step
		} else {
			dims, apart = append(dims, n), append(apart, step)
		}
	}
	last := len(dims) - 1
	index, offsets, n := make([]int, last), make([]int, len(steps)), dims[last]
	for i := range product(dims[:last]) {
		do(i*n, n, offsets, apart[last])
		for d := last - 1; d >= 0; d-- {
			index[d]++
			for k := range offsets {
				offsets[k] += apart[d][k]
			}
			if index[d] < dims[d] {
				break
			}
			for k := range offsets {
				offsets[k] -= apart[d][k] * dims[d]
			}
			index[d] = 0
		}
	}
}

// walk calls do for each element of a shape, in order, with its place in each of the arrays that have these steps.
func walk(shape []int, steps [][]int, do func(i int, places []int)) {
	places := make([]int, len(steps))
	rows(shape, steps, func(i, n int, offsets, apart []int) {
		copy(places, offsets)
		for k := range n {
			do(i+k, places)
			for j, step := range apart {
				places[j] += step
			}
		}
	})
}

// together calls do for the rows of an output and of the inputs that are broadcast to it, see [rows]. A row has at most
// as many elements as a buffer.
func together(out Array, in []Array, do func(i, n int, places, apart []int)) {
	strides, places := make([][]int, len(in)), make([]int, len(in))
	for k, a := range in {
		strides[k] = steps(a.Shape, out.Shape)
	}
	rows(out.Shape, strides, func(i, n int, offsets, apart []int) {
		for first := 0; first < n; first += buffered {
			for k, offset := range offsets {
				places[k] = offset + first*apart[k]
			}
			do(i+first, min(buffered, n-first), places, apart)
		}
	})
}

// buffered is how many numbers a buffer has.
const buffered = 256

// numbers reads numbers that are a step apart, from element i on.
func (a Array) numbers(dst []float64, i, step int) {
	size := a.Element.Size()
	b := a.Data[i*size:]
	switch step *= size; {
	case a.Element == models.Float32:
		for k := range dst {
			dst[k] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[k*step:])))
		}
	default:
		for k := range dst {
			dst[k] = numberOf(a.Element, b[k*step:])
		}
	}
}

// putNumbers writes numbers that are a step apart, from element i on.
func (a Array) putNumbers(src []float64, i, step int) {
	size := a.Element.Size()
	b := a.Data[i*size:]
	switch step *= size; {
	case a.Element == models.Float32:
		for k, x := range src {
			binary.LittleEndian.PutUint32(b[k*step:], math.Float32bits(float32(x)))
		}
	case a.Element == models.Bool:
		for k, x := range src {
			b[k*step] = byte(bit(x != 0))
		}
	default:
		for k, x := range src {
			putNumber(a.Element, b[k*step:], x)
		}
	}
}

// integers reads integers that are a step apart, from element i on.
func (a Array) integers(dst []int64, i, step int) {
	size := a.Element.Size()
	b := a.Data[i*size:]
	switch step *= size; {
	case a.Element == models.Int64:
		for k := range dst {
			dst[k] = int64(binary.LittleEndian.Uint64(b[k*step:]))
		}
	case a.Element == models.Int32:
		for k := range dst {
			dst[k] = int64(int32(binary.LittleEndian.Uint32(b[k*step:])))
		}
	case a.Element == models.Bool:
		for k := range dst {
			dst[k] = int64(min(b[k*step], 1))
		}
	default:
		for k := range dst {
			dst[k] = wholeOf(a.Element, b[k*step:])
		}
	}
}

// putIntegers writes integers that are a step apart, from element i on.
func (a Array) putIntegers(src []int64, i, step int) {
	size := a.Element.Size()
	b := a.Data[i*size:]
	switch step *= size; {
	case a.Element == models.Int64:
		for k, n := range src {
			binary.LittleEndian.PutUint64(b[k*step:], uint64(n))
		}
	case a.Element == models.Bool:
		for k, n := range src {
			b[k*step] = byte(bit(n != 0))
		}
	default:
		for k, n := range src {
			putWhole(a.Element, b[k*step:], n)
		}
	}
}

// cast converts numbers; floats are cut off to integers.
func cast(out, in Array) {
	if inPlace(out, in) && convertRow(out.Element, out.Data, in.Element, in.Data, product(out.Shape)) {
		return
	}
	var numbers [buffered]float64
	var integers [buffered]int64
	wholes := whole(in.Element)
	together(out, []Array{in.shaped(out.Shape)}, func(i, n int, places, apart []int) {
		if wholes {
			in.integers(integers[:n], places[0], apart[0])
			out.putIntegers(integers[:n], i, 1)
		} else {
			in.numbers(numbers[:n], places[0], apart[0])
			out.putNumbers(numbers[:n], i, 1)
		}
	})
}

// retyped is an array with its numbers converted, if they are not such elements.
func (a Array) retyped(e models.Element) Array {
	if a.Element == e {
		return a
	}
	out := New(e, a.Shape...)
	cast(out, a)
	return out
}

// inSinglePrecision fills an output of half precision by way of single precision, for which C has loops.
func inSinglePrecision(out Array, fill func(out Array)) {
	if out.Element != models.Float16 {
		fill(out)
		return
	}
	wide := New(models.Float32, out.Shape...)
	fill(wide)
	cast(out, wide)
}

// shaped returns the same elements in another shape.
func (a Array) shaped(shape []int) Array { return Array{a.Element, shape, a.Data} }

func product(shape []int) int { return xnnpack.Elements(shape) }

// repeat fills bytes with an element.
func repeat(dst, element []byte) {
	for n := copy(dst, element); n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

package operators

import (
	"encoding/binary"

	"xpwc/internal/mapped"
	"xpwc/models"
)

// A primitive is an operation that one loop over two rows of one type computes, without a call for each element.
type primitive uint8

// The primitives: comparisons, operations on booleans, and arithmetic.
const (
	noPrimitive primitive = iota
	opEqual
	opNotEqual
	opLess
	opLessOrEqual
	opGreater
	opGreaterOrEqual
	opAnd
	opOr
	opXor
	opAdd
	opSubtract
	opMultiply
	opMaximum
	opMinimum
)

// An operand gives rows of an array's elements.
type operand[T mapped.Number] struct {
	elements []T
	buffer   [buffered]T // a row whose elements are not adjacent in memory
	repeated int         // the place of the element that fills the buffer, -1 for none
}

func operandOf[T mapped.Number](a Array) *operand[T] {
	return &operand[T]{elements: inputOf[T](a), repeated: -1}
}

// row returns n elements, the first at a place and each a step apart. The next call overwrites them.
func (o *operand[T]) row(place, step, n int) []T {
	switch step {
	case 1:
		return o.elements[place:][:n]
	case 0:
		if o.repeated != place {
			o.repeated = place
			for k := range o.buffer {
				o.buffer[k] = o.elements[place]
			}
		}
	default:
		for k := range n {
			o.buffer[k] = o.elements[place+k*step]
		}
	}
	return o.buffer[:n]
}

// primitively fills an output with the results of a primitive. It returns false if no loop takes these elements.
func primitively(p primitive, out, a, b Array) bool {
	if p == noPrimitive || a.Element != b.Element {
		return false
	}
	if a.Element == models.Bool {
		if out.Element == models.Bool && p <= opXor {
			eachRow(p, booleanRow, out, a, b)
			return true
		}
		return false
	}
	compute, ok := numerical.forElement(a.Element)
	return ok && compute(p, out, a, b)
}

// numerical are the primitives of elements that Go computes with as they are.
var numerical = typed[func(p primitive, out, a, b Array) bool]{numerically[int8], numerically[uint8], numerically[int16],
	numerically[int32], numerically[int64], numerically[float32], numerically[float64]}

func numerically[T number](p primitive, out, a, b Array) bool {
	switch {
	case p <= opGreaterOrEqual && out.Element == models.Bool:
		eachRow(p, compareRow[T], out, a, b)
	case p >= opAdd && out.Element == a.Element:
		eachRow(p, arithmeticRow[T], out, a, b)
	default:
		return false
	}
	return true
}

// eachRow calls do for the rows of an output.
func eachRow[D, T mapped.Number](p primitive, do func(p primitive, dst []D, a, b []T), out, a, b Array) {
	dst, done := outputOf[D](out)
	defer done()
	x, y := operandOf[T](a), operandOf[T](b)
	together(out, []Array{a, b}, func(i, n int, places, apart []int) {
		do(p, dst[i:][:n], x.row(places[0], apart[0], n), y.row(places[1], apart[1], n))
	})
}

func compareRow[T number](p primitive, dst []byte, a, b []T) {
	if p == opGreater || p == opGreaterOrEqual {
		a, b, p = b, a, p-opGreater+opLess
	}
	a, b = a[:len(dst)], b[:len(dst)]
	switch p {
	case opEqual:
		for i := range dst {
			dst[i] = byte(bit(a[i] == b[i]))
		}
	case opNotEqual:
		for i := range dst {
			dst[i] = byte(bit(a[i] != b[i]))
		}
	case opLess:
		for i := range dst {
			dst[i] = byte(bit(a[i] < b[i]))
		}
	case opLessOrEqual:
		for i := range dst {
			dst[i] = byte(bit(a[i] <= b[i]))
		}
	}
}

func arithmeticRow[T number](p primitive, dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	switch p {
	case opAdd:
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	case opSubtract:
		for i := range dst {
			dst[i] = a[i] - b[i]
		}
	case opMultiply:
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	case opMaximum:
		for i := range dst {
			dst[i] = max(a[i], b[i])
		}
	case opMinimum:
		for i := range dst {
			dst[i] = min(a[i], b[i])
		}
	}
}

// booleanRow computes eight booleans at a time. Any byte but 0 is true.
func booleanRow(p primitive, dst, a, b []byte) {
	const size = 8
	for len(dst) >= size {
		x, y := truths(binary.LittleEndian.Uint64(a)), truths(binary.LittleEndian.Uint64(b))
		binary.LittleEndian.PutUint64(dst, booleans(p, x, y))
		dst, a, b = dst[size:], a[size:], b[size:]
	}
	for i := range dst {
		dst[i] = byte(booleans(p, truths(uint64(a[i])), truths(uint64(b[i]))))
	}
}

// everyTrue is eight booleans that are true.
const everyTrue = 0x0101010101010101

// truths returns eight bytes, each 1 where it is not 0.
func truths(word uint64) uint64 {
	const low = 0x7f * everyTrue
	return (word&low + low | word) >> 7 & everyTrue
}

// booleans computes a primitive of eight booleans.
func booleans(p primitive, a, b uint64) uint64 {
	switch p {
	case opAnd:
		return a & b
	case opOr:
		return a | b
	case opXor, opNotEqual:
		return a ^ b
	case opEqual:
		return a ^ b ^ everyTrue
	case opLess:
		return b &^ a
	case opLessOrEqual:
		return b | (a ^ everyTrue)
	case opGreater:
		return a &^ b
	}
	return a | (b ^ everyTrue) // opGreaterOrEqual
}

// selections are selectRows for each size of elements.
var selections = sized[func(out, condition, a, b Array)]{selectRows[uint8], selectRows[uint16], selectRows[uint32],
	selectRows[uint64]}

// selectRows fills an output with elements of a where the condition is not 0, and of b elsewhere.
func selectRows[T mapped.Number](out, condition, a, b Array) {
	dst, done := outputOf[T](out)
	defer done()
	x, y := operandOf[T](a), operandOf[T](b)
	var flags [buffered]byte
	together(out, []Array{condition, a, b}, func(i, n int, places, apart []int) {
		row := dst[i:][:n]
		if apart[0] == 0 {
			if condition.Number(places[0]) != 0 {
				copy(row, x.row(places[1], apart[1], n))
			} else {
				copy(row, y.row(places[2], apart[2], n))
			}
			return
		}
		chosen := condition.flags(flags[:n], places[0], apart[0])
		selectRow(row, chosen, x.row(places[1], apart[1], n), y.row(places[2], apart[2], n))
	})
}

func selectRow[T mapped.Number](dst []T, flags []byte, a, b []T) {
	a, b, flags = a[:len(dst)], b[:len(dst)], flags[:len(dst)]
	for i := range dst {
		x, y := a[i], b[i]
		if flags[i] != 0 {
			y = x
		}
		dst[i] = y
	}
}

// flags returns bytes that are 0 where elements are, which are a step apart, from element i on: in the buffer, or in
// place.
func (a Array) flags(buffer []byte, i, step int) []byte {
	if a.Element.Size() == 1 && step == 1 {
		return a.Data[i:][:len(buffer)]
	}
	var numbers [buffered]float64
	a.numbers(numbers[:len(buffer)], i, step)
	for k, x := range numbers[:len(buffer)] {
		buffer[k] = byte(bit(x != 0))
	}
	return buffer
}

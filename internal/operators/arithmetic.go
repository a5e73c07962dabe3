package operators

import (
	"errors"
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/models"
	"xpwc/xnnpack"
)

// ErrDivision: an integer is divided by 0.
var ErrDivision = errors.New("an integer is divided by 0")

// An Operation on two numbers is one function of integers, which have all their digits, and one of other numbers.
type Operation struct {
	Node   *xnnpack.BinaryOperator // of XNNPACK, nil if it has none
	Whole  func(a, b int64) int64
	Number func(a, b float64) float64
	Double func(a, b float64) float64 // in place of Number for double precision, unless nil

	loop loop // of C, where it has one

	divides  bool // of integers, the second is never 0
	compares bool // integers are compared as they are, whatever the results are given as
}

func pair(op xnnpack.BinaryOperator) *xnnpack.BinaryOperator { return &op }

// The operations of several formats.
var (
	Sum = Operation{Node: pair(xnnpack.Add), loop: loopAdd,
		Whole:  func(a, b int64) int64 { return a + b },
		Number: func(a, b float64) float64 { return a + b }}
	Difference = Operation{Node: pair(xnnpack.Subtract), loop: loopSubtract,
		Whole:  func(a, b int64) int64 { return a - b },
		Number: func(a, b float64) float64 { return a - b }}
	SquaredDifference = Operation{Node: pair(xnnpack.SquaredDifference),
		Whole:  func(a, b int64) int64 { return (a - b) * (a - b) },
		Number: func(a, b float64) float64 { return (a - b) * (a - b) }}
	Product = Operation{Node: pair(xnnpack.Multiply), loop: loopMultiply,
		Whole:  func(a, b int64) int64 { return a * b },
		Number: func(a, b float64) float64 { return a * b }}
	Maximum = Operation{Node: pair(xnnpack.Maximum), loop: loopMaximum,
		Whole:  func(a, b int64) int64 { return max(a, b) },
		Number: func(a, b float64) float64 { return max(a, b) }}
	Minimum = Operation{Node: pair(xnnpack.Minimum), loop: loopMinimum,
		Whole:  func(a, b int64) int64 { return min(a, b) },
		Number: func(a, b float64) float64 { return min(a, b) }}
	// ArcTangent is the angle of the point (b, a), of no integers.
	ArcTangent = Operation{Number: math.Atan2, loop: loopArcTangent2}
	Power      = Operation{Node: pair(xnnpack.Pow), Whole: integerPower, Number: math.Pow, loop: loopPower}

	// Quotients and remainders. That of integers is cut off, as that of [TruncatedQuotient] is of all numbers;
	// [FloorQuotient] is rounded down. Single precision is divided in single precision: in double precision the
	// quotient may have another floor. [FloorRemainder] has the sign of the second number.
	Quotient = Operation{Node: pair(xnnpack.Divide), loop: loopDivide, Whole: func(a, b int64) int64 { return a / b },
		Number: func(a, b float64) float64 { return a / b }, divides: true}
	TruncatedQuotient = Operation{Whole: Quotient.Whole, loop: loopTruncatedQuotient, divides: true,
		Number: func(a, b float64) float64 { return math.Trunc(float64(float32(a) / float32(b))) },
		Double: func(a, b float64) float64 { return math.Trunc(a / b) }}
	FloorQuotient = Operation{Whole: floorQuotient, loop: loopFloorQuotient, divides: true,
		Number: func(a, b float64) float64 { return math.Floor(float64(float32(a) / float32(b))) },
		Double: func(a, b float64) float64 { return math.Floor(a / b) }}
	TruncatedRemainder = Operation{Whole: func(a, b int64) int64 { return a % b }, Number: math.Mod, divides: true,
		loop: loopRemainder}
	FloorRemainder = Operation{loop: loopFloorRemainder, Whole: floorRemainder, divides: true,
		Number: func(a, b float64) float64 {
			n := math.Mod(a, b)
			if n != 0 && n < 0 != (b < 0) {
				n += b
			}
			return n
		}}
)

// Reversed returns the operation with its operands exchanged, in Go.
func (o Operation) Reversed() Operation {
	return Operation{
		Whole:  func(a, b int64) int64 { return o.Whole(b, a) },
		Number: func(a, b float64) float64 { return o.Number(b, a) },
		Double: func(a, b float64) float64 { return o.numberOf(models.Float64)(b, a) },
	}
}

func floorQuotient(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func floorRemainder(a, b int64) int64 {
	n := a % b
	if n != 0 && n < 0 != (b < 0) {
		n += b
	}
	return n
}

// integerPower wraps around as integers do. Of a negative exponent it is 0, except of 1 and -1.
func integerPower(a, n int64) int64 {
	if n < 0 {
		if a != 1 && a != -1 {
			return 0
		}
		n = -n
	}
	out := int64(1)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			out *= a
		}
		a *= a
	}
	return out
}

// apply puts the result for element a, and element b of the same type, into dst.
func (o Operation) apply(e models.Element, dst, a, b []byte) {
	if whole(e) {
		putWhole(e, dst, o.Whole(wholeOf(e, a), wholeOf(e, b)))
	} else {
		putNumber(e, dst, o.numberOf(e)(numberOf(e, a), numberOf(e, b)))
	}
}

// numberOf returns the function of numbers of a type.
func (o Operation) numberOf(e models.Element) func(a, b float64) float64 {
	if e == models.Float64 && o.Double != nil {
		return o.Double
	}
	return o.Number
}

// combine fills an output with the results for elements of two inputs: the results of integers if all are.
func combine(o Operation, out, a, b Array) {
	bits := o.compares && o.loop > loopGreaterOrEqual && a.Element != models.Bool // of integers, which are no truths
	wholes := (whole(out.Element) || o.compares) && whole(a.Element) && whole(b.Element)
	if wholes && o.divides {
		checkDivisors(b)
	}
	if !bits && combineRows(o.loop, out, a, b) {
		return
	}
	if wholes {
		combineIntegers(o, out, a, b)
		return
	}
	if o.loop != noLoop && areHalves(a, b) {
		a, b = a.retyped(models.Float32), b.retyped(models.Float32)
		inSinglePrecision(out, func(out Array) { combine(o, out, a, b) })
		return
	}
	var x, y [buffered]float64
	compute := o.numberOf(a.Element)
	together(out, []Array{a, b}, func(i, n int, places, apart []int) {
		a.numbers(x[:n], places[0], apart[0])
		b.numbers(y[:n], places[1], apart[1])
		for k := range n {
			x[k] = compute(x[k], y[k])
		}
		out.putNumbers(x[:n], i, 1)
	})
}

// areHalves reports whether two arrays are of half precision, or one of them and the other of single precision.
func areHalves(a, b Array) bool {
	half, single := models.Float16, models.Float32
	return a.Element == half && (b.Element == half || b.Element == single) || a.Element == single && b.Element == half
}

func combineIntegers(o Operation, out, a, b Array) {
	var x, y [buffered]int64
	together(out, []Array{a, b}, func(i, n int, places, apart []int) {
		a.integers(x[:n], places[0], apart[0])
		b.integers(y[:n], places[1], apart[1])
		for k := range n {
			x[k] = o.Whole(x[k], y[k])
		}
		out.putIntegers(x[:n], i, 1)
	})
}

// checkDivisors checks that no integer is 0.
func checkDivisors(a Array) {
	var part [buffered]int64
	for i, n := 0, product(a.Shape); i < n; i += buffered {
		divisors := part[:min(buffered, n-i)]
		if a.integers(divisors, i, 1); slices.Contains(divisors, 0) {
			fault.Check(ErrDivision)
		}
	}
}

package operators

// Operations on the bits of integers. Booleans have one bit.
var (
	BitAnd = bitwise(loopAnd, func(a, b int64) int64 { return a & b })
	BitOr  = bitwise(loopOr, func(a, b int64) int64 { return a | b })
	BitXor = bitwise(loopXor, func(a, b int64) int64 { return a ^ b })
	// ShiftLeft leaves 0 if it shifts by a negative number.
	ShiftLeft = bitwise(noLoop, func(a, n int64) int64 {
		if n < 0 {
			return 0
		}
		return a << n
	})
	// ShiftRight repeats the sign. It leaves only the sign if it shifts by a negative number.
	ShiftRight = bitwise(noLoop, func(a, n int64) int64 {
		if n < 0 {
			n = 63
		}
		return a >> n
	})
)

// bitwise returns an operation on integers. It cuts off other numbers.
func bitwise(l loop, f func(a, b int64) int64) Operation {
	return Operation{loop: l, Whole: f, Number: func(a, b float64) float64 { return float64(f(int64(a), int64(b))) }}
}

// BitNot inverts the bits of an integer.
var BitNot = Function{Whole: func(a int64) int64 { return ^a }, loop: loopNot}

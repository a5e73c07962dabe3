package operators

// Comparisons of two numbers: 1 where they are true, and 0 elsewhere.
var (
	EqualTo = comparison(func(a, b int64) bool { return a == b }, func(a, b float64) bool { return a == b })
	Less    = comparison(func(a, b int64) bool { return a < b }, func(a, b float64) bool { return a < b })

	NotEqual       = comparison(func(a, b int64) bool { return a != b }, func(a, b float64) bool { return a != b })
	LessOrEqual    = comparison(func(a, b int64) bool { return a <= b }, func(a, b float64) bool { return a <= b })
	Greater        = comparison(func(a, b int64) bool { return a > b }, func(a, b float64) bool { return a > b })
	GreaterOrEqual = comparison(func(a, b int64) bool { return a >= b }, func(a, b float64) bool { return a >= b })

	And = logical(func(a, b bool) bool { return a && b })
	Or  = logical(func(a, b bool) bool { return a || b })
	Xor = logical(func(a, b bool) bool { return a != b })
)

// logical compares whether two numbers are not 0.
func logical(f func(a, b bool) bool) Operation {
	return comparison(func(a, b int64) bool { return f(a != 0, b != 0) },
		func(a, b float64) bool { return f(a != 0, b != 0) })
}

func comparison(whole func(a, b int64) bool, number func(a, b float64) bool) Operation {
	return Operation{compares: true, Whole: func(a, b int64) int64 { return bit(whole(a, b)) },
		Number: func(a, b float64) float64 { return float64(bit(number(a, b))) }}
}

// bit is 1 for true, and 0 for false.
func bit(truth bool) int64 {
	if truth {
		return 1
	}
	return 0
}

// negate fills an output with whether each element of the input is 0.
func negate(out, in Array) {
	combine(EqualTo, out, in, Number(in.Element, 0))
}

// choose fills an output with elements of a where the condition is not 0, and of b where it is. The elements are the
// same.
func choose(out, condition, a, b Array) {
	size := out.Element.Size()
	var truth [buffered]float64
	together(out, []Array{condition, a, b}, func(i, n int, places, apart []int) {
		condition.numbers(truth[:n], places[0], apart[0])
		dst, x, y := out.Data[i*size:][:n*size], a.Data[places[1]*size:], b.Data[places[2]*size:]
		stepX, stepY := apart[1]*size, apart[2]*size
		if size == 4 {
			for k, t := range truth[:n] {
				if t != 0 {
					*(*[4]byte)(dst[4*k:]) = *(*[4]byte)(x[k*stepX:])
				} else {
					*(*[4]byte)(dst[4*k:]) = *(*[4]byte)(y[k*stepY:])
				}
			}
			return
		}
		for k, t := range truth[:n] {
			if t != 0 {
				copy(dst[k*size:][:size], x[k*stepX:])
			} else {
				copy(dst[k*size:][:size], y[k*stepY:])
			}
		}
	})
}

package operators

import (
	"slices"

	"xpwc/models"
)

// Comparisons of two numbers: 1 where they are true, and 0 elsewhere.
var (
	EqualTo = comparison(loopEqual, func(a, b int64) bool { return a == b },
		func(a, b float64) bool { return a == b })
	Less = comparison(loopLess, func(a, b int64) bool { return a < b },
		func(a, b float64) bool { return a < b })

	NotEqual = comparison(loopNotEqual, func(a, b int64) bool { return a != b },
		func(a, b float64) bool { return a != b })
	LessOrEqual = comparison(loopLessOrEqual, func(a, b int64) bool { return a <= b },
		func(a, b float64) bool { return a <= b })
	Greater = comparison(loopGreater, func(a, b int64) bool { return a > b },
		func(a, b float64) bool { return a > b })
	GreaterOrEqual = comparison(loopGreaterOrEqual, func(a, b int64) bool { return a >= b },
		func(a, b float64) bool { return a >= b })

	And = logical(loopAnd, func(a, b bool) bool { return a && b })
	Or  = logical(loopOr, func(a, b bool) bool { return a || b })
	Xor = logical(loopXor, func(a, b bool) bool { return a != b })
)

// AnyDiffers computes whether any element along axes is another number than this one, of the same type. NaN is.
func AnyDiffers(number Array, axes []int) Operator {
	return func(shapes [][]int) Kernel {
		shape, ranked := reduction(shapes[0], axes, false)
		return computing(shape, func(out Array, in []Array) {
			rows, last := product(ranked), max(len(ranked)-1, 0)
			if number.Element != models.Float32 || product(ranked[:last]) != rows {
				differs := New(models.Bool, in[0].Shape...)
				combine(NotEqual, differs, in[0], number)
				reduce(Or, out, differs, ranked)
				return
			}
			elements, wanted := inputOf[float32](in[0]), float32(number.Number(0))
			length := len(elements) / rows
			for i := range rows {
				row := elements[i*length:][:length]
				differs := slices.ContainsFunc(row, func(x float32) bool { return x != wanted })
				putWhole(out.Element, out.elem(i), bit(differs))
			}
		})
	}
}

// logical compares whether two numbers are not 0.
func logical(l loop, f func(a, b bool) bool) Operation {
	return comparison(l, func(a, b int64) bool { return f(a != 0, b != 0) },
		func(a, b float64) bool { return f(a != 0, b != 0) })
}

func comparison(l loop, whole func(a, b int64) bool, number func(a, b float64) bool) Operation {
	return Operation{loop: l, compares: true, Whole: func(a, b int64) int64 { return bit(whole(a, b)) },
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

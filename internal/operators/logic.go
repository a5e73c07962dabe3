package operators

import (
	"slices"

	"xpwc/internal/mapped"
	"xpwc/models"
)

// Comparisons of two numbers: 1 where they are true, and 0 elsewhere.
var (
	EqualTo = comparison(opEqual, func(a, b int64) bool { return a == b },
		func(a, b float64) bool { return a == b })
	Less = comparison(opLess, func(a, b int64) bool { return a < b },
		func(a, b float64) bool { return a < b })

	NotEqual = comparison(opNotEqual, func(a, b int64) bool { return a != b },
		func(a, b float64) bool { return a != b })
	LessOrEqual = comparison(opLessOrEqual, func(a, b int64) bool { return a <= b },
		func(a, b float64) bool { return a <= b })
	Greater = comparison(opGreater, func(a, b int64) bool { return a > b },
		func(a, b float64) bool { return a > b })
	GreaterOrEqual = comparison(opGreaterOrEqual, func(a, b int64) bool { return a >= b },
		func(a, b float64) bool { return a >= b })

	And = logical(opAnd, func(a, b bool) bool { return a && b })
	Or  = logical(opOr, func(a, b bool) bool { return a || b })
	Xor = logical(opXor, func(a, b bool) bool { return a != b })
)

// AnyDiffers computes whether any element along axes is another number than this one, of the same type. NaN is.
func AnyDiffers(number Array, axes []int) Operator {
	return func(shapes [][]int) Kernel {
		shape, ranked := reduction(shapes[0], axes, false)
		return computing(shape, func(out Array, in []Array) {
			rows, last := product(ranked), max(len(ranked)-1, 0)
			elements, ok := mapped.Numbers[float32](in[0].Data)
			if !ok || number.Element != models.Float32 || product(ranked[:last]) != rows {
				differs := New(models.Bool, in[0].Shape...)
				combine(NotEqual, differs, in[0], number)
				reduce(Or, out, differs, ranked)
				return
			}
			length, wanted := len(elements)/rows, float32(number.Number(0))
			for i := range rows {
				row := elements[i*length:][:length]
				differs := slices.ContainsFunc(row, func(x float32) bool { return x != wanted })
				putWhole(out.Element, out.elem(i), bit(differs))
			}
		})
	}
}

// logical compares whether two numbers are not 0.
func logical(p primitive, f func(a, b bool) bool) Operation {
	return comparison(p, func(a, b int64) bool { return f(a != 0, b != 0) },
		func(a, b float64) bool { return f(a != 0, b != 0) })
}

func comparison(p primitive, whole func(a, b int64) bool, number func(a, b float64) bool) Operation {
	return Operation{primitive: p, compares: true, Whole: func(a, b int64) int64 { return bit(whole(a, b)) },
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
	chosen := false
	switch size {
	case 1:
		chosen = selectRows[uint8](out, condition, a, b)
	case 2:
		chosen = selectRows[uint16](out, condition, a, b)
	case 4:
		chosen = selectRows[uint32](out, condition, a, b)
	case 8:
		chosen = selectRows[uint64](out, condition, a, b)
	}
	if chosen {
		return
	}
	together(out, []Array{condition, a, b}, func(i, n int, places, apart []int) {
		for k := range n {
			src, place := b, places[2]+k*apart[2]
			if condition.Number(places[0]+k*apart[0]) != 0 {
				src, place = a, places[1]+k*apart[1]
			}
			copy(out.elem(i+k), src.elem(place))
		}
	})
}

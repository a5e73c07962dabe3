package compute

// Comparisons of two numbers: 1 where they are true, and 0 elsewhere.
var (
	Equal = comparison(func(a, b int64) bool { return a == b }, func(a, b float64) bool { return a == b })
	Less  = comparison(func(a, b int64) bool { return a < b }, func(a, b float64) bool { return a < b })

	NotEqual       = comparison(func(a, b int64) bool { return a != b }, func(a, b float64) bool { return a != b })
	LessOrEqual    = comparison(func(a, b int64) bool { return a <= b }, func(a, b float64) bool { return a <= b })
	Greater        = comparison(func(a, b int64) bool { return a > b }, func(a, b float64) bool { return a > b })
	GreaterOrEqual = comparison(func(a, b int64) bool { return a >= b }, func(a, b float64) bool { return a >= b })
)

func comparison(whole func(a, b int64) bool, number func(a, b float64) bool) Operation {
	return Operation{compares: true, Whole: func(a, b int64) int64 { return one(whole(a, b)) },
		Number: func(a, b float64) float64 { return float64(one(number(a, b))) }}
}

// one is 1 of what is true, and 0 of what is not.
func one(truth bool) int64 {
	if truth {
		return 1
	}
	return 0
}

func putTruth(out Array, i int, truth bool) { putWhole(out.Element, out.at(i), one(truth)) }

// truth reports whether an element is not 0.
func (a Array) truth(i int) bool { return a.Number(i) != 0 }

// Not fills an output with whether each element of the input is 0.
func Not(out, in Array) error {
	for i := range product(out.Shape) {
		putTruth(out, i, !in.truth(i))
	}
	return nil
}

// Logical fills an output with what a function of two booleans says of the inputs.
func Logical(of func(a, b bool) bool, out, a, b Array) error {
	together(out, []Array{a, b}, func(i int, at []int) { putTruth(out, i, of(a.truth(at[0]), b.truth(at[1]))) })
	return nil
}

// Any fills an output with whether any element is not 0 of those that it stands for: along the dimensions that are 1
// in the output's shape, kept, and not in the input's. All is Any's counterpart.
func Any(out, in Array, kept []int) error { return quantified(out, in, kept, true) }

// All fills an output with whether no element is 0, as Any does.
func All(out, in Array, kept []int) error { return quantified(out, in, kept, false) }

func quantified(out, in Array, kept []int, found bool) error {
	for i := range product(out.Shape) {
		putTruth(out, i, !found)
	}
	walk(in.Shape, [][]int{steps(kept, in.Shape)}, func(i int, at []int) {
		if in.truth(i) == found {
			putTruth(out, at[0], found)
		}
	})
	return nil
}

// Where fills an output with elements of a where the condition is not 0, and of b where it is. The elements are the
// same.
func Where(out, condition, a, b Array) error {
	together(out, []Array{condition, a, b}, func(i int, at []int) {
		if condition.truth(at[0]) {
			copy(out.at(i), a.at(at[1]))
		} else {
			copy(out.at(i), b.at(at[2]))
		}
	})
	return nil
}

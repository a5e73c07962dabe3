package compute

import "cmp"

// A Comparison is of two numbers.
type Comparison int

// The comparisons.
const (
	Equal Comparison = iota
	NotEqual
	Less
	LessOrEqual
	Greater
	GreaterOrEqual
)

// holds reports whether it is true of numbers that compare so; nan that one of them is none.
func (c Comparison) holds(order int, nan bool) bool {
	if nan {
		return c == NotEqual
	}
	return [...]bool{
		Equal: order == 0, NotEqual: order != 0, Less: order < 0, LessOrEqual: order <= 0,
		Greater: order > 0, GreaterOrEqual: order >= 0,
	}[c]
}

// Compare fills an output of booleans with whether a comparison is true of two inputs.
func Compare(c Comparison, out, a, b Array) error {
	wholes := whole(a.Element) && whole(b.Element)
	together(out, []Array{a, b}, func(i int, at []int) {
		x, y := a.at(at[0]), b.at(at[1])
		var order int
		var nan bool
		if wholes {
			order = cmp.Compare(wholeOf(a.Element, x), wholeOf(b.Element, y))
		} else {
			p, q := numberOf(a.Element, x), numberOf(b.Element, y)
			order, nan = cmp.Compare(p, q), p != p || q != q
		}
		putTruth(out, i, c.holds(order, nan))
	})
	return nil
}

func putTruth(out Array, i int, truth bool) {
	n := int64(0)
	if truth {
		n = 1
	}
	putWhole(out.Element, out.at(i), n)
}

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

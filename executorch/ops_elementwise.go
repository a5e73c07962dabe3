package executorch

import (
	"xpwc/xnnpack"
)

type unary struct{ xnnpack.Unary }

func (n unary) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return ids{n.Input}, n.Output
}
func (n unary) shape(of shapes) ([]int, error) { return of(n.Input), nil }
func (n unary) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.Input, n.Output = id(n.Input), id(n.Output)
	return s.Unary(n.Unary)
}

type convert struct{ xnnpack.Convert }

func (n convert) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return ids{n.Input}, n.Output
}
func (n convert) shape(of shapes) ([]int, error) { return of(n.Input), nil }
func (n convert) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.Input, n.Output = id(n.Input), id(n.Output)
	return s.Convert(n.Convert)
}

type duplicate struct{ xnnpack.Copy }

func (n duplicate) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return ids{n.Input}, n.Output
}
func (n duplicate) shape(of shapes) ([]int, error) { return of(n.Input), nil }
func (n duplicate) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.Input, n.Output = id(n.Input), id(n.Output)
	return s.Copy(n.Copy)
}

type softmax struct{ xnnpack.Softmax }

func (n softmax) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return ids{n.Input}, n.Output
}
func (n softmax) shape(of shapes) ([]int, error) { return of(n.Input), nil }
func (n softmax) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.Input, n.Output = id(n.Input), id(n.Output)
	return s.Softmax(n.Softmax)
}

type elementwise struct{ xnnpack.Binary }

func (n elementwise) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return ids{n.A, n.B}, n.Output
}
func (n elementwise) shape(of shapes) ([]int, error) { return broadcast(of(n.A), of(n.B)) }
func (n elementwise) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.A, n.B, n.Output = id(n.A), id(n.B), id(n.Output)
	return s.Binary(n.Binary)
}

// broadcast aligns shapes at their last dimensions; one that is missing or 1 is repeated.
func broadcast(a, b []int) ([]int, error) {
	out := make([]int, max(len(a), len(b)))
	at := func(s []int, i int) int {
		if i += len(s) - len(out); i < 0 {
			return 1
		}
		return s[i]
	}
	for i := range out {
		x, y := at(a, i), at(b, i)
		if x != y && x != 1 && y != 1 {
			return nil, malformed("shapes %v and %v", a, b)
		}
		out[i] = max(x, y)
	}
	return out, nil
}

type prelu struct{ xnnpack.PReLU }

func (n prelu) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return ids{n.Input, n.Slope}, n.Output
}
func (n prelu) shape(of shapes) ([]int, error) { return broadcast(of(n.Input), of(n.Slope)) }
func (n prelu) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.Input, n.Slope, n.Output = id(n.Input), id(n.Slope), id(n.Output)
	return s.PReLU(n.PReLU)
}

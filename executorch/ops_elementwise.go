package executorch

import (
	"xpwc/internal/compute"
	"xpwc/internal/fault"
	"xpwc/xnnpack"
)

type unary struct{ xnnpack.Unary }

// conversion changes the type of the elements.
func conversion(from, to xnnpack.ValueID) unary {
	return unary{xnnpack.Unary{Op: xnnpack.ConvertElements, Input: from, Output: to}}
}

func (n unary) operands() (ids, xnnpack.ValueID) { return ids{n.Input}, n.Output }
func (n unary) shape(of shapes) []int            { return of(n.Input) }
func (n unary) add(s *xnnpack.Subgraph, id renaming) error {
	n.Input, n.Output = id(n.Input), id(n.Output)
	return s.Add(n.Unary)
}

type duplicate struct{ xnnpack.Copy }

func (n duplicate) operands() (ids, xnnpack.ValueID) { return ids{n.Input}, n.Output }
func (n duplicate) shape(of shapes) []int            { return of(n.Input) }
func (n duplicate) add(s *xnnpack.Subgraph, id renaming) error {
	n.Input, n.Output = id(n.Input), id(n.Output)
	return s.Add(n.Copy)
}

type softmax struct{ xnnpack.Softmax }

func (n softmax) operands() (ids, xnnpack.ValueID) { return ids{n.Input}, n.Output }
func (n softmax) shape(of shapes) []int            { return of(n.Input) }
func (n softmax) add(s *xnnpack.Subgraph, id renaming) error {
	n.Input, n.Output = id(n.Input), id(n.Output)
	return s.Add(n.Softmax)
}

type elementwise struct{ xnnpack.Binary }

func (n elementwise) operands() (ids, xnnpack.ValueID) { return ids{n.A, n.B}, n.Output }
func (n elementwise) shape(of shapes) []int            { return broadcast(of(n.A), of(n.B)) }
func (n elementwise) add(s *xnnpack.Subgraph, id renaming) error {
	n.A, n.B, n.Output = id(n.A), id(n.B), id(n.Output)
	return s.Add(n.Binary)
}

// broadcast aligns shapes at their last dimensions; one that is missing or 1 is repeated.
func broadcast(a, b []int) []int {
	shape, ok := compute.Broadcast(a, b)
	if !ok {
		fault.Check(malformed("shapes %v and %v", a, b))
	}
	return shape
}

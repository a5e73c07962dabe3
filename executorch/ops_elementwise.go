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

func (n unary) shape(of shapes) []int { return of(n.Input) }

type duplicate struct{ xnnpack.Copy }

func (n duplicate) shape(of shapes) []int { return of(n.Input) }

type softmax struct{ xnnpack.Softmax }

func (n softmax) shape(of shapes) []int { return of(n.Input) }

type elementwise struct{ xnnpack.Binary }

func (n elementwise) shape(of shapes) []int { return broadcast(of(n.A), of(n.B)) }

// broadcast aligns shapes at their last dimensions; one that is missing or 1 is repeated.
func broadcast(a, b []int) []int {
	shape, ok := compute.Broadcast(a, b)
	if !ok {
		fault.Check(malformed("shapes %v and %v", a, b))
	}
	return shape
}

package operators

import (
	"fmt"
	"slices"

	"xpwc/internal/fault"
)

// An Operator makes the kernel for inputs of these shapes. Shapes that contradict each other or the operator's
// attributes are a fault.
type Operator func(shapes [][]int) Kernel

// A Kernel computes outputs from inputs of the shapes that it was made for.
type Kernel struct {
	Shapes [][]int // of the outputs
	Run    func(out, in []Array)
	Moves  []int // the inputs whose elements become elements of the outputs, of the same type
}

// elementwise returns the kernel of one output, whose shape its inputs are broadcast to.
func elementwise(shapes [][]int, run func(out, in []Array)) Kernel {
	shape, ok := Broadcast(shapes...)
	if !ok {
		wrong("shapes %v do not go together", shapes)
	}
	return Kernel{Shapes: [][]int{shape}, Run: run}
}

// unary returns an operator that computes one output of the input's shape.
func unary(run func(out, in Array)) Operator {
	return func(shapes [][]int) Kernel {
		return Kernel{Shapes: shapes[:1], Run: func(out, in []Array) { run(out[0], in[0]) }}
	}
}

// moving returns the kernel whose output, of this shape, has elements of the first input.
func moving(shape []int, run func(out Array, in []Array)) Kernel {
	return Kernel{Shapes: [][]int{shape}, Moves: []int{0}, Run: func(out, in []Array) { run(out[0], in) }}
}

// along checks an axis of a shape.
func along(axis int, shape []int) {
	if axis < 0 || axis >= len(shape) {
		wrong("dimension %d of shape %v", axis, shape)
	}
}

// replaced returns a shape with dimensions in place of one.
func replaced(shape []int, axis int, dims ...int) []int {
	return slices.Concat(shape[:axis], dims, shape[axis+1:])
}

// wrong ends the work: shapes or attributes contradict each other.
func wrong(format string, args ...any) { fault.Check(fmt.Errorf(format, args...)) }

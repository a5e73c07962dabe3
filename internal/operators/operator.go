package operators

import (
	"fmt"
	"math"
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
	// Updates reports that the only output is the first input with other elements in some places. Run then changes
	// these places alone if both are given the same memory.
	Updates bool
	// Elementwise reports that each element of the only output depends on one element of each input alone.
	Elementwise bool
}

// computing returns the kernel of one output of this shape.
func computing(shape []int, run func(out Array, in []Array)) Kernel {
	return Kernel{Shapes: [][]int{shape}, Run: func(out, in []Array) { run(out[0], in) }}
}

// elementwise returns the kernel of one output, whose shape its inputs are broadcast to.
func elementwise(shapes [][]int, run func(out Array, in []Array)) Kernel {
	shape, ok := Broadcast(shapes...)
	if !ok {
		wrong("shapes %v do not go together", shapes)
	}
	return computing(shape, run)
}

// unary returns an operator that computes one output of the input's shape.
func unary(run func(out, in Array)) Operator {
	return func(shapes [][]int) Kernel {
		return computing(shapes[0], func(out Array, in []Array) { run(out, in[0]) })
	}
}

// independent returns the operator with kernels that are Elementwise.
func (o Operator) independent() Operator {
	return func(shapes [][]int) Kernel {
		k := o(shapes)
		k.Elementwise = true
		return k
	}
}

// moving returns the kernel whose output, of this shape, has elements of the first input.
func moving(shape []int, run func(out Array, in []Array)) Kernel {
	return computing(shape, run).moves(0)
}

// updating returns the kernel of an output of this shape that Updates its first input. The others' elements are written
// over it.
func updating(shape []int, write func(out Array, in []Array)) Kernel {
	k := moving(shape, func(out Array, in []Array) {
		if src := in[0].Data; len(src) > 0 && &src[0] != &out.Data[0] {
			copy(out.Data, src)
		}
		write(out, in)
	})
	k.Updates = true
	return k
}

// moves returns the kernel whose outputs have elements of these inputs.
func (k Kernel) moves(inputs ...int) Kernel {
	k.Moves = inputs
	return k
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

// Unsupported is the error of a well-formed model that XNNPACK does not take.
type Unsupported struct{ error }

// MaxElements bounds every value that is computed: XNNPACK's kernels count bytes in 32 bits with a sign on some
// machines. Constants, whose bytes a file has, may have more.
const MaxElements = math.MaxInt32 / 4

// Elements multiplies dimensions, none of which may be negative. The error is [Unsupported] if they are too many, and
// for a value without elements: XNNPACK computes none.
func Elements(shape ...int) (int, error) { return elements(MaxElements, shape) }

// ConstantElements is [Elements] of a constant: so many that their bits can be counted.
func ConstantElements(shape ...int) (int, error) { return elements(math.MaxInt/64, shape) }

func elements(limit int, shape []int) (int, error) {
	n := 1
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v has the dimension %d", shape, d)
		}
		if d == 0 {
			return 0, Unsupported{fmt.Errorf("shape %v has no elements", shape)}
		}
		if d > limit/n {
			return 0, Unsupported{fmt.Errorf("shape %v has more than %d elements", shape, limit)}
		}
		n *= d
	}
	return n, nil
}

package executorch

import (
	"fmt"
	"math"

	"xpwc/packing"
	"xpwc/xnnpack"
)

// ids are values of a plan.
type ids = []xnnpack.ValueID

// An operation is a node of package xnnpack whose operands are values of a plan.
type operation interface {
	// operands returns what the node reads, weights among them, and what it computes. An absent bias is not among
	// them.
	operands() (inputs []xnnpack.ValueID, output xnnpack.ValueID)
	// shape returns the shape that the node computes from those of its inputs, or an error that says why it cannot.
	shape(of shapes) ([]int, error)
	// add adds the node to a subgraph, in which id gives the plan's values their IDs.
	add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error
}

// shapes gives the shape of a value.
type shapes func(xnnpack.ValueID) []int

// A weighted operation packs a static kernel, and a bias with it.
type weighted interface {
	operation
	// weights returns the kernel and the bias, which may be absent.
	weights() (kernel, bias xnnpack.ValueID)
	// looksUp reports whether XNNPACK looks into the weights cache before it packs.
	looksUp() bool
	// packing returns the identity of what is packed. tensor describes a value; the bias' content is there if inputs
	// are quantised at inference.
	packing(tensor func(xnnpack.ValueID) xnnpack.Tensor) packing.Identity
	// least returns the shape of the smallest input that suits the kernel, or an error if none does. The input is the
	// first of the operands.
	least(of shapes) ([]int, error)
	// between returns the same node with another input and output.
	between(input, output xnnpack.ValueID) operation
}

// present leaves out an absent bias.
func present(ids ...xnnpack.ValueID) []xnnpack.ValueID {
	if last := len(ids) - 1; ids[last] == xnnpack.InvalidValue {
		return ids[:last]
	}
	return ids
}

// maxElements bounds every value that is computed: XNNPACK's kernels count bytes in what may be 32 bits with a sign.
const maxElements = math.MaxInt32 / 4

// elements multiplies dimensions, all of which must be positive.
func elements(shape ...int) (int, error) {
	n := 1
	for _, d := range shape {
		if d <= 0 {
			return 0, malformed("shape %v has the dimension %d", shape, d)
		}
		if d > maxElements/n {
			return 0, fmt.Errorf("%w: shape %v has more than %d elements", ErrUnsupported, shape, maxElements)
		}
		n *= d
	}
	return n, nil
}

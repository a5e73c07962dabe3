package executorch

import (
	"fmt"
	"math"

	"xpwc/models"
	"xpwc/packing"
	"xpwc/xnnpack"
)

// ids are values of a plan.
type ids = []xnnpack.ValueID

// An operation is a node of package xnnpack whose operands are values of a plan, or hosted.
type operation interface {
	// shape returns the shape that the node computes from those of its inputs. Where it cannot, that is a fault.
	shape(of shapes) []int
}

// operands returns what an operation reads, weights among them, and what it computes. An absent bias is not among them.
func operands(op operation) (inputs ids, output xnnpack.ValueID) {
	if n, is := op.(hosted); is {
		return n.inputs, n.output
	}
	inputs, outputs := xnnpack.Operands(op.(xnnpack.Node))
	return inputs, outputs[0]
}

func (s step) operands() (inputs ids, output xnnpack.ValueID) { return operands(s.operation) }

// add adds the step to a subgraph, in which id gives the plan's values their IDs.
func (s step) add(to *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n, is := s.operation.(xnnpack.Node)
	if !is {
		return models.ErrStaged
	}
	return to.AddRenamed(n, id)
}

// A mover is an operation that moves elements, whatever they are. Those that XNNPACK does not have Go moves.
type mover interface {
	operation
	move(out array, in []array) error
}

// shapes gives the shape of a value.
type shapes func(xnnpack.ValueID) []int

// A weighted operation packs a static kernel, and a bias with it.
type weighted interface {
	operation
	xnnpack.WeightedNode
	// weights returns the kernel and the bias, which may be absent.
	weights() (kernel, bias xnnpack.ValueID)
	// looksUp reports whether XNNPACK looks into the weights cache before it packs.
	looksUp() bool
	// least returns the shape of the smallest input that suits the kernel; it is a fault if none does. The input is the
	// first of the operands.
	least(of shapes) []int
	// between returns the same node with another input and output.
	between(input, output xnnpack.ValueID) operation
}

// packingOf returns the identity of what a node packs, of which tensor describes the values.
func packingOf(w weighted, tensor func(xnnpack.ValueID) xnnpack.Tensor) packing.Identity {
	kernel, bias := w.weights()
	inputs, output := operands(w)
	return w.Packing(tensor(kernel), tensor(bias), tensor(inputs[0]), tensor(output))
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

package flow

import (
	"fmt"
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/packing"
	"xpwc/xnnpack"
)

// An Operation is a node of package xnnpack, or what Go computes. Its operands are values of a flow.
type Operation interface {
	// Operands returns what is read, weights among them and an absent bias not, and what is computed.
	Operands() (inputs, outputs IDs)
	// Shape returns the shape of what is computed from those of the inputs. Where it cannot, that is a fault.
	Shape(in [][]int) []int
	// add adds the node to a subgraph, in which id gives values their IDs.
	add(s *xnnpack.Subgraph, id func(ID) ID) error
}

// A Mover is a node. Some move elements, whatever they are. Those elements that XNNPACK does not have Go moves.
type Mover interface {
	Operation
	// With returns the same node with other operands in the place of its own, those that it computes last.
	With(operands ...ID) Mover
	// Moves reports whether it moves elements.
	Moves() bool
	// Move does in Go what XNNPACK does.
	Move(out Array, in []Array)
}

// A Weighted operation can pack a static kernel, and a bias with it. Its inputs are what it multiplies, the kernel, and
// the bias if there is one.
type Weighted interface {
	Mover
	// Weights returns the kernel and the bias, which may be absent.
	Weights() (kernel, bias ID)
	// LooksUp reports whether XNNPACK looks into the weights cache before it packs a kernel of a shape.
	LooksUp(kernel []int) bool
	// Packing returns the identity of what is packed. The bias' content is there if inputs are quantised at inference.
	Packing(kernel, bias, input, output xnnpack.Tensor) packing.Identity
	// Least returns the shape of the smallest input that suits a kernel of a shape; it is a fault if none does.
	Least(kernel []int) []int
}

// A Node is a node of package xnnpack.
type Node[N xnnpack.Node] struct {
	N   N
	of  *kind[N]
	ids IDs // its operands, if they are others than those of N
}

// Weighing is a node that can pack weights.
type Weighing[N xnnpack.WeightedNode] struct{ Node[N] }

// A kind is what is known of a type of nodes.
type kind[N xnnpack.Node] struct {
	shape func(n N, in [][]int) []int
	move  func(n N, out Array, in []Array) // nil of what computes
	// Of what packs weights:
	least   func(n N, kernel []int) []int
	looksUp func(n N, kernel []int) bool // nil of what never does
}

// of returns what makes an operation of a node.
func of[N xnnpack.Node](k kind[N]) func(N) Operation {
	return func(n N) Operation { return Node[N]{N: n, of: &k} }
}

// weighing is of for nodes that can pack weights.
func weighing[N xnnpack.WeightedNode](k kind[N]) func(N) Operation {
	return func(n N) Operation { return Weighing[N]{Node[N]{N: n, of: &k}} }
}

// Operands implements [Operation].
func (n Node[N]) Operands() (inputs, outputs IDs) {
	if inputs, outputs = xnnpack.Operands(n.N); n.ids != nil {
		return n.ids[:len(inputs):len(inputs)], n.ids[len(inputs):]
	}
	return inputs, outputs
}

// With implements [Mover].
func (n Node[N]) With(operands ...ID) Mover {
	n.ids = operands
	return n
}

// Shape implements [Operation].
func (n Node[N]) Shape(in [][]int) []int { return n.of.shape(n.N, in) }

func (n Node[N]) add(s *xnnpack.Subgraph, id func(ID) ID) error {
	left := slices.Concat(n.Operands())
	return s.AddRenamed(n.N, func(ID) ID {
		next := left[0]
		left = left[1:]
		return id(next)
	})
}

// Moves implements [Mover].
func (n Node[N]) Moves() bool { return n.of.move != nil }

// Move implements [Mover].
func (n Node[N]) Move(out Array, in []Array) { n.of.move(n.N, out, in) }

// Weights implements [Weighted].
func (n Weighing[N]) Weights() (kernel, bias ID) {
	in, _ := n.Operands()
	if len(in) == 2 {
		return in[1], xnnpack.InvalidValue
	}
	return in[1], in[2]
}

// LooksUp implements [Weighted].
func (n Weighing[N]) LooksUp(kernel []int) bool {
	return n.of.looksUp != nil && n.of.looksUp(n.N, kernel)
}

// Packing implements [Weighted].
func (n Weighing[N]) Packing(kernel, bias, input, output xnnpack.Tensor) packing.Identity {
	return n.N.Packing(kernel, bias, input, output)
}

// Least implements [Weighted].
func (n Weighing[N]) Least(kernel []int) []int { return n.of.least(n.N, kernel) }

// With implements [Mover].
func (n Weighing[N]) With(operands ...ID) Mover {
	n.ids = operands
	return n
}

// Unsupported is an error of what is well-formed, but more or other than XNNPACK takes.
type Unsupported struct{ error }

// MaxElements bounds every value that is computed: XNNPACK's kernels count bytes in what may be 32 bits with a sign.
const MaxElements = math.MaxInt32 / 4

// Elements multiplies dimensions, all of which must be positive. The error is [Unsupported] if they are too many.
func Elements(shape ...int) (int, error) {
	n := 1
	for _, d := range shape {
		if d <= 0 {
			return 0, fmt.Errorf("shape %v has the dimension %d", shape, d)
		}
		if d > MaxElements/n {
			return 0, Unsupported{fmt.Errorf("shape %v has more than %d elements", shape, MaxElements)}
		}
		n *= d
	}
	return n, nil
}

// wrong ends the work: operands contradict each other.
func wrong(format string, args ...any) { fault.Check(fmt.Errorf(format, args...)) }

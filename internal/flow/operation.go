package flow

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"xpwc/internal/fault"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// An Operation is a [Node], or what Go computes, [Hosted]. Its operands are values of a flow.
type Operation interface {
	// Operands returns what is read, weights among them and an absent bias not, and what is computed.
	Operands() (inputs, outputs IDs)
	// Shape returns the shape of the output for shapes of the inputs. Shapes that do not fit are a fault.
	Shape(in [][]int) []int
	// add adds the node to a subgraph, in which id gives values their IDs.
	add(s *xnnpack.Subgraph, id func(ID) ID) error
}

// A Node is one of package xnnpack. Some move elements of any type; Go moves the types that XNNPACK does not have.
// Some can pack a static kernel, and a bias with it; their inputs are what they multiply, the kernel, and the bias if
// there is one.
type Node struct {
	N   xnnpack.Node
	ids IDs // its operands, the outputs last; they are asked for again and again
	in  int // how many of them are inputs

	shape    func(in [][]int) []int
	move     operators.Operator
	moved    *moved
	minInput func(kernel []int) []int
	looksUp  func(kernel []int) bool
}

// mover returns what makes an operation of a node that moves elements.
func mover[N xnnpack.Node](move func(n N) operators.Operator) func(N) Node {
	return constructor(kind[N]{move: move,
		shape: func(n N, in [][]int) []int { return move(n)(in).Shapes[0] }})
}

// A kind is what is known of a type of nodes.
type kind[N xnnpack.Node] struct {
	shape func(n N, in [][]int) []int
	move  func(n N) operators.Operator // nil if the node computes
	// Of what packs weights:
	minInput func(n N, kernel []int) []int
	looksUp  func(n N, kernel []int) bool // nil if it never does
}

// constructor returns what makes an operation of a node.
func constructor[N xnnpack.Node](k kind[N]) func(N) Node {
	return func(n N) Node {
		inputs, outputs := xnnpack.Operands(n)
		node := Node{N: n, ids: slices.Concat(inputs, outputs), in: len(inputs),
			shape: func(in [][]int) []int { return k.shape(n, in) }}
		if k.move != nil {
			node.move, node.moved = k.move(n), &moved{}
		}
		if k.minInput != nil {
			node.minInput = func(kernel []int) []int { return k.minInput(n, kernel) }
			node.looksUp = func(kernel []int) bool { return k.looksUp != nil && k.looksUp(n, kernel) }
		}
		return node
	}
}

// Operands implements [Operation].
func (n Node) Operands() (inputs, outputs IDs) {
	return n.ids[:n.in:n.in], n.ids[n.in:]
}

// With returns the same node with operands in the place of its own, its outputs last.
func (n Node) With(operands ...ID) Node {
	n.ids = operands
	return n
}

// Shape implements [Operation].
func (n Node) Shape(in [][]int) []int { return n.shape(in) }

func (n Node) add(s *xnnpack.Subgraph, id func(ID) ID) error {
	pending := slices.Concat(n.Operands())
	return s.AddRenamed(n.N, func(ID) ID {
		next := pending[0]
		pending = pending[1:]
		return id(next)
	})
}

// Moves reports whether it moves elements.
func (n Node) Moves() bool { return n.move != nil }

// Move does in Go what XNNPACK does. It has one output.
func (n Node) Move(out, in []Array) {
	kernel := n.moved.kernel(n.move, in)
	kernel.Run(out, in)
}

// moved is what moves elements of the latest shapes: it keeps what it computed of them.
type moved struct {
	mu     sync.Mutex
	shapes [][]int
	latest operators.Kernel
}

func (m *moved) kernel(op operators.Operator, in []Array) operators.Kernel {
	m.mu.Lock()
	defer m.mu.Unlock()
	matches := func(shape []int, a Array) bool { return slices.Equal(shape, a.Shape) }
	if m.latest.Run == nil || !slices.EqualFunc(m.shapes, in, matches) {
		shapes := make([][]int, len(in))
		for i, a := range in {
			shapes[i] = a.Shape
		}
		m.latest = op(shapes) // if it refuses them, the kernel stays that of the former shapes
		m.shapes = shapes
	}
	return m.latest
}

// Weighs reports whether it can pack weights. What follows is for such nodes.
func (n Node) Weighs() bool { return n.minInput != nil }

// Weights returns the kernel and the bias, which may be absent.
func (n Node) Weights() (kernel, bias ID) {
	in, _ := n.Operands()
	if len(in) == 2 {
		return in[1], xnnpack.InvalidValue
	}
	return in[1], in[2]
}

// LooksUp reports whether XNNPACK looks into the weights cache before it packs a kernel of a shape.
func (n Node) LooksUp(kernel []int) bool { return n.looksUp(kernel) }

// Packing returns the identity of the packed weights; tensor describes a value. The bias' content is there if
// inputs are quantised at inference.
func (n Node) Packing(tensor func(ID) xnnpack.Tensor) packing.Identity {
	kernel, bias := n.Weights()
	inputs, outputs := n.Operands()
	biased := xnnpack.Tensor{}
	if bias != xnnpack.InvalidValue {
		biased = tensor(bias)
	}
	return n.N.(xnnpack.WeightedNode).Packing(tensor(kernel), biased, tensor(inputs[0]), tensor(outputs[0]))
}

// Least returns the shape of the smallest input that suits a kernel of a shape; it is a fault if none does.
func (n Node) Least(kernel []int) []int { return n.minInput(kernel) }

// Unsupported is the error of a well-formed model that XNNPACK does not take.
type Unsupported = operators.Unsupported

// MaxElements bounds every value that is computed.
const MaxElements = operators.MaxElements

// Elements multiplies dimensions, see [operators.Elements].
func Elements(shape ...int) (int, error) { return operators.Elements(shape...) }

// ConstantElements multiplies the dimensions of a constant, see [operators.ConstantElements].
func ConstantElements(shape ...int) (int, error) { return operators.ConstantElements(shape...) }

// Checked does what this package checks: what is wrong there is wrong with the model. Its errors match malformed, or
// unsupported if they are [Unsupported], unless they do already.
func Checked(do func(), malformed, unsupported error) {
	err := fault.Try(do)
	switch {
	case err == nil, errors.Is(err, malformed), errors.Is(err, unsupported):
		fault.Check(err)
	case errors.As(err, &Unsupported{}):
		fault.Because(unsupported, "%v", err)
	default:
		fault.Because(malformed, "%v", err)
	}
}

// wrong ends the work: operands contradict each other.
func wrong(format string, args ...any) { fault.Check(fmt.Errorf(format, args...)) }

package tflite

import (
	"errors"
	"fmt"
	"maps"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/internal/mapped"
	"xpwc/xnnpack"
)

// A plan is a model whose every operator has been checked and given its shapes, so that XNNPACK never sees a tensor
// that contradicts another. It is made once, by Open, and only read afterwards.
type plan struct {
	graph     *graph
	file      []byte       // may be read while it is planned, and within View
	mapped    *mapped.File // that these bytes are of
	values    []value      // by tensor index
	inside    []value      // of operators, see firstInside
	steps     []*flow.Step
	guards    []flow.Guard // of the steps that are planned now
	states    []flow.State
	whole     flow.Part   // what the steps are
	constants []*constant // that nodes use, in the order in which they do first
	byName    map[string]*constant
	derived   map[string]*constant
	internal  map[*constant]flow.ID // those inside
	names     map[string]bool       // of tensors; nil until one is asked for, see taken
	first     map[stored]string     // the name of the first tensor that has these bytes
	folded    int                   // bytes of constants that were computed
	read      flow.Constants        // by Go at a run
}

// value is what a tensor is at the point of the graph that planning has reached. TensorFlow Lite computes the shapes of
// intermediate tensors from the inputs' and ignores the file's shapes for them; so does planning.
type value struct {
	state    state
	shape    []int
	dtype    elementType
	constant *constant
	inside   *xnnpack.Tensor // of one that is no tensor of the graph
}

type state uint8

const (
	undefined state = iota // no operator has computed it yet
	dynamic
	static
	refused // what computes it cannot run
	empty   // it has no elements
)

// maxElements bounds every tensor that is computed.
const maxElements = flow.MaxElements

// elements returns the number of elements of a shape, all of whose dimensions must be positive.
func elements(shape []int) (int, error) {
	if len(shape) > maxRank {
		return 0, fmt.Errorf("%d dimensions, and XNNPACK has %d at most", len(shape), maxRank)
	}
	return flow.Elements(shape...)
}

// constantElements returns the number of elements of a constant's shape.
func constantElements(shape []int) (int, error) {
	if len(shape) > maxRank {
		return elements(shape)
	}
	return flow.ConstantElements(shape...)
}

func newPlan(g *graph, file []byte) *plan {
	p := &plan{graph: g, file: file, values: make([]value, len(g.tensors)), internal: map[*constant]flow.ID{},
		byName: map[string]*constant{}, derived: map[string]*constant{}, first: map[stored]string{}}
	p.readNames()
	if len(g.inputs) == 0 || len(g.outputs) == 0 {
		malformed("it has %d inputs and %d outputs", len(g.inputs), len(g.outputs))
	}
	for _, i := range g.inputs {
		t := &g.tensors[i]
		if p.values[i].state != undefined || t.data.Size != 0 {
			malformed("input %q is a constant or listed twice", t.name)
		}
		shape := ints(t.shape)
		if _, err := elements(shape); err != nil {
			malformed("input %q: %v", t.name, err)
		}
		fault.Wrap(func() { t.computable(shape) }, "input %q", t.name)
		if t.dtype == typeComplex64 {
			fault.Check(fmt.Errorf("input %q: %w: values of type %v", t.name, ErrUnsupported, t.dtype))
		}
		p.values[i] = value{state: dynamic, shape: shape, dtype: t.element()}
	}
	inline := inliner{plan: p}
	inline.named, inline.handles = map[string]*variable{}, map[int]*variable{}
	inline.inputsOfInt16()
	inline.prepare(g.operators)
	inline.operators(g.operators)
	fault.Check(inline.reasons.Err())
	inline.keep()
	inline.outputsOfInt16()
	p.checkOutputs()
	p.nameConstants()
	p.whole = p.wholeFlow()
	uses, read := p.whole.Uses()
	for _, id := range read {
		c := p.valueOf(id).constant
		c.use = uses[c.name]
		first := p.byName[c.name]
		if first == nil {
			p.constants = append(p.constants, c)
		}
		if first == nil || c.dtype.Size() > first.dtype.Size() { // elements of that size must be aligned
			p.byName[c.name] = c
		}
	}
	return p
}

// plan plans an operator: as nodes, or where XNNPACK cannot compute it, in Go.
func (p *plan) plan(op *operator, row operatorRow) (err error) {
	steps, inside := len(p.steps), len(p.inside)
	for _, f := range []struct {
		plan func(*call)
		inGo bool
	}{{row.plan, false}, {row.inGo, true}} {
		if f.plan == nil {
			continue
		}
		c := &call{plan: p, op: op, takes: row.takes, inGo: f.inGo}
		err = fault.Try(func() {
			f.plan(c)
			if n := len(op.inputs); n > c.asked {
				malformed("%d inputs, not %d", n, c.asked)
			}
			if len(c.defined) != len(op.outputs) {
				malformed("%d outputs, not %d", len(op.outputs), len(c.defined))
			}
			c.finish()
		})
		if !errors.Is(err, ErrUnsupported) {
			return err
		}
		for _, i := range c.defined {
			p.values[op.outputs[i]] = value{}
		}
		p.steps, p.inside = p.steps[:steps], p.inside[:inside]
		maps.DeleteFunc(p.internal, func(_ *constant, id flow.ID) bool { return id >= flow.ID(firstInside+inside) })
	}
	return err
}

// checkOutputs checks that every output is computed.
func (p *plan) checkOutputs() {
	for _, i := range p.graph.outputs {
		t := &p.graph.tensors[i]
		c := &call{plan: p, op: &operator{inputs: []int{i}}, takes: bytes8, inGo: t.inGo()}
		fault.Wrap(func() {
			if c.operand(0); !c.inGo {
				p.describe(i)
			}
		}, "output %q", t.name)
	}
}

// describe returns a tensor's description for XNNPACK.
func (p *plan) describe(n int) xnnpack.Tensor {
	v, t := &p.values[n], &p.graph.tensors[n]
	if v.constant != nil {
		return describe(t.name, v.constant.dtype, v.constant.quant, v.shape)
	}
	return describe(t.name, v.dtype, t.quantization, v.shape)
}

func ints[T int32 | int64](raw []T) []int {
	out := make([]int, len(raw))
	for i, v := range raw {
		out[i] = int(v)
	}
	return out
}

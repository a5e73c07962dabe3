package tflite

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/packing"
	"xpwc/xnnpack"
)

// A plan is a model whose every operator has been checked and given its shapes, so that XNNPACK never sees a tensor
// that contradicts another. It is made once, by Open, and only read afterwards.
type plan struct {
	graph     *graph
	values    []value // by tensor index
	steps     []step
	states    []keeping
	constants []*constant // in the order in which nodes first use them
	derived   map[string]*constant
	names     map[string]bool   // of tensors, once they were asked for
	first     map[stored]string // the name of the first tensor that has these bytes
	folded    int               // bytes of constants that were computed
}

// value is what a tensor is at the point of the graph that planning has reached. TensorFlow Lite computes the shapes of
// intermediate tensors from the inputs' and ignores what the file says of them; so does planning.
type value struct {
	state    state
	shape    []int
	dtype    elementType
	constant *constant
	needed   bool // an output depends on it
}

type state uint8

const (
	undefined state = iota // no operator has computed it yet
	dynamic
	static
	refused // what computes it cannot run
	empty   // it has no elements
)

// keeping is a value that becomes another one when an inference ends.
type keeping struct {
	value, next int
	initial     *constant // what it is at first; nil is zeros
}

// step is one operator: nodes of a subgraph, or what Go computes.
type step struct {
	op      *operator
	wide    bool // quantized values are computed in single precision
	emit    func(*emitter)
	uses    []usage
	compute func(*run) error // nil of nodes
	reads   []int            // the operands that Go reads
}

// usage is one use of a constant.
type usage struct {
	constant *constant
	how      use
	packing  *packing.Identity // of a kernel, or nil
}

// maxElements bounds every tensor: XNNPACK's kernels count bytes in what may be 32 bits with a sign.
const maxElements = math.MaxInt32 / 4

func checkedMul(a, b int) (int, error) {
	if a < 0 || b < 0 || (b != 0 && a > maxElements/b) {
		return 0, fmt.Errorf("more than %d elements", maxElements)
	}
	return a * b, nil
}

// elements returns the number of elements of a shape, all of whose dimensions must be positive.
func elements(shape []int) (int, error) {
	if len(shape) > maxRank {
		return 0, fmt.Errorf("%d dimensions, and XNNPACK has %d at most", len(shape), maxRank)
	}
	n := 1
	for _, d := range shape {
		if d <= 0 {
			return 0, fmt.Errorf("shape %v has dimension %d", shape, d)
		}
		var err error
		if n, err = checkedMul(n, d); err != nil {
			return 0, fmt.Errorf("shape %v: %w", shape, err)
		}
	}
	return n, nil
}

func newPlan(g *graph, file []byte) (p *plan, err error) {
	err = fault.Try(func() { p = planned(g, file) })
	return p, err
}

func planned(g *graph, file []byte) *plan {
	p := &plan{graph: g, values: make([]value, len(g.tensors))}
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
		if err := t.computable(shape); err != nil {
			fault.Check(fmt.Errorf("input %q: %w", t.name, err))
		}
		if t.dtype == typeComplex64 {
			fault.Check(fmt.Errorf("input %q: %w: values of type %v", t.name, ErrUnsupported, t.dtype))
		}
		p.values[i] = value{state: dynamic, shape: shape, dtype: t.element()}
	}
	p.steps = make([]step, 0, len(g.operators))
	var why reasons
	inline := inliner{plan: p, file: file, why: &why}
	inline.inputsOfInt16()
	inline.prepare(g.operators)
	inline.operators(g.operators)
	fault.Check(why.err())
	inline.keep()
	inline.outputsOfInt16()
	outputs := p.planOutputs(file)
	p.prune()
	for _, s := range p.steps {
		p.use(s.uses)
	}
	p.use(outputs)
	how := map[string]use{}
	for _, c := range p.constants {
		how[c.name] |= c.use
	}
	for _, c := range p.constants {
		c.use = how[c.name]
	}
	return p
}

// plan plans an operator: as nodes, or where XNNPACK cannot compute it, in Go.
func (p *plan) plan(op *operator, row operatorRow, file []byte) (s step, err error) {
	for _, f := range []struct {
		plan func(*call) func(*emitter)
		inGo bool
	}{{row.plan, false}, {row.inGo, true}} {
		if f.plan == nil {
			continue
		}
		c := &call{plan: p, op: op, file: file, takes: row.takes, inGo: f.inGo}
		err = fault.Try(func() {
			s = step{op: op, emit: f.plan(c)}
			fault.Check(op.options.Err()) // of those that could not be read, defaults were taken
			if len(c.defined) != len(op.outputs) {
				malformed("%d outputs, not %d", len(op.outputs), len(c.defined))
			}
			s.wide, s.uses, s.compute, s.reads = c.wide, c.uses, c.compute, c.reads
			if c.compute != nil {
				c.fold(&s)
			}
		})
		if fault := op.options.Err(); fault != nil {
			err = fault
		}
		if !errors.Is(err, ErrUnsupported) {
			return s, err
		}
		for _, i := range c.defined {
			p.values[op.outputs[i]] = value{}
		}
	}
	return s, err
}

// planOutputs checks that every output is computed, and returns the uses of the constants among them.
func (p *plan) planOutputs(file []byte) (uses []usage) {
	for _, i := range p.graph.outputs {
		t := &p.graph.tensors[i]
		c := &call{plan: p, op: &operator{inputs: []int{i}}, file: file, takes: bytes8, inGo: t.inGo()}
		fault.Within(func() {
			if c.data(0); !c.inGo {
				_, _, err := p.datatype(i)
				fault.Check(err)
			}
		}, "output %q", t.name)
		uses = append(uses, c.uses...)
	}
	return uses
}

// prune drops the steps whose results no output depends on: XNNPACK may end the process when it finds such a node.
func (p *plan) prune() {
	for _, i := range p.graph.outputs {
		p.values[i].needed = true
	}
	for _, of := range p.states {
		p.values[of.next].needed = true
	}
	for i, s := range slices.Backward(p.steps) {
		if !slices.ContainsFunc(s.op.outputs, func(n int) bool { return p.values[n].needed }) {
			p.steps[i].op = nil
			continue
		}
		for _, n := range p.dynamic(&p.steps[i]) {
			p.values[n].needed = true
		}
	}
	p.steps = slices.DeleteFunc(p.steps, func(s step) bool { return s.op == nil })
}

func (p *plan) use(uses []usage) {
	for _, u := range uses {
		if u.constant.use == 0 {
			p.constants = append(p.constants, u.constant)
		}
		u.constant.use |= u.how
		if u.packing != nil {
			u.constant.packings = append(u.constant.packings, *u.packing)
		}
	}
}

// describe returns a tensor's description for XNNPACK.
func (p *plan) describe(tensor int) (xnnpack.Tensor, error) {
	name := p.graph.tensors[tensor].name
	kind, q, err := p.datatype(tensor)
	if err != nil {
		return xnnpack.Tensor{}, fmt.Errorf("%q: %w", name, err)
	}
	return xnnpack.Tensor{Name: name, Type: kind, Shape: p.values[tensor].shape, Quantization: q}, nil
}

func (p *plan) datatype(tensor int) (xnnpack.Datatype, xnnpack.Quantization, error) {
	v, quant := &p.values[tensor], p.graph.tensors[tensor].quantization
	if v.constant != nil {
		return v.constant.datatype()
	}
	return datatype(v.dtype, quant, v.shape)
}

func ints[T int32 | int64](raw []T) []int {
	out := make([]int, len(raw))
	for i, v := range raw {
		out[i] = int(v)
	}
	return out
}

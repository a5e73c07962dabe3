package flow

import (
	"errors"
	"fmt"
	"slices"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/models"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// emitter adds the steps of a part to a subgraph. The first error ends that, see package fault.
type emitter struct {
	Part
	s       *xnnpack.Subgraph
	loader  models.Loader
	ids     map[ID]ID // of the subgraph, by IDs of the flow
	options map[string][]xpwc.LoadOption
	tensors map[ID]xnnpack.Tensor // that were described
}

// Subgraph makes a subgraph of the part, whose external values are the inputs and, after them, the outputs. It asks the
// loader once for each constant that a node uses. If the part is Staged, the error matches [models.ErrStaged].
func (p Part) Subgraph(l models.Loader) (*xnnpack.Subgraph, error) {
	usual := 2 * len(p.Steps) // values: an output of each step, and half as many kernels and biases
	e := &emitter{Part: p, loader: l, ids: make(map[ID]ID, usual), options: map[string][]xpwc.LoadOption{},
		tensors: make(map[ID]xnnpack.Tensor, usual)}
	if err := fault.Try(e.emit); err != nil {
		if e.s != nil {
			err = errors.Join(err, e.s.Delete())
		}
		return nil, p.named(err)
	}
	return e.s, nil
}

// named has an error begin with the part's name.
func (p Part) named(err error) error {
	if err == nil || p.Name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", p.Name, err)
}

func (e *emitter) emit() {
	if e.Staged() {
		fault.Check(models.ErrStaged)
	}
	e.s = fault.Value(xnnpack.NewSubgraph(len(e.Inputs) + len(e.Outputs)))
	e.collectOptions()
	copies := e.externals()
	for _, s := range e.Steps {
		fault.Wrap(func() { fault.Check(s.add(e.s, e.value)) }, "%s", s.Name)
	}
	for _, c := range copies {
		fault.Check(e.s.Add(xnnpack.Copy{Input: e.value(c.Input), Output: c.Output}))
	}
}

// collectOptions collects the load options of each constant from all steps before the first is loaded.
func (e *emitter) collectOptions() {
	uses, _ := e.Uses()
	for name, use := range uses {
		e.options[name] = use.options()
	}
	if _, uncached := e.loader.(*models.Memory); uncached { // it takes no notice of identities
		return
	}
	e.eachPacking(func(kernel, _ string, id packing.Identity) {
		e.options[kernel] = append(e.options[kernel], xpwc.PackedAs(id))
	})
}

// EachPacking calls do for each node that packs a constant kernel: with the names of the kernel and of the bias, ""
// without a constant bias, and the identity of the packing. The error names the node.
func (p Part) EachPacking(do func(kernel, bias string, id packing.Identity)) error {
	e := &emitter{Part: p, tensors: map[ID]xnnpack.Tensor{}}
	return p.named(fault.Try(func() { e.eachPacking(do) }))
}

func (e *emitter) eachPacking(do func(kernel, bias string, id packing.Identity)) {
	for _, s := range e.Steps {
		if !e.Packs(s.Operation) {
			continue
		}
		n := s.Operation.(Node)
		kernel, bias := n.Weights()
		kernelName, _ := e.Constant(kernel)
		biasName := ""
		if bias != xnnpack.InvalidValue {
			biasName, _ = e.Constant(bias)
		}
		operand := e.describe
		if inputs, _ := n.Operands(); e.describe(inputs[0]).Type == xnnpack.DynamicQInt8 {
			operand = e.withContent
		}
		fault.Wrap(func() { do(kernelName, biasName, n.Packing(operand)) }, "%s", s.Name)
	}
}

// withContent describes a value for the identity of a packing: with its content, if it is a constant of one dimension.
func (e *emitter) withContent(id ID) xnnpack.Tensor {
	t := e.describe(id)
	if e.constant(id) && len(t.Shape) == 1 {
		e.View(func() { t.Data = e.Content(id) })
		t.Data = t.Data[:size(t)]
	}
	return t
}

// describe describes a value once.
func (e *emitter) describe(id ID) xnnpack.Tensor {
	t, ok := e.tensors[id]
	if !ok {
		t = e.Tensor(id)
		e.tensors[id] = t
	}
	return t
}

// size is that of a value whose shape and type were checked.
func size(t xnnpack.Tensor) int { return fault.Value(t.Type.ByteSize(t.Shape)) }

// externals defines the inputs and outputs, whose IDs are their positions, inputs first. An output that is an input,
// a constant or another output as well is a copy of a value of the flow, which it returns.
func (e *emitter) externals() (copies []xnnpack.Copy) {
	for i, v := range e.Inputs {
		fault.Check(e.s.Input(ID(i), e.describe(v)))
		e.ids[v] = ID(i)
	}
	for i, v := range e.Outputs {
		id := ID(len(e.Inputs) + i)
		fault.Check(e.s.Output(id, e.describe(v)))
		if _, ok := e.ids[v]; ok || e.constant(v) {
			copies = append(copies, xnnpack.Copy{Input: v, Output: id})
		} else {
			e.ids[v] = id
		}
	}
	return copies
}

// value returns the ID of a value in the subgraph, which it defines when it is first used; a constant's content is
// loaded then.
func (e *emitter) value(id ID) ID {
	if id == xnnpack.InvalidValue {
		return id
	}
	value, ok := e.ids[id]
	if !ok {
		t := e.describe(id)
		if name, ok := e.Constant(id); ok {
			t.Data = e.load(name, size(t))
		}
		value = fault.Value(e.s.Tensor(t))
		e.ids[id] = value
	}
	return value
}

func (e *emitter) load(name string, size int) []byte {
	b := fault.Value(e.loader.Load(name, slices.Clone(e.options[name])...))
	if len(b) < size {
		fault.Check(fmt.Errorf("load tensor %q: %d bytes, not %d", name, len(b), size))
	}
	return b[:size]
}

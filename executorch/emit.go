package executorch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/internal/mapped"
	"xpwc/models"
	"xpwc/xnnpack"
)

// use says how XNNPACK reads a constant, which decides when its content must be there and how long it must stay.
type use uint8

const (
	// usePacked: packed by an operator that looks into the weights cache first, so read only if it misses there.
	usePacked use = 1 << iota
	// usePackedBlind: packed by an operator that does not look up first, or without being named in the key.
	usePackedBlind
	// useInference: read at every inference.
	useInference
)

// use calls do for each constant that a step uses.
func (p *plan) use(s *step, do func(c *constant, how use)) {
	inputs, _ := s.operands()
	w, packs := s.operation.(weighted)
	kernel, bias := xnnpack.InvalidValue, xnnpack.InvalidValue
	if packs {
		if kernel, bias = w.weights(); p.values[kernel].constant == nil {
			kernel, bias = xnnpack.InvalidValue, xnnpack.InvalidValue
		}
	}
	_, multiplied := s.operation.(batchMatrixMultiply)
	for _, in := range inputs {
		v := &p.values[in]
		if v.constant == nil {
			continue
		}
		how := useInference
		switch {
		case in == kernel && multiplied: // it depends on its type whether it is packed
			how |= usePackedBlind
		case in == kernel || in == bias:
			how = usePacked
			hidden := in == bias && p.values[inputs[0]].tensor.Type == xnnpack.DynamicQInt8
			if hidden || !w.looksUp() || v.tensor.Type == xnnpack.Float16 {
				how = usePackedBlind
			}
		}
		do(v.constant, how)
	}
}

func (u use) options() []xpwc.LoadOption {
	var options []xpwc.LoadOption
	if u&(usePackedBlind|useInference) != 0 {
		options = append(options, xpwc.Eager())
	}
	if u&useInference != 0 {
		return append(options, xpwc.Retain())
	}
	return append(options, xpwc.PackOnly())
}

// emitter adds the steps of a part to a subgraph. The first error ends that, see package fault.
type emitter struct {
	part
	s       *xnnpack.Subgraph
	files   *files
	loader  models.Loader
	ids     map[xnnpack.ValueID]xnnpack.ValueID // of the subgraph, by those of the plan
	tensors map[xnnpack.ValueID]xnnpack.Tensor  // values whose scales were read from the file
	options map[string][]xpwc.LoadOption        // of constants, by name
}

func (p part) emit(f *files, l models.Loader) (*xnnpack.Subgraph, error) {
	s, err := xnnpack.NewSubgraph(len(p.inputs) + len(p.outputs))
	if err != nil {
		return nil, err
	}
	e := &emitter{
		part: p, s: s, files: f, loader: l,
		ids: map[xnnpack.ValueID]xnnpack.ValueID{}, tensors: map[xnnpack.ValueID]xnnpack.Tensor{},
		options: map[string][]xpwc.LoadOption{},
	}
	if err := fault.Try(e.emit); err != nil {
		return nil, errors.Join(err, s.Delete())
	}
	return s, nil
}

func (e *emitter) emit() {
	e.collectOptions()
	copies := e.externals()
	for _, i := range e.steps {
		s := &e.plan.steps[i]
		fault.Within(func() { fault.Check(s.add(e.s, e.value)) }, "%s", s.name)
	}
	for _, c := range copies {
		fault.Check(e.s.Add(xnnpack.Copy{Input: e.value(c.Input), Output: c.Output}))
	}
}

// collectOptions says what all steps do with each constant before the first is loaded.
func (e *emitter) collectOptions() {
	uses := map[string]use{}
	for _, i := range e.steps {
		s := &e.plan.steps[i]
		e.use(s, func(c *constant, how use) { uses[c.name] |= how })
		w, ok := s.operation.(weighted)
		if !ok {
			continue
		}
		kernel, _ := w.weights()
		if c := e.values[kernel].constant; c != nil {
			fault.Within(func() {
				e.options[c.name] = append(e.options[c.name], xpwc.PackedAs(packingOf(w, e.operand)))
			}, "%s", s.name)
		}
	}
	for name, how := range uses {
		e.options[name] = append(e.options[name], how.options()...)
	}
}

// operand describes a value for the identity of a packing: with its content, if it is a constant of one dimension.
func (e *emitter) operand(id xnnpack.ValueID) xnnpack.Tensor {
	if id == xnnpack.InvalidValue {
		return xnnpack.Tensor{}
	}
	t := e.describe(id)
	if c := e.values[id].constant; c != nil && len(t.Shape) == 1 {
		size := size(t)
		var b []byte
		if c.inFile() {
			b = fault.Value(e.files.inPlace(c.stored))
		}
		if c.converts() || !c.inFile() {
			t.Data = make([]byte, size)
			fault.Check(c.fill(t.Data, b))
		} else { // named data may be longer
			t.Data = b[:size]
		}
	}
	return t
}

// size is that of a value whose shape and type were checked.
func size(t xnnpack.Tensor) int { return fault.Value(t.Type.ByteSize(t.Shape)) }

// describe returns a value as XNNPACK is given it, with its scales and without its content.
func (e *emitter) describe(id xnnpack.ValueID) xnnpack.Tensor {
	v := &e.values[id]
	if v.scales == nil {
		return v.tensor
	}
	t, known := e.tensors[id]
	if !known {
		t = v.tensor
		count, size, err := scaleCount(&t)
		fault.Check(err)
		readScales(&t, fault.Value(e.files.inPlace(*v.scales))[:count*size]) // named data may be longer
		e.tensors[id] = t
	}
	return t
}

// readScales gives a value its scales, little-endian as they are in a file. XNNPACK keeps a pointer to them, in
// runtimes too. They are read where they are in the mapping, which outlives all runtimes, and copied only if they are
// not aligned: a large model has hundreds of megabytes of them.
func readScales(t *xnnpack.Tensor, b []byte) {
	q := &t.Quantization
	if t.Type == xnnpack.BlockQInt4 {
		q.BlockScales = numbersIn(b, binary.LittleEndian.Uint16)
	} else {
		q.Scales = numbersIn(b, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
	}
}

// numbersIn returns the numbers that b consists of, in place if possible, or else each as get reads it.
func numbersIn[T uint16 | float32](b []byte, get func([]byte) T) []T {
	if there, ok := mapped.Numbers[T](b); ok {
		return there
	}
	var numbers []T
	for size := binary.Size(T(0)); len(b) >= size; b = b[size:] {
		numbers = append(numbers, get(b))
	}
	return numbers
}

// externals defines the inputs and outputs, whose IDs are their positions, inputs first. An output that is an input,
// a constant or another output as well is a copy of a value of the plan, which it returns.
func (e *emitter) externals() []xnnpack.Copy {
	for i, v := range e.inputs {
		fault.Check(e.s.Input(xnnpack.ValueID(i), e.describe(xnnpack.ValueID(v))))
		e.ids[xnnpack.ValueID(v)] = xnnpack.ValueID(i)
	}
	var copies []xnnpack.Copy
	for i, v := range e.outputs {
		value, id := xnnpack.ValueID(v), xnnpack.ValueID(len(e.inputs)+i)
		fault.Check(e.s.Output(id, e.describe(value)))
		if _, there := e.ids[value]; there || e.values[v].constant != nil {
			copies = append(copies, xnnpack.Copy{Input: value, Output: id})
		} else {
			e.ids[value] = id
		}
	}
	return copies
}

// value returns the ID of a value in the subgraph, which it defines when it is first used; a constant's content is
// loaded then.
func (e *emitter) value(id xnnpack.ValueID) xnnpack.ValueID {
	if id == xnnpack.InvalidValue {
		return id
	}
	known, ok := e.ids[id]
	if !ok {
		t := e.describe(id)
		if c := e.values[id].constant; c != nil {
			t.Data = e.load(c, size(t))
		}
		known = fault.Value(e.s.Tensor(t))
		e.ids[id] = known
	}
	return known
}

func (e *emitter) load(c *constant, size int) []byte {
	options, ok := e.options[c.name]
	if !ok { // an output that is a constant
		options = useInference.options()
	}
	b := fault.Value(e.loader.Load(c.name, options...))
	if len(b) < size {
		fault.Check(fmt.Errorf("load tensor %q: %d bytes, not %d", c.name, len(b), size))
	}
	return b[:size]
}

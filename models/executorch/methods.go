package executorch

import (
	"math"
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"

	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// method is an execution plan, as the program has it. Every index in it is valid.
type method struct {
	name            string
	values          []evalue
	inputs, outputs []int // values
	instructions    []instruction
	operators       []string // with their overloads
	delegates       []delegate
}

// evalue is a value of a method.
type evalue struct {
	kind   byte
	tensor *tensor // nil if it is something else
	whole  int64   // an integer, or a boolean as 0 or 1
	number float64
	text   string
	list   []int // values, of a list of integers or of tensors; -1 is a tensor that is not given

	numbers []float64 // of a list
	reading *reading  // where an inference reads the integer, or nil
}

// A reading is an integer that follows from the content of a tensor: its first element, and a number added to it.
type reading struct {
	tensor xnnpack.ValueID // of the plan
	plus   int
}

// uses reports whether more than one instruction has a value, or the method gives it.
func (m *method) uses(value int) bool {
	n := 0
	for _, in := range m.instructions {
		if slices.Contains(in.args, value) {
			n++
		}
	}
	return n > 1 || slices.Contains(m.outputs, value)
}

// usedAfter reports whether anything has a value among its arguments after an instruction with these arguments, or
// returns it.
func (m *method) usedAfter(value int, args []int) bool {
	holds := func(i int) bool { return i == value || slices.Contains(m.values[i].list, value) }
	for _, in := range slices.Backward(m.instructions) {
		if len(in.args) > 0 && &in.args[0] == &args[0] {
			break
		}
		if slices.ContainsFunc(in.args, holds) {
			return true
		}
	}
	return slices.Contains(m.outputs, value)
}

// tensor is one of a method's, whose elements lie densely in memory.
type tensor struct {
	dtype   ScalarType
	shape   []int // in the order of memory, the outermost dimension first
	order   []int // which dimension of the method's each of these is
	dynamic bool  // the shape is the largest one
	state   bool  // it has a content that the method may change
	start   int32 // the element of its memory that it begins at; its content is not looked for then
	content *content
	bare    bool    // it has no dimensions; the shape is that of one number
	memory  *memory // nil if it is given one at inference
}

// memory is where the export planned a tensor.
type memory struct{ id, low, high uint32 }

// maxSteps bounds what is read of a program. In a hostile file chains, delegates and so on may all be the same bytes.
const maxSteps = 1 << 20

// ahead is for how many of a vector's tables memory is made ready at once, at most: a file may claim any number.
const ahead = 4096

// content is where a constant tensor's bytes are: at a place of the program's file, or under a name.
type content struct {
	name string
	span flatbuf.Span // if there is no name; of no size if only its beginning is known
}

// instruction is one step of a method.
type instruction struct {
	kind   instructionKind
	target int   // operator or delegate
	args   []int // values
}

// delegate is a part of a method that a backend computes.
type delegate struct {
	backend string
	blob    flatbuf.Span // in the file
}

// programReader reads the execution plans of a program.
type programReader struct {
	contents
	inline    []flatbuf.Span // data of delegates
	buffers   []flatbuf.Span // of constants in the flatbuffer
	constants flatbuf.Span   // the segment of constants, where there is one
	offsets   []uint64       // of constants in it
}

// readMethods reads what a .pte's methods compute.
func readMethods(c contents) (methods []method) {
	p, root := &programReader{contents: c}, c.table
	spans := func(slot int) (out []flatbuf.Span) {
		for _, t := range root.Tables(slot).All() {
			out = append(out, t.Span(inlineData))
		}
		return out
	}
	p.inline, p.buffers = spans(programDelegateData), spans(programConstantBuffer)
	if t := root.Table(programConstantSegment); t.Present() {
		p.offsets = t.Uint64s(subsegmentOffsets)
		segment := t.Uint32(subsegmentSegment)
		switch {
		case int64(segment) < int64(len(p.segments)):
			p.constants = p.segments[segment]
		case len(p.offsets) > 0:
			malformed("constants are in segment %d of %d", segment, len(p.segments))
		}
	}
	names := map[string]bool{}
	for i, t := range root.Tables(programPlans).All() {
		m := method{name: t.String(planName)}
		fault.Wrap(func() { p.read(&m, t) }, "method %d, %q", i, m.name)
		if names[m.name] {
			malformed("method %q comes twice", m.name)
		}
		names[m.name] = true
		methods = append(methods, m)
	}
	return methods
}

func (p *programReader) read(m *method, t flatbuf.Table) {
	for i, v := range t.Tables(planValues).All() {
		fault.Wrap(func() { m.values = append(m.values, p.value(v)) }, "value %d", i)
	}
	for i, v := range m.values {
		for _, item := range v.list {
			if item >= len(m.values) || item < 0 && (item != -1 || v.kind != evalueOptionalTensorList) {
				malformed("value %d has the value %d of %d", i, item, len(m.values))
			}
		}
	}
	for _, o := range t.Tables(planOperators).All() {
		name := o.String(operatorName)
		if overload := o.String(operatorOverload); overload != "" {
			name += "." + overload
		}
		m.operators = append(m.operators, name)
	}
	for i, d := range t.Tables(planDelegates).All() {
		fault.Wrap(func() { m.delegates = append(m.delegates, p.delegate(d)) }, "delegate %d", i)
	}
	for i, chain := range t.Tables(planChains).All() {
		for j, call := range chain.Tables(chainInstructions).All() {
			var in instruction
			fault.Wrap(func() { in = m.instruction(call) }, "chain %d, instruction %d", i, j)
			if m.instructions = append(m.instructions, in); len(m.instructions) > maxSteps {
				unsupported("more than %d instructions", maxSteps)
			}
		}
	}
	m.inputs, m.outputs = m.indices(t, planInputs), m.indices(t, planOutputs)
}

// indices reads a list of values.
func (m *method) indices(t flatbuf.Table, slot int) []int {
	var out []int
	for _, i := range t.Int32s(slot) {
		if i < 0 || int(i) >= len(m.values) {
			malformed("value %d of %d", i, len(m.values))
		}
		out = append(out, int(i))
	}
	return out
}

func (m *method) instruction(t flatbuf.Table) instruction {
	in := instruction{kind: instructionKind(t.Byte(instructionType))}
	limit, kind := 0, ""
	switch in.kind {
	case kernelCall:
		limit, kind = len(m.operators), "operator"
	case delegateCall:
		limit, kind = len(m.delegates), "delegate"
	case moveCall, jumpFalseCall, freeCall:
		return in
	default:
		malformed("an instruction of type %d", in.kind)
	}
	call := t.Table(instructionArgs)
	target := call.Int32(callIndex, 0)
	if target < 0 || int(target) >= limit {
		malformed("%s %d of %d", kind, target, limit)
	}
	in.target, in.args = int(target), m.indices(call, callArgs)
	return in
}

func (p *programReader) delegate(t flatbuf.Table) delegate {
	d := delegate{backend: t.String(delegateID)}
	reference := t.Table(delegateProcessed)
	list := p.inline
	switch location := reference.Byte(referenceLocation); location {
	case locationInline:
	case locationSegment:
		list = p.segments
	default:
		malformed("its data is at a location of type %d", location)
	}
	index := reference.Uint32(referenceIndex)
	if int64(index) >= int64(len(list)) {
		malformed("its data is number %d of %d", index, len(list))
	}
	d.blob = list[index]
	return d
}

func (p *programReader) value(t flatbuf.Table) evalue {
	v := t.Table(evalueVal)
	e := evalue{kind: t.Byte(evalueType)}
	switch e.kind {
	case evalueTensor:
		e.tensor = p.tensor(v)
	case evalueInt:
		e.whole = int64(v.Uint64(evalueItem))
	case evalueBool:
		e.whole = int64(min(v.Byte(evalueItem), 1))
	case evalueDouble:
		e.number = math.Float64frombits(v.Uint64(evalueItem))
	case evalueString:
		e.text = v.String(evalueItem)
	case evalueIntList:
		for _, i := range v.Int64s(evalueItem) {
			e.list = append(e.list, clampedInt(i))
		}
	case evalueDoubleList:
		for _, i := range v.Int64s(evalueItem) {
			e.numbers = append(e.numbers, math.Float64frombits(uint64(i)))
		}
	case evalueTensorList, evalueOptionalTensorList:
		for _, i := range v.Int32s(evalueItem) {
			e.list = append(e.list, int(i))
		}
	}
	return e
}

func (p *programReader) tensor(v flatbuf.Table) *tensor {
	x := &tensor{dtype: ScalarType(v.Byte(evalueTensorType)), dynamic: v.Byte(evalueTensorDynamism) != dynamismStatic}
	x.start = v.Int32(evalueTensorOffset, 0)
	sizes := v.Int32s(evalueTensorSizes)
	order := v.Vector(evalueTensorDimOrder, flatbuffers.SizeByte)
	x.order = dimOrder(order)
	if !order.Present() || order.Len() == 0 {
		for i := range sizes {
			x.order = append(x.order, i)
		}
	}
	if !flow.Permutation(x.order, len(sizes)) {
		malformed("a tensor of %d dimensions has them in the order %v", len(sizes), x.order)
	}
	for _, d := range x.order {
		if sizes[d] < 0 {
			malformed("a tensor of sizes %v", sizes)
		}
		x.shape = append(x.shape, int(sizes[d]))
	}
	if len(x.shape) == 0 {
		x.shape, x.order, x.bare = scalar(), []int{0}, true
	}
	if allocation := v.Table(evalueTensorAllocation); allocation.Present() {
		x.memory = &memory{allocation.Uint32(allocationMemory), allocation.Uint32(allocationLow),
			allocation.Uint32(allocationHigh)}
	}
	if x.start == 0 {
		p.locate(v, x)
	}
	return x
}

// scalar is the shape that a tensor without dimensions has here: XNNPACK's delegates write [1] for it, too.
func scalar() []int { return []int{1} }

// locate finds a tensor's content, if it has one in the file.
func (p *programReader) locate(t flatbuf.Table, x *tensor) {
	planned := x.memory != nil
	if extra := t.Table(evalueTensorExtra); extra.Present() && extra.Byte(extraLocation) == locationExternal {
		x.content, x.state = &content{name: extra.String(extraName)}, planned
		return
	}
	index := t.Uint32(evalueTensorData)
	switch {
	case index == 0:
	case planned:
		x.state = true
	case len(p.offsets) > 0:
		if int64(index) >= int64(len(p.offsets)) {
			malformed("its content is number %d of %d", index, len(p.offsets))
		}
		offset := p.offsets[index]
		if offset > math.MaxInt64 || int64(offset) > p.constants.Size {
			malformed("its content is at byte %d of a segment of %d", offset, p.constants.Size)
		}
		x.content = &content{span: p.constants}
		x.content.span.Offset += int64(offset)
		x.content.span.Size -= int64(offset)
	case int64(index) < int64(len(p.buffers)):
		x.content = &content{span: p.buffers[index]}
	default:
		malformed("its content is number %d of %d", index, len(p.buffers))
	}
}

package executorch

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// A plan is what a program's methods compute, as one list of steps: the nodes of their delegates, and the copies
// between them. Every step has been checked against the shapes of its operands, so that XNNPACK never sees a value
// that contradicts another. It is made once, by Open, and only read afterwards.
type plan struct {
	files  *files
	values []value
	steps  []*flow.Step
}

// value is a tensor of a plan.
type value struct {
	typed    bool           // whether the type of the elements is known
	tensor   xnnpack.Tensor // without data, and without scales that lie in a file
	scales   *stored        // of channels or blocks, where they lie in a file
	constant *constant
	dynamic  bool       // the shape is the largest one
	bare     bool       // a tensor of the method without dimensions
	dtype    ScalarType // of a method's value
	host     bool       // only Go computes with it: XNNPACK has no such type
	internal bool       // only nodes of one delegate use it: it has the shape that one of them computes
	computed bool       // or given, when an inference begins
}

// planner makes one method's part of a plan.
type planner struct {
	source   *source
	method   *method // a copy of the source's, with the shapes for which it is planned
	files    *files
	plan     *plan
	varying  map[int][]bool             // as in the source
	symbolic map[int]bool               // values: numbers that follow from the shapes
	base     int                        // where the method's own values begin in the plan
	asFloat  map[int]bool               // values of the method: inputs that are converted before they are given
	states   []flow.State               // that the method keeps
	updated  map[int]xnnpack.ValueID    // values of the method that are states: what they are now
	last     map[memory]xnnpack.ValueID // what was computed last at a place
	retained map[xnnpack.ValueID]bool   // what may be states
	outside  bool                       // it has an operator that is not planned
	counts   map[Operator]int           // how often the method has each operator
	reasons  flow.Reasons               // why the method cannot be run, besides operators outside of XNNPACK
	skipped  int                        // attempts that planned nothing
	stock    []delegatePart             // what the stock runtime makes subgraphs of
	external map[xnnpack.ValueID]bool   // arguments of the delegate whose nodes are planned
}

// A delegatePart is a call of a delegate to XNNPACK.
type delegatePart struct {
	flow.Part
	complete bool         // all of its nodes are steps
	blob     flatbuf.Span // in the program's file, as ExecuTorch gives it to its backend
}

// planMethod plans the method for inputs of these shapes, or of the largest ones if there are none.
func (p *planner) planMethod(shapes [][]int) flow.Part {
	m := p.method
	p.base, p.asFloat = len(p.plan.values), m.inputsAsFloats()
	for i, v := range m.values {
		x := value{tensor: xnnpack.Tensor{Name: fmt.Sprint("value ", i)}}
		if v.tensor != nil {
			x.tensor.Shape, x.dynamic, x.dtype = v.tensor.shape, v.tensor.dynamic, v.tensor.dtype
			x.bare = v.tensor.bare
			if v.tensor.start != 0 {
				p.cannot("value %d begins at element %d of its memory", i, v.tensor.start)
			}
		}
		p.plan.values = append(p.plan.values, x)
	}
	if shapes != nil {
		p.shapeInputs(shapes)
	}
	first := len(p.plan.steps)
	for _, i := range m.inputs {
		p.computed(xnnpack.ValueID(p.base + i))
	}
	for _, in := range m.instructions {
		if in.kind != kernelCall {
			continue
		}
		for _, i := range statesOf[m.operators[in.target]] {
			if i < len(in.args) {
				state := xnnpack.ValueID(p.base + in.args[i])
				p.retained[state] = true
				p.useValue(state)
			}
		}
	}
	for i, in := range m.instructions {
		switch in.kind {
		case kernelCall:
			name := m.operators[in.target]
			p.attempt(fmt.Sprintf("instruction %d, %s", i, name), func() {
				if p.scalar(name, in.args) {
					p.count(name, Between)
					return
				}
				p.resizeOutputs(name, in.args)
				p.kernel(name, in.args)
			})
		case delegateCall:
			p.delegate(in.target, in.args)
		case moveCall:
			p.count("a move", Outside)
		case jumpFalseCall:
			p.count("a jump", Outside)
		case freeCall:
		}
		if len(p.plan.steps) > maxSteps || len(p.plan.values) > 4*maxSteps {
			unsupported("%d nodes and %d values", len(p.plan.steps), len(p.plan.values))
		}
	}
	p.externals()
	whole := flow.Part{Values: p.plan, Constants: &flow.Constants{}, Name: p.files.program().Path(), States: p.states}
	for _, i := range m.inputs {
		whole.Inputs = append(whole.Inputs, xnnpack.ValueID(p.base+i))
	}
	for i, n := range m.outputs {
		out := xnnpack.ValueID(p.base + n)
		whole.Outputs = append(whole.Outputs, out)
		p.attempt(fmt.Sprint("output ", i), func() { p.available(out) })
	}
	whole.Steps = slices.Clone(p.plan.steps[first:])
	return whole
}

// available sees that a value is computed or given before it is read. What the export left out is planned: a tensor
// that nothing computes is another view of the last value at its place in memory.
func (p *planner) available(i xnnpack.ValueID) {
	t, v := p.tensorOf(i), &p.plan.values[i]
	if v.computed || v.constant != nil || p.retained[i] {
		return
	}
	missing := fmt.Errorf("%q: %w", v.tensor.Name, errNotComputed)
	if t == nil || t.memory == nil {
		fault.Check(missing)
	}
	prev, ok := p.last[*t.memory]
	if !ok {
		fault.Check(missing)
	}
	p.know(int(prev) - p.base) // an input has no type until something reads it
	if src := &p.plan.values[prev]; src.host != v.host || src.dtype != v.dtype ||
		src.tensor.Type != v.tensor.Type || !sameMeaning(src, v) || src.dynamic || v.dynamic ||
		!slices.IsSorted(t.order) || !slices.IsSorted(p.tensorOf(prev).order) ||
		product(src.tensor.Shape) != product(v.tensor.Shape) {
		fault.Check(missing)
	}
	if v.constant = p.plan.values[prev].constant; v.constant != nil {
		return
	}
	src := p.current(int(prev) - p.base)
	p.add("a view", flow.StaticReshape(xnnpack.StaticReshape{Shape: v.tensor.Shape, Input: src, Output: i}))
}

// require sees that a value is available to a step. What a delegate is given is available to its nodes, also where the
// method cannot be run since nothing computes it here.
func (p *planner) require(name string, id xnnpack.ValueID) {
	missing := fault.Try(func() { p.available(id) })
	if missing == nil || !p.external[id] {
		fault.Check(missing)
		return
	}
	skipped := p.skipped
	p.notPlanned(name, missing)
	p.skipped, p.plan.values[id].computed = skipped, true
}

// computed notes that a value is computed or given.
func (p *planner) computed(i xnnpack.ValueID) {
	p.plan.values[i].computed = true
	p.useValue(i)
}

// useValue notes that a value is what its place in memory has.
func (p *planner) useValue(i xnnpack.ValueID) {
	if t := p.tensorOf(i); t != nil && t.memory != nil {
		p.last[*t.memory] = i
	}
}

// current returns the value of the plan that a value of the method is now: a state becomes others.
func (p *planner) current(value int) xnnpack.ValueID {
	if id, ok := p.updated[value]; ok {
		return id
	}
	return xnnpack.ValueID(p.base + value)
}

// tensorOf returns the method's tensor that a value of the plan is, or nil.
func (p *planner) tensorOf(value xnnpack.ValueID) *tensor {
	if i := int(value) - p.base; i >= 0 && i < len(p.method.values) {
		return p.method.values[i].tensor
	}
	return nil
}

func (p *planner) count(name string, place Where) {
	p.counts[Operator{Name: name, Place: place}]++
	p.outside = p.outside || place == Outside
}

// inputsAsFloats returns the inputs of other types with which the method does nothing but to convert them to floats:
// images of bytes, for instance. The caller converts such an input.
func (m *method) inputsAsFloats() map[int]bool {
	out := map[int]bool{}
	for _, i := range m.inputs {
		if t := m.values[i].tensor; t != nil && t.content == nil && !t.state && convertible(t.dtype, Float) {
			out[i] = !slices.Contains(m.outputs, i) && m.onlyConverts(i) && !m.viewed(i)
		}
	}
	return out
}

// viewed reports whether another tensor of as many elements may be a view of a value: it shares the memory.
func (m *method) viewed(i int) bool {
	t := m.values[i].tensor
	return t.memory != nil && slices.ContainsFunc(m.values, func(v evalue) bool {
		return v.tensor != nil && v.tensor != t && v.tensor.memory != nil && *v.tensor.memory == *t.memory &&
			v.tensor.dtype == t.dtype && product(v.tensor.shape) == product(t.shape)
	})
}

// onlyConverts reports whether a value is used, and only by conversions to floats.
func (m *method) onlyConverts(i int) bool {
	used := false
	for _, in := range m.instructions {
		index := slices.Index(in.args, i)
		if index < 0 {
			continue
		}
		used = true
		out := m.values[in.args[len(in.args)-1]].tensor
		copied := in.kind == kernelCall && slices.Contains(copies, m.operators[in.target]) &&
			out != nil && out.dtype == Float
		if !copied || index > 0 || slices.Contains(in.args[1:], i) {
			return false
		}
	}
	return used
}

// sameMeaning reports whether the elements of two values of a type mean the same numbers.
func sameMeaning(a, b *value) bool {
	x, y := &a.tensor.Quantization, &b.tensor.Quantization
	return x.Scale == y.Scale && x.ZeroPoint == y.ZeroPoint
}

// elementTypes are what the elements of a method's tensors are to XNNPACK, unless something else defines their meaning.
var elementTypes = map[ScalarType]xnnpack.Datatype{
	Float: xnnpack.Float32, Half: xnnpack.Float16, BFloat16: xnnpack.BFloat16, Int: xnnpack.Int32,
}

// know makes sure that it is known what a method's value is to XNNPACK or, if it is nothing there, to Go.
func (p *planner) know(i int) {
	v, t := &p.plan.values[p.base+i], p.method.values[i].tensor
	if v.typed {
		return
	}
	if t == nil {
		unsupported("value %d is no tensor", i)
	}
	kind, ok := elementTypes[t.dtype]
	if p.asFloat[i] {
		kind, ok = xnnpack.Float32, true
	}
	if !ok && declared[t.dtype] == 0 && t.dtype != ComplexFloat {
		unsupported("value %d is a tensor of %v", i, t.dtype)
	}
	if t.state {
		unsupported("value %d is a state that the method keeps", i)
	}
	v.tensor.Type = kind
	fault.Wrap(func() {
		count := flow.Elements
		if t.content != nil {
			count = flow.ConstantElements
		}
		var n int
		if checked(func() { n = fault.Value(count(t.shape...)) }); ok {
			p.complete(v, t.content, nil)
		} else if t.content != nil {
			v.constant = p.files.constant(t.content, int64(n)*int64(t.dtype.Size()))
		}
	}, "value %d", i)
	v.typed, v.host = true, !ok
}

// complete checks a value's shape, and finds its content and scales if it has them.
func (p *planner) complete(v *value, c, scales *content) {
	size := v.byteSize(v.tensor.Shape)
	if c != nil {
		if size == 0 {
			malformed("a constant of shape %v", v.tensor.Shape)
		}
		v.constant = p.files.constant(c, int64(size))
	}
	count, perScale := scaleCount(&v.tensor)
	if scales == nil {
		return // package xnnpack checks the present ones
	}
	if count == 0 {
		malformed("a list of scales for elements of %v", v.tensor.Type)
	}
	span := p.files.find(scales, int64(count)*int64(perScale))
	v.scales = &span
}

// byteSize is the size that the value has in a shape.
func (v *value) byteSize(shape []int) (size int) {
	checked(func() { size = fault.Value(v.tensor.Type.ByteSize(shape)) })
	return size
}

// shapeAt returns the shape of a value of the plan.
func (p *planner) shapeAt(id xnnpack.ValueID) []int { return p.plan.values[id].tensor.Shape }

// errNotComputed is returned for a step that reads what no step computes before it.
var errNotComputed = fmt.Errorf("%w: it is not computed before it is used", ErrMalformed)

// add appends a step, whose operands' shapes must fit together.
func (p *planner) add(name string, op flow.Operation) {
	inputs, outputs := op.Operands()
	var shapes [][]int
	for _, in := range inputs {
		p.require(name, in)
		shapes = append(shapes, p.shapeAt(in))
	}
	var shape []int
	checked(func() { shape = op.Shape(shapes) })
	p.adopt(outputs[0], shape)
	p.plan.values[outputs[0]].compute(shape)
	if mover, ok := op.(flow.Node); ok && mover.Moves() && p.inGo(inputs, outputs[0]) {
		op = flow.Hosted{Inputs: inputs, Results: outputs, Computed: shape,
			Compute: mover.Move}
	}
	p.computed(outputs[0])
	p.plan.steps = append(p.plan.steps, &flow.Step{Name: p.named(name), Operation: op})
}

// named is what errors call a step.
func (p *planner) named(name string) string {
	return "method " + strconv.Quote(p.method.name) + ", " + name
}

// inGo reports whether only Go has the elements that are moved from some values to another.
func (p *planner) inGo(inputs ids, out xnnpack.ValueID) bool {
	dst := &p.plan.values[out]
	for _, in := range inputs {
		if src := &p.plan.values[in]; src.host != dst.host || dst.host && src.dtype != dst.dtype {
			malformed("it moves elements of %v and %v", src.dtype, dst.dtype)
		}
	}
	return dst.host
}

// compute gives a value the shape that a step computes. An internal one takes it, as with XNNPACK: ExecuTorch's export
// notes the dimensions of images that are quantised there in another order. But lists of scales were found for one
// shape.
func (v *value) compute(shape []int) {
	if v.constant != nil {
		malformed("it computes a constant")
	}
	if v.computed {
		malformed("%q is computed twice", v.tensor.Name)
	}
	if elements(shape...); slices.Equal(shape, v.tensor.Shape) {
		return
	}
	if v.internal && v.tensor.Shape == nil {
		v.tensor.Shape = shape
		return
	}
	v.byteSize(shape)
	if scales, _ := scaleCount(&v.tensor); !v.internal || scales > 0 {
		malformed("it computes the shape %v, where its output has %v", shape, v.tensor.Shape)
	}
	v.tensor.Shape = shape
}

// attempt plans something, or notes why it is no step. It reports whether it is one.
func (p *planner) attempt(name string, plan func()) bool {
	err := fault.Try(plan)
	if err != nil {
		p.notPlanned(name, err)
	}
	return err == nil
}

// notPlanned notes why something is no step. That it needs what is no step either is no reason of its own.
func (p *planner) notPlanned(name string, err error) {
	p.skipped++
	if errors.Is(err, errNotComputed) && (p.outside || p.reasons.Len() > 0) {
		return
	}
	p.reason(fmt.Errorf("%s: %w", name, err))
}

// value appends a value.
func (p *plan) value(v value) xnnpack.ValueID {
	p.values = append(p.values, v)
	return xnnpack.ValueID(len(p.values) - 1)
}

// internal appends a value that only XNNPACK sees.
func (p *plan) internal(t xnnpack.Tensor) xnnpack.ValueID {
	return p.value(value{typed: true, internal: true, tensor: t})
}

// delegate plans a call of a delegate.
func (p *planner) delegate(number int, args []int) {
	d := p.method.delegates[number]
	if d.backend != xnnpackBackend {
		p.count("a delegate to "+d.backend, Outside)
		return
	}
	var g *graph
	var xvalues, nodes flatbuf.Vector
	fault.Wrap(func() {
		g = readGraph(p.files.program().file.Data(), d.blob)
		xvalues, nodes = g.table.Tables(graphValues), g.table.Tables(graphNodes)
		if xvalues.Len() > maxSteps || nodes.Len() > maxSteps {
			unsupported("%d values and %d nodes", xvalues.Len(), nodes.Len())
		}
	}, "delegate %d, its graph", number)
	p.plan.values = slices.Grow(p.plan.values, min(xvalues.Len(), ahead))
	p.plan.steps = slices.Grow(p.plan.steps, min(nodes.Len(), ahead))
	ids := make(map[uint32]xnnpack.ValueID, min(xvalues.Len(), ahead))
	prefix := "delegate " + strconv.Itoa(number) + ", "
	part, first := flow.Part{Values: p.plan, Name: p.files.program().Path()}, len(p.plan.steps)
	p.external = map[xnnpack.ValueID]bool{}
	external := map[uint32]bool{}
	for i, t := range xvalues.All() {
		fault.Wrap(func() {
			x := g.value(t)
			if (x.input || x.output) && external[x.external] {
				malformed("argument %d is two values", x.external)
			}
			external[x.external] = external[x.external] || x.input || x.output
			p.define(&x, prefix+"value "+strconv.FormatUint(uint64(x.id), 10), args, ids)
			if x.output {
				part.Outputs = append(part.Outputs, ids[x.id])
			}
		}, "%svalue %d", prefix, i)
	}
	skipped := p.skipped
	for i, t := range nodes.All() {
		k := kindOf(t.Byte(xnodeType))
		handle := strconv.FormatUint(uint64(t.Uint32(xnodeHandle)), 10)
		name := prefix + "node " + strconv.Itoa(i) + " (" + k.name + ", debug handle " + handle + ")"
		p.count(k.name, InDelegate)
		fault.Wrap(func() { p.node(t, k, name, ids) }, "%s", name)
	}
	p.addStock(delegatePart{part, p.skipped == skipped, d.blob}, p.plan.steps[first:])
}

// addStock notes a delegate as the stock runtime builds it, by itself: XNNPACK may pack otherwise what it can fuse with
// nodes of the method around it.
func (p *planner) addStock(part delegatePart, steps []*flow.Step) {
	computed, read := map[xnnpack.ValueID]bool{}, map[xnnpack.ValueID]bool{}
	for _, s := range steps {
		inputs, outputs := s.Operands()
		if p.external[outputs[0]] {
			continue // a view of the method's, made for the delegate to read
		}
		part.Steps = append(part.Steps, s)
		for _, id := range inputs {
			if !computed[id] && !read[id] && p.plan.values[id].constant == nil {
				read[id] = true
				part.Inputs = append(part.Inputs, id)
			}
		}
		for _, id := range outputs {
			computed[id] = true
		}
	}
	part.Outputs = slices.DeleteFunc(part.Outputs, func(id xnnpack.ValueID) bool { return !computed[id] })
	p.external = nil
	p.stock = append(p.stock, part)
}

// define makes a value of a delegate one of the plan.
func (p *planner) define(x *xvalue, name string, args []int, ids map[uint32]xnnpack.ValueID) {
	if _, ok := ids[x.id]; ok || x.id == invalidID {
		malformed("the number %d is taken", x.id)
	}
	x.tensor.Name = name
	v := value{typed: true, internal: !x.input && !x.output, tensor: x.tensor}
	p.complete(&v, x.constant, x.scales)
	if v.internal {
		ids[x.id] = p.plan.value(v)
		return
	}
	if v.constant != nil {
		malformed("an argument with a content")
	}
	if int64(x.external) >= int64(len(args)) {
		malformed("argument %d of %d", x.external, len(args))
	}
	i := args[x.external]
	argument := p.current(i)
	if t := p.method.values[i].tensor; t != nil && t.dynamic && len(t.shape) == len(v.tensor.Shape) {
		v.tensor.Shape = t.shape // the delegate has the largest one
	}
	label := fmt.Sprintf("argument %d, value %d of the method", x.external, i)
	if p.attempt(name+": "+label, func() { p.agrees(i, &v) }) {
		fault.Wrap(func() { p.bind(i, v) }, "%s", label)
	} else {
		_, bad := flow.Elements(v.tensor.Shape...)
		v.internal = x.output || bad != nil
		v.computed = !v.internal
		argument = p.plan.value(v)
	}
	ids[x.id] = argument
	p.external[argument] = x.input
	if !x.dynamic {
		return
	}
	t := xnnpack.Tensor{
		Name: name + ", quantised", Type: xnnpack.DynamicQInt8, Shape: x.tensor.Shape,
		Quantization: xnnpack.Quantization{NonBatchDims: 1},
	}
	quantised := p.plan.internal(t)
	ids[x.id] = quantised
	p.count("Convert", InDelegate)
	p.attempt(name, func() { p.add(name, flow.Convert(argument, quantised)) })
}

// argumentTypes are how a method has what XNNPACK takes and gives.
var argumentTypes = map[xnnpack.Datatype]ScalarType{
	xnnpack.Float32: Float, xnnpack.Float16: Half, xnnpack.BFloat16: BFloat16,
	xnnpack.QInt8: Char, xnnpack.QUint8: Byte, xnnpack.Int32: Int, xnnpack.QInt32: Int,
}

// agrees checks that value i of the method is what a delegate takes it for.
func (p *planner) agrees(i int, actual *value) {
	v, t := &p.plan.values[p.base+i], p.method.values[i].tensor
	if t == nil {
		malformed("it is no tensor")
	}
	if want, ok := argumentTypes[actual.tensor.Type]; !ok || want != t.dtype {
		malformed("a tensor of %v where the delegate has %v", t.dtype, actual.tensor.Type)
	}
	if !slices.Equal(t.shape, actual.tensor.Shape) {
		malformed("a tensor of shape %v in memory where the delegate has %v", t.shape, actual.tensor.Shape)
	}
	if v.host || v.typed && (v.tensor.Type != actual.tensor.Type || !sameMeaning(v, actual)) {
		malformed("delegates take it for other things")
	}
	elements(t.shape...)
}

// bind defines value i of the method: an argument of a delegate.
func (p *planner) bind(i int, actual value) {
	v, t := &p.plan.values[p.base+i], p.method.values[i].tensor
	if v.typed {
		return
	}
	v.tensor.Type, v.tensor.Quantization = actual.tensor.Type, actual.tensor.Quantization
	if t.state {
		p.cannot("value %d is a state that the method keeps", i)
	}
	p.complete(v, t.content, nil)
	v.typed = true
}

// node plans a node. One that packs nothing is left out if it cannot be run, which is a reason why the method cannot.
func (p *planner) node(t flatbuf.Table, k kind, name string, ids map[uint32]xnnpack.ValueID) {
	if k.decode == nil {
		p.reason(fmt.Errorf("%s: %w", name, ErrUnsupportedOp))
		return
	}
	d := &decoder{plan: p.plan, t: t.Table(xnodeVal), ids: ids}
	if limits := t.Table(xnodeMinMax); limits.Present() {
		r := xnnpack.Range{Min: limits.Float32(0, 0), Max: limits.Float32(1, 0)}
		if r.Min < r.Max {
			d.limits = r
		} else {
			d.strange("its output is limited to %g to %g", r.Min, r.Max)
		}
	}
	if !d.t.Present() {
		malformed("it has no fields")
	}
	op := k.decode(d)
	attempt, add := p.attempt, func(name string, op flow.Node) { p.add(name, op) }
	if (flow.Part{Values: p.plan}).Packs(op) {
		attempt = func(_ string, plan func()) bool { plan(); return true }
		add = p.addPacking
	}
	if !attempt(name, func() { fault.Check(d.odd) }) {
		return
	}
	attempt(name, func() {
		if d.unknownFlags != 0 {
			unsupported("the node's flags %#x", d.unknownFlags)
		}
	})
	attempt(name, func() {
		switch n := op.N.(type) {
		case xnnpack.StaticReduce:
			p.mean(name, n, d.limits)
		case xnnpack.FullyConnected:
			p.fullyConnected(name, n, add)
		default:
			add(name, op)
		}
	})
}

// mean adds a global average pooling. XNNPACK keeps the images' dimensions as its output has them, and does not limit
// a mean.
func (p *planner) mean(name string, n xnnpack.StaticReduce, limits xnnpack.Range) {
	in, out := p.plan.values[n.Input].tensor, p.plan.values[n.Output].tensor
	checked(func() { flow.Images(in.Shape) })
	n.KeepDims = len(out.Shape) == len(in.Shape)
	if unbounded(limits) {
		p.add(name, flow.StaticReduce(n))
		return
	}
	out.Name += ", unlimited"
	limited := n.Output
	n.Output = p.plan.internal(out)
	p.add(name, flow.StaticReduce(n))
	clamp := xnnpack.Unary{Op: xnnpack.Clamp, Limits: limits, Input: n.Output, Output: limited}
	p.add(name, flow.Unary(clamp))
}

func unbounded(r xnnpack.Range) bool {
	return r == (xnnpack.Range{}) || math.IsInf(float64(r.Min), -1) && math.IsInf(float64(r.Max), 1)
}

// fullyConnected adds a node. One of bfloat16 computes single precision, from which its output is converted.
func (p *planner) fullyConnected(name string, n xnnpack.FullyConnected, add func(string, flow.Node)) {
	bf16 := func(id xnnpack.ValueID) bool { return p.plan.values[id].tensor.Type == xnnpack.BFloat16 }
	if !bf16(n.Input) || !bf16(n.Filter) || !bf16(n.Output) {
		add(name, flow.FullyConnected(n))
		return
	}
	t, rounded := p.plan.values[n.Output].tensor, n.Output
	t.Name, t.Type = t.Name+", in single precision", xnnpack.Float32
	n.Output = p.plan.internal(t)
	add(name, flow.FullyConnected(n))
	p.add(name, flow.Convert(n.Output, rounded))
}

// externals sees that the method's inputs and outputs are something XNNPACK knows.
func (p *planner) externals() {
	if len(p.method.inputs) == 0 || len(p.method.outputs) == 0 {
		p.cannot("it has %d inputs and %d outputs", len(p.method.inputs), len(p.method.outputs))
	}
	seen := map[int]bool{}
	for i, n := range p.method.inputs {
		if seen[n] || p.plan.values[p.base+n].constant != nil {
			p.cannot("input %d is given twice, or a constant", i)
		}
		seen[n] = true
	}
	for i, n := range slices.Concat(p.method.inputs, p.method.outputs) {
		name := "input"
		if i >= len(p.method.inputs) {
			name, i = "output", i-len(p.method.inputs)
		}
		p.attempt(fmt.Sprint(name, " ", i), func() {
			if p.know(n); p.plan.values[p.base+n].dtype == ComplexFloat {
				unsupported("value %d is a tensor of %v", n, ComplexFloat)
			}
		})
	}
}

// reason notes why the method cannot be run.
func (p *planner) reason(err error) {
	p.skipped++
	p.reasons.Add(err.Error(), err)
}

// cannot notes what of the method is not supported.
func (p *planner) cannot(format string, args ...any) {
	p.reason(fault.Try(func() { unsupported(format, args...) }))
}

// runnable returns nil, or an error with all reasons why the method cannot be run here: the operators that are
// outside of XNNPACK first, in one list.
func (p *planner) runnable() error {
	var outside []string
	for o, n := range p.counts {
		if o.Place != Outside {
			continue
		}
		name := o.Name
		if n > 1 {
			name = fmt.Sprintf("%s (%d times)", name, n)
		}
		outside = append(outside, name)
	}
	if len(outside) == 0 {
		return p.reasons.Err()
	}
	slices.Sort(outside)
	return errors.Join(fmt.Errorf("%w: %s", ErrUnsupportedOp, strings.Join(outside, ", ")), p.reasons.Err())
}

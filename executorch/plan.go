package executorch

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

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
	known    bool           // whether anything said what the elements are
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
	method  *method
	files   *files
	plan    *plan
	base    int                        // where the method's own values begin in the plan
	asFloat map[int]bool               // values of the method: inputs that are converted before they are given
	states  []flow.State               // that the method keeps
	last    map[memory]xnnpack.ValueID // what was computed last at a place
	kept    map[xnnpack.ValueID]bool   // what may be states
	outside bool                       // it has an operator that is not planned
	calls   int                        // of XNNPACK's delegates
	counts  map[Operator]int           // how often the method has each operator
	reasons reasons                    // why the method cannot be run, besides operators outside of XNNPACK
}

func (p *planner) planMethod() (flow.Part, error) {
	m := p.method
	p.base, p.asFloat = len(p.plan.values), m.inputsAsFloats()
	for i, v := range m.values {
		x := value{tensor: xnnpack.Tensor{Name: fmt.Sprint("value ", i)}}
		if v.tensor != nil {
			x.tensor.Shape, x.dynamic, x.dtype = v.tensor.shape, v.tensor.dynamic, v.tensor.dtype
			x.bare = v.tensor.bare
			if v.tensor.within != 0 {
				p.cannot("value %d begins at element %d of its memory", i, v.tensor.within)
			}
		}
		p.plan.values = append(p.plan.values, x)
	}
	first := len(p.plan.steps)
	for _, i := range m.inputs {
		p.computed(xnnpack.ValueID(p.base + i))
	}
	for _, in := range m.instructions {
		if in.kind == kernelCall && m.operators[in.target] == keeping && len(in.args) > 0 {
			state := xnnpack.ValueID(p.base + in.args[0])
			p.kept[state] = true
			p.at(state)
		}
	}
	for i, in := range m.instructions {
		var err error
		switch in.kind {
		case kernelCall:
			name := m.operators[in.target]
			if err := p.kernel(name, in.args); err != nil {
				p.notPlanned(fmt.Sprintf("instruction %d, %s", i, name), err)
			}
		case delegateCall:
			if err = p.delegate(in.target, in.args); err != nil {
				err = fmt.Errorf("delegate %d, %w", in.target, err)
			}
		case moveCall:
			p.count("a move", Outside)
		case jumpFalseCall:
			p.count("a jump", Outside)
		case freeCall:
		}
		if err != nil {
			return flow.Part{}, err
		}
		if len(p.plan.steps) > maxSteps || len(p.plan.values) > 4*maxSteps {
			return flow.Part{}, fmt.Errorf("%w: %d nodes and %d values",
				ErrUnsupported, len(p.plan.steps), len(p.plan.values))
		}
	}
	p.externals()
	whole := flow.Part{Values: p.plan, States: p.states}
	for _, i := range m.inputs {
		whole.Inputs = append(whole.Inputs, xnnpack.ValueID(p.base+i))
	}
	for i, n := range m.outputs {
		out := xnnpack.ValueID(p.base + n)
		whole.Outputs = append(whole.Outputs, out)
		if err := p.available(out); err != nil {
			p.notPlanned(fmt.Sprint("output ", i), err)
		}
	}
	whole.Steps = slices.Clone(p.plan.steps[first:])
	return whole, nil
}

// available sees that a value is computed or given before it is read. What the export left out is planned: a tensor
// that nothing computes is another view of what was computed last at its place in memory.
func (p *planner) available(i xnnpack.ValueID) error {
	t, v := p.tensorOf(i), &p.plan.values[i]
	if v.computed || v.constant != nil || p.kept[i] {
		return nil
	}
	missing := fmt.Errorf("%q: %w", v.tensor.Name, errNotComputed)
	if t == nil || t.memory == nil {
		return missing
	}
	of, is := p.last[*t.memory]
	if from := &p.plan.values[of]; !is || from.host != v.host || from.dtype != v.dtype ||
		from.tensor.Type != v.tensor.Type || !sameMeaning(from, v) || from.dynamic || v.dynamic ||
		!slices.IsSorted(t.order) || !slices.IsSorted(p.tensorOf(of).order) ||
		product(from.tensor.Shape) != product(v.tensor.Shape) {
		return missing
	}
	op := flow.StaticReshape(xnnpack.StaticReshape{Shape: v.tensor.Shape, Input: of, Output: i})
	return p.add("a view", op)
}

// computed notes that a value is computed or given.
func (p *planner) computed(i xnnpack.ValueID) {
	p.plan.values[i].computed = true
	p.at(i)
}

// at notes that a value is what its place in memory has.
func (p *planner) at(i xnnpack.ValueID) {
	if t := p.tensorOf(i); t != nil && t.memory != nil {
		p.last[*t.memory] = i
	}
}

// tensorOf returns the method's tensor that a value of the plan is, or nil.
func (p *planner) tensorOf(value xnnpack.ValueID) *tensor {
	if i := int(value) - p.base; i >= 0 && i < len(p.method.values) {
		return p.method.values[i].tensor
	}
	return nil
}

func (p *planner) count(name string, where Where) {
	p.counts[Operator{Name: name, Where: where}]++
	p.outside = p.outside || where == Outside
}

// inputsAsFloats returns the inputs of other types with which the method does nothing but to convert them to floats:
// images of bytes, for instance. Whoever gives such an input converts it.
func (m *method) inputsAsFloats() map[int]bool {
	out := map[int]bool{}
	for _, i := range m.inputs {
		if t := m.values[i].tensor; t != nil && t.content == nil && !t.state && convertible(t.dtype, Float) {
			out[i] = !slices.Contains(m.outputs, i) && m.onlyConverts(i)
		}
	}
	return out
}

// onlyConverts reports whether a value is used, and only by conversions to floats.
func (m *method) onlyConverts(i int) bool {
	used := false
	for _, in := range m.instructions {
		at := slices.Index(in.args, i)
		if at < 0 {
			continue
		}
		used = true
		to := m.values[in.args[len(in.args)-1]].tensor
		copied := in.kind == kernelCall && slices.Contains(copies, m.operators[in.target]) &&
			to != nil && to.dtype == Float
		if !copied || at > 0 || slices.Contains(in.args[1:], i) {
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

// elementTypes are what the elements of a method's tensors are to XNNPACK, if nothing else says what they mean.
var elementTypes = map[ScalarType]xnnpack.Datatype{
	Float: xnnpack.Float32, Half: xnnpack.Float16, BFloat16: xnnpack.BFloat16, Int: xnnpack.Int32,
}

// know makes sure that it is known what a method's value is to XNNPACK or, if it is nothing there, to Go.
func (p *planner) know(i int) error {
	v, t := &p.plan.values[p.base+i], p.method.values[i].tensor
	if v.known {
		return nil
	}
	if t == nil {
		return fmt.Errorf("%w: value %d is no tensor", ErrUnsupported, i)
	}
	kind, has := elementTypes[t.dtype]
	if p.asFloat[i] {
		kind, has = xnnpack.Float32, true
	}
	if !has && declared[t.dtype] == 0 {
		return fmt.Errorf("%w: value %d is a tensor of %v", ErrUnsupported, i, t.dtype)
	}
	if t.state {
		return fmt.Errorf("%w: value %d is a state that the method keeps", ErrUnsupported, i)
	}
	n, err := elements(t.shape...)
	if v.tensor.Type = kind; err == nil && has {
		err = p.complete(v, t.content, nil)
	} else if err == nil && t.content != nil {
		v.constant, err = p.files.constant(t.content, int64(n)*int64(t.dtype.Size()))
	}
	if err != nil {
		return fmt.Errorf("value %d: %w", i, err)
	}
	v.known, v.host = true, !has
	return nil
}

// complete checks a value's shape, and finds its content and scales if it has them.
func (p *planner) complete(v *value, c, scales *content) error {
	size, err := v.tensor.Type.ByteSize(v.tensor.Shape)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if c != nil {
		if size == 0 {
			return malformed("a constant of shape %v", v.tensor.Shape)
		}
		if v.constant, err = p.files.constant(c, int64(size)); err != nil {
			return err
		}
	}
	count, each, err := scaleCount(&v.tensor)
	if err != nil {
		return err
	}
	if scales == nil {
		return nil // package xnnpack checks those that are there
	}
	if count == 0 {
		return malformed("a list of scales for elements of %v", v.tensor.Type)
	}
	at, err := p.files.find(scales, int64(count)*int64(each))
	v.scales = &at
	return err
}

// ours returns an error of package flow as one of this package.
func ours(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrMalformed), errors.Is(err, ErrUnsupported):
		return err
	case errors.As(err, &flow.Unsupported{}):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return fmt.Errorf("%w: %w", ErrMalformed, err)
}

// elements multiplies dimensions, all of which must be positive.
func elements(shape ...int) (int, error) {
	n, err := flow.Elements(shape...)
	return n, ours(err)
}

// shapeAt returns the shape of a value of the plan.
func (p *planner) shapeAt(id xnnpack.ValueID) []int { return p.plan.values[id].tensor.Shape }

// errNotComputed is returned for a step that reads what no step computes before it.
var errNotComputed = malformed("it is not computed before it is used")

// add appends a step, whose operands' shapes must fit together.
func (p *planner) add(name string, op flow.Operation) error {
	inputs, outputs := op.Operands()
	var shapes [][]int
	for _, in := range inputs {
		if err := p.available(in); err != nil {
			return err
		}
		shapes = append(shapes, p.shapeAt(in))
	}
	var shape []int
	err := ours(fault.Try(func() { shape = op.Shape(shapes) }))
	if err == nil {
		err = p.plan.values[outputs[0]].compute(shape)
	}
	if mover, is := op.(flow.Mover); err == nil && is && mover.Moves() {
		var inGo bool
		if inGo, err = p.inGo(inputs, outputs[0]); inGo {
			op = flow.Hosted{Inputs: inputs, Results: outputs, Computed: shape,
				Compute: func(out, in []array) error { return mover.Move(out[0], in) }}
		}
	}
	if err != nil {
		return err
	}
	p.computed(outputs[0])
	p.plan.steps = append(p.plan.steps, &flow.Step{Name: p.named(name), Operation: op})
	return nil
}

// named is what errors call a step.
func (p *planner) named(name string) string {
	return "method " + strconv.Quote(p.method.name) + ", " + name
}

// inGo reports whether only Go has the elements that are moved from some values to another.
func (p *planner) inGo(inputs ids, out xnnpack.ValueID) (bool, error) {
	to := &p.plan.values[out]
	for _, in := range inputs {
		if from := &p.plan.values[in]; from.host != to.host || to.host && from.dtype != to.dtype {
			return false, malformed("it moves elements of %v and %v", from.dtype, to.dtype)
		}
	}
	return to.host, nil
}

// compute gives a value the shape that a step computes. An internal one takes it, as with XNNPACK: ExecuTorch's export
// notes the dimensions of images that are quantised there in another order. But lists of scales were found for one
// shape.
func (v *value) compute(shape []int) error {
	if v.constant != nil {
		return malformed("it computes a constant")
	}
	if v.computed {
		return malformed("%q is computed twice", v.tensor.Name)
	}
	if _, err := elements(shape...); err != nil {
		return err
	}
	if slices.Equal(shape, v.tensor.Shape) {
		return nil
	}
	if _, err := v.tensor.Type.ByteSize(shape); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	scales, _, err := scaleCount(&v.tensor)
	if err != nil {
		return err
	}
	if !v.internal || scales > 0 {
		return malformed("it computes the shape %v, where its output has %v", shape, v.tensor.Shape)
	}
	v.tensor.Shape = shape
	return nil
}

// notPlanned notes why something is no step. That it needs what is no step either is no reason of its own.
func (p *planner) notPlanned(name string, err error) {
	if errors.Is(err, errNotComputed) && (p.outside || !p.reasons.none()) {
		return
	}
	p.reasons.add(fmt.Errorf("%s: %w", name, err))
}

// internal appends a value that only XNNPACK sees.
func (p *plan) internal(t xnnpack.Tensor) xnnpack.ValueID {
	p.values = append(p.values, value{known: true, internal: true, tensor: t})
	return xnnpack.ValueID(len(p.values) - 1)
}

// delegate plans a call of a delegate. Its error begins with what of the delegate it is about.
func (p *planner) delegate(number int, args []int) error {
	d := p.method.delegates[number]
	if d.backend != xnnpackBackend {
		p.count("a delegate to "+d.backend, Outside)
		return nil
	}
	p.calls++
	g, err := readGraph(p.files.program().file.Data(), d.blob)
	if err != nil {
		return fmt.Errorf("its graph: %w", err)
	}
	xvalues, nodes := g.table.Tables(graphValues), g.table.Tables(graphNodes)
	if xvalues.Len() > maxSteps || nodes.Len() > maxSteps {
		return fmt.Errorf("its graph: %w: %d values and %d nodes", ErrUnsupported, xvalues.Len(), nodes.Len())
	}
	p.plan.values = slices.Grow(p.plan.values, min(xvalues.Len(), ahead))
	p.plan.steps = slices.Grow(p.plan.steps, min(nodes.Len(), ahead))
	ids := make(map[uint32]xnnpack.ValueID, min(xvalues.Len(), ahead))
	here := "delegate " + strconv.Itoa(number) + ", "
	given := map[uint32]bool{}
	for i := range xvalues.Len() {
		err := fault.Try(func() {
			x := g.value(xvalues.Table(i))
			if (x.input || x.output) && given[x.external] {
				fault.Check(malformed("argument %d is two values", x.external))
			}
			given[x.external] = given[x.external] || x.input || x.output
			fault.Check(p.define(&x, here+"value "+strconv.FormatUint(uint64(x.id), 10), args, ids))
		})
		if err != nil {
			return fmt.Errorf("value %d: %w", i, err)
		}
	}
	for i := range nodes.Len() {
		t := nodes.Table(i)
		k := kindOf(t.Byte(xnodeType))
		handle := strconv.FormatUint(uint64(t.Uint32(xnodeHandle)), 10)
		name := "node " + strconv.Itoa(i) + " (" + k.name + ", debug handle " + handle + ")"
		p.count(k.name, InDelegate)
		err := p.node(t, k, here+name, ids)
		if err == nil {
			err = g.table.Err()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return g.table.Err()
}

// define makes a value of a delegate one of the plan.
func (p *planner) define(x *xvalue, name string, args []int, ids map[uint32]xnnpack.ValueID) error {
	if _, ok := ids[x.id]; ok || x.id == invalidID {
		return malformed("the number %d is taken", x.id)
	}
	x.tensor.Name = name
	v := value{known: true, internal: !x.input && !x.output, tensor: x.tensor}
	if err := p.complete(&v, x.constant, x.scales); err != nil {
		return err
	}
	if v.internal {
		p.plan.values = append(p.plan.values, v)
		ids[x.id] = xnnpack.ValueID(len(p.plan.values) - 1)
		return nil
	}
	if v.constant != nil {
		return malformed("an argument with a content")
	}
	if int64(x.external) >= int64(len(args)) {
		return malformed("argument %d of %d", x.external, len(args))
	}
	i := args[x.external]
	argument := xnnpack.ValueID(p.base + i)
	if err := p.agrees(i, &v); err != nil {
		p.reasons.add(fmt.Errorf("%s: argument %d, value %d of the method: %w", name, x.external, i, err))
		_, bad := elements(v.tensor.Shape...)
		v.internal = x.output || bad != nil
		v.computed = !v.internal
		p.plan.values = append(p.plan.values, v)
		argument = xnnpack.ValueID(len(p.plan.values) - 1)
	} else if err := p.bind(i, v); err != nil {
		return fmt.Errorf("argument %d, value %d of the method: %w", x.external, i, err)
	}
	ids[x.id] = argument
	if !x.dynamic {
		return nil
	}
	t := xnnpack.Tensor{
		Name: name + ", quantised", Type: xnnpack.DynamicQInt8, Shape: x.tensor.Shape,
		Quantization: xnnpack.Quantization{NonBatchDims: 1},
	}
	quantised := p.plan.internal(t)
	ids[x.id] = quantised
	p.count("Convert", InDelegate)
	n := flow.Convert(argument, quantised)
	if err := p.add(name, n); err != nil {
		p.notPlanned(name, err)
	}
	return nil
}

// argumentTypes are how a method has what XNNPACK takes and gives.
var argumentTypes = map[xnnpack.Datatype]ScalarType{
	xnnpack.Float32: Float, xnnpack.Float16: Half, xnnpack.BFloat16: BFloat16,
	xnnpack.QInt8: Char, xnnpack.QUint8: Byte, xnnpack.Int32: Int, xnnpack.QInt32: Int,
}

// agrees returns an error if value i of the method is not what a delegate takes it for.
func (p *planner) agrees(i int, is *value) error {
	v, t := &p.plan.values[p.base+i], p.method.values[i].tensor
	if t == nil {
		return malformed("it is no tensor")
	}
	if want, ok := argumentTypes[is.tensor.Type]; !ok || want != t.dtype {
		return malformed("a tensor of %v where the delegate has %v", t.dtype, is.tensor.Type)
	}
	if !slices.Equal(t.shape, is.tensor.Shape) {
		return malformed("a tensor of shape %v in memory where the delegate has %v", t.shape, is.tensor.Shape)
	}
	if v.host || v.known && (v.tensor.Type != is.tensor.Type || !sameMeaning(v, is)) {
		return malformed("delegates take it for other things")
	}
	_, err := elements(t.shape...)
	return err
}

// bind says what value i of the method is: an argument of a delegate.
func (p *planner) bind(i int, is value) error {
	v, t := &p.plan.values[p.base+i], p.method.values[i].tensor
	if v.known {
		return nil
	}
	v.tensor.Type, v.tensor.Quantization = is.tensor.Type, is.tensor.Quantization
	if t.state {
		p.cannot("value %d is a state that the method keeps", i)
	}
	if err := p.complete(v, t.content, nil); err != nil {
		return err
	}
	v.known = true
	return nil
}

// node plans a node. One that packs nothing is left out if it cannot be run, which is a reason why the method cannot.
func (p *planner) node(t flatbuf.Table, k kind, name string, ids map[uint32]xnnpack.ValueID) error {
	if k.decode == nil {
		p.reasons.add(fmt.Errorf("%s: %w", name, ErrUnsupportedOp))
		return nil
	}
	d := &decoder{plan: p.plan, t: t.Table(xnodeVal), ids: ids}
	if limits := t.Table(xnodeMinMax); limits.Present() {
		r := xnnpack.Range{Min: limits.Float32(0, 0), Max: limits.Float32(1, 0)}
		if r.Min < r.Max {
			d.limits = r
		} else {
			d.odd = malformed("its output is limited to %g to %g", r.Min, r.Max)
		}
	}
	if !d.t.Present() {
		return malformed("it has no fields")
	}
	var op flow.Operation
	wrong := fault.Try(func() { op = k.decode(d) })
	if err := cmp.Or(t.Err(), wrong); err != nil {
		return err
	}
	packs := flow.Part{Values: p.plan}.Packs(op)
	switch {
	case d.odd != nil && packs:
		return d.odd
	case d.odd != nil:
		p.notPlanned(name, d.odd)
		return nil
	}
	if d.other != 0 {
		err := fmt.Errorf("%w: the node's flags %#x", ErrUnsupported, d.other)
		if packs {
			return err
		}
		p.reasons.add(fmt.Errorf("%s: %w", name, err))
	}
	add := p.add
	if packs {
		add = p.addPacking
	}
	var err error
	switch n := op.(type) {
	case flow.Node[xnnpack.StaticReduce]:
		err = p.mean(name, n.N, d.limits)
	case flow.Weighing[xnnpack.FullyConnected]:
		err = p.fullyConnected(name, n.N, add)
	default:
		err = add(name, op)
	}
	if err != nil && !packs {
		p.notPlanned(name, err)
		return nil
	}
	return err
}

// mean adds a global average pooling. XNNPACK keeps the images' dimensions as its output has them, and does not limit
// a mean.
func (p *planner) mean(name string, n xnnpack.StaticReduce, limits xnnpack.Range) error {
	in, out := p.plan.values[n.Input].tensor, p.plan.values[n.Output].tensor
	if err := ours(fault.Try(func() { flow.Images(in.Shape) })); err != nil {
		return err
	}
	n.KeepDims = len(out.Shape) == len(in.Shape)
	if unbounded(limits) {
		return p.add(name, flow.StaticReduce(n))
	}
	out.Name += ", unlimited"
	limited := n.Output
	n.Output = p.plan.internal(out)
	if err := p.add(name, flow.StaticReduce(n)); err != nil {
		return err
	}
	clamp := xnnpack.Unary{Op: xnnpack.Clamp, Limits: limits, Input: n.Output, Output: limited}
	return p.add(name, flow.Unary(clamp))
}

func unbounded(r xnnpack.Range) bool {
	return r == (xnnpack.Range{}) || math.IsInf(float64(r.Min), -1) && math.IsInf(float64(r.Max), 1)
}

// fullyConnected adds a node. One of bfloat16 computes single precision, from which its output is converted.
func (p *planner) fullyConnected(name string, n xnnpack.FullyConnected,
	add func(string, flow.Operation) error) error {
	bf16 := func(id xnnpack.ValueID) bool { return p.plan.values[id].tensor.Type == xnnpack.BFloat16 }
	if !bf16(n.Input) || !bf16(n.Filter) || !bf16(n.Output) {
		return add(name, flow.FullyConnected(n))
	}
	t, rounded := p.plan.values[n.Output].tensor, n.Output
	t.Name, t.Type = t.Name+", in single precision", xnnpack.Float32
	n.Output = p.plan.internal(t)
	if err := add(name, flow.FullyConnected(n)); err != nil {
		return err
	}
	return p.add(name, flow.Convert(n.Output, rounded))
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
		if err := p.know(n); err != nil {
			p.reasons.add(fmt.Errorf("%s %d: %w", name, i, err))
		}
	}
}

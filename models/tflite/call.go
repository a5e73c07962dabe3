package tflite

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/models"
	"xpwc/xnnpack"
)

// call is one operator while it is being planned. The first error ends that, see package fault.
type call struct {
	plan    *plan
	op      *operator
	takes   takes
	inGo    bool  // it is planned for Go, not for XNNPACK
	wide    bool  // quantized values are computed in single precision, between conversions
	folding bool  // it is computed while it is planned
	asked   int   // how many operands were looked at
	defined []int // outputs that have a shape
	nodes   []flow.Node
	inner   map[flow.ID]flow.ID // the tensors that values inside of the operator are like
	compute func(*run)          // in place of nodes
	table   *table              // in place of compute, where each output depends on one byte; or nil
	reads   []int               // operands that compute reads
	updates bool                // compute updates the first of them in place, if it is not wide
	idle    sync.Pool           // of *run
}

// tensor returns the index of the tensor that operand i names, or absent.
func (c *call) tensor(i int) int {
	if c.asked = max(c.asked, i+1); i < 0 || i >= len(c.op.inputs) {
		return absent
	}
	return c.op.inputs[i]
}

// required returns the index of operand i's tensor. An operand that is left out is an error.
func (c *call) required(i int) int {
	n := c.tensor(i)
	if n == absent {
		malformed("input %d is missing", i)
	}
	return n
}

// resolve returns the value of operand i, which must have been computed before or be a constant.
func (c *call) resolve(i int) *value {
	n := c.required(i)
	v := &c.plan.values[n]
	if v.state == refused {
		fault.Check(errRefused)
	}
	if v.state == empty {
		unsupported("input %d has no elements", i)
	}
	if v.state != undefined {
		return v
	}
	t := &c.plan.graph.tensors[n]
	if c.plan.vacant(n) {
		unsupported("input %d, %q, has no elements", i, t.name)
	}
	if t.data.Size == 0 {
		malformed("input %d, %q, is not computed before it is used", i, t.name)
	}
	var k *constant
	fault.Wrap(func() { k = newConstant(t) }, "input %d, %q", i, t.name)
	k.name = c.plan.firstName(t)
	if t.element() != t.dtype {
		k = c.fromInt16(k)
	}
	*v = value{state: static, shape: k.shape, dtype: k.dtype, constant: k}
	return v
}

// vacant reports whether a tensor is known to have no elements.
func (p *plan) vacant(n int) bool {
	t := &p.graph.tensors[n]
	state := p.values[n].state
	return state == empty || state == undefined && t.data.Size == 0 && slices.Contains(t.shape, 0)
}

// operand returns operand i as something that is read at inference, whether computed or constant.
func (c *call) operand(i int) *value {
	v := c.resolve(i)
	t := &c.plan.graph.tensors[c.tensor(i)]
	if c.accept(t, v.dtype); c.inGo {
		if v.state == static && c.wide && v.dtype.isBytes() {
			v.constant.scaled()
		}
		if !slices.Contains(c.reads, i) {
			c.reads = append(c.reads, i)
		}
		c.bounded(v.shape)
		return v
	}
	if v.state == static && v.dtype.isBytes() && len(v.constant.quant.scales) > 1 {
		unsupported("input %d, %q, with a scale for each channel", i, t.name)
	}
	return v
}

// operandList returns all operands, of which there are not too many, as values like the first.
func (c *call) operandList() []*value {
	if n := len(c.op.inputs); n > mostJoined {
		unsupported("%d values", n)
	}
	values := []*value{c.operand(0)}
	for i := 1; i < len(c.op.inputs); i++ {
		v := c.operand(i)
		if v.dtype != values[0].dtype {
			malformed("inputs of %v and %v", values[0].dtype, v.dtype)
		}
		values = append(values, v)
	}
	return values
}

// bounded checks that Go computes with a shape.
func (c *call) bounded(shape []int) {
	if c.inGo && slices.ContainsFunc(shape, func(d int) bool { return d > operators.MostIndices }) {
		unsupported("in Go, of shape %v", shape)
	}
}

// accept checks that the operator takes values of a type, a tensor's.
func (c *call) accept(t *tensor, dtype elementType) {
	switch {
	case t.dtype == typeComplex64 && (!c.inGo || c.takes&complexes == 0):
		unsupported("values of type %v", t.dtype)
	case t.inGo() && c.inGo, dtype == typeFloat32, !t.inGo() && dtype.isBytes() && c.takes&bytes8 != 0:
	case !t.inGo() && dtype.isBytes() && c.takes&widened != 0:
		c.wide = true
	default:
		unsupported("values of type %v", t.dtype)
	}
}

// rank4 is data of shape [batch, height, width, channels].
func (c *call) rank4(i int) *value {
	v := c.operand(i)
	if len(v.shape) != 4 {
		malformed("input %d has shape %v, not [batch, height, width, channels]", i, v.shape)
	}
	return v
}

// packed returns operand i as weights that XNNPACK packs, of the given rank.
func (c *call) packed(i, rank int) *value {
	v := c.resolve(i)
	if v.state != static {
		unsupported("input %d, %q, is not constant", i, c.plan.graph.tensors[c.tensor(i)].name)
	} else if len(v.shape) != rank {
		malformed("input %d has shape %v, not %d dimensions", i, v.shape, rank)
	}
	return v
}

// bias returns whether operand i, a bias of n elements, is given.
func (c *call) bias(i, n int) bool {
	if c.tensor(i) == absent {
		return false
	}
	v := c.resolve(i)
	if v.state != static {
		unsupported("the bias, %q, is not constant", c.plan.graph.tensors[c.tensor(i)].name)
	} else if len(v.shape) != 1 || v.shape[0] != n {
		malformed("a bias of shape %v for %d output channels", v.shape, n)
	}
	return true
}

// integers returns the elements of operand i, a constant of shape or index numbers, which may have none.
func (c *call) integers(i int) []int {
	if n := c.tensor(i); n != absent && c.plan.vacant(n) {
		return nil
	}
	v := c.resolve(i)
	const limit = 256
	width := v.dtype.Size()
	if v.state != static || v.dtype != typeInt32 && v.dtype != typeInt64 || v.constant.size > limit*width {
		unsupported("input %d is not a short constant of integers", i)
	}
	operandList := c.array(v)
	out := make([]int, len(operandList.Data)/width)
	for k := range out {
		n := operandList.Whole(k)
		// No number that is good as a shape or an index is greater, and sums of these cannot overflow.
		if n > math.MaxInt32 || n < math.MinInt32 {
			malformed("input %d has the element %d", i, n)
		}
		out[k] = int(n)
	}
	return out
}

// array returns a constant for Go, with its content.
func (c *call) array(v *value) operators.Array {
	return operators.Array{Element: elementTypes[v.dtype], Shape: v.shape, Data: v.constant.bytes(c.plan.file)}
}

// define gives output i its shape. The type is the file's, which operators that compute on values must agree with.
func (c *call) define(i int, shape ...int) {
	if _, err := elements(shape); err != nil {
		fault.Check(fmt.Errorf("%w: output %d: %w", ErrMalformed, i, err))
	}
	t := c.outputTensor(i)
	c.bounded(shape)
	fault.Wrap(func() { t.computable(shape) }, "output %d, %q", i, t.name)
	c.accept(t, t.element())
	c.plan.values[c.op.outputs[i]] = value{state: dynamic, shape: slices.Clone(shape), dtype: t.element()}
	c.defined = append(c.defined, i)
}

// alias makes output i a constant that was derived for it, which gets its name.
func (c *call) alias(i int, k *constant) {
	k.name = c.outputTensor(i).name
	c.plan.values[c.op.outputs[i]] = value{state: static, shape: k.shape, dtype: k.dtype, constant: k}
	c.defined = append(c.defined, i)
}

// outputTensor returns the tensor that is output i, which nothing may have computed before.
func (c *call) outputTensor(i int) *tensor {
	if i >= len(c.op.outputs) {
		malformed("%d outputs", len(c.op.outputs))
	}
	t := &c.plan.graph.tensors[c.op.outputs[i]]
	if c.plan.values[c.op.outputs[i]].state != undefined || t.data.Size != 0 {
		malformed("output %d, %q, is computed twice, or constant", i, t.name)
	}
	return t
}

// activation returns the range to which a fused activation limits an output; no activation is the zero Range, no
// limits.
func (c *call) activation(slot int) xnnpack.Range {
	a := c.op.options.Byte(slot)
	if limits, ok := activations[a]; ok {
		return limits
	}
	unsupported("the fused activation %s", cmp.Or(otherActivations[a], fmt.Sprint(a)))
	return xnnpack.Range{}
}

var activations = map[byte]xnnpack.Range{activationNone: {}, activationReLU: {Max: float32(math.Inf(1))},
	activationReLUN1: {Min: -1, Max: 1}, activationReLU6: {Max: 6}}

var otherActivations = map[byte]string{activationTanh: "TANH", activationSignBit: "SIGN_BIT"}

// Values of the flow are the tensors, by their indices, and those inside of operators, from this number on.
const firstInside = 1 << 31

// valueOf returns a value of the flow.
func (p *plan) valueOf(id flow.ID) *value {
	if id >= firstInside {
		return &p.inside[id-firstInside]
	}
	return &p.values[id]
}

// shapeOf returns the shape of a value of the flow, as far as it is known.
func (p *plan) shapeOf(id flow.ID) []int {
	v := p.valueOf(id)
	if v.inside != nil {
		return v.inside.Shape
	}
	return v.shape
}

// wholeFlow returns the flow of all steps. It leaves out what no output needs.
func (p *plan) wholeFlow() flow.Part {
	ids := func(tensors []int) (out flow.IDs) {
		for _, t := range tensors {
			out = append(out, flow.ID(t))
		}
		return out
	}
	whole := flow.Part{Values: p, Constants: &p.read, Steps: p.steps, Inputs: ids(p.graph.inputs),
		Outputs: ids(p.graph.outputs), States: p.states}
	return whole.Pruned()
}

// Add implements [flow.Composer]: it plans a node, or what it moves in Go. An output that has a shape keeps it.
func (c *call) Add(op flow.Operation) {
	node := op.(flow.Node)
	inputs, outputs := node.Operands()
	var shapes [][]int
	for _, id := range inputs {
		shapes = append(shapes, c.plan.shapeOf(id))
	}
	out, inside := outputs[0], outputs[0] >= firstInside
	if i := slices.Index(c.op.outputs, int(out)); inside || !slices.Contains(c.defined, i) {
		var shape []int
		if checked(func() { shape = node.Shape(shapes) }); !inside {
			c.define(i, shape...)
		} else {
			checked(func() { fault.Value(elements(shape)) })
			c.plan.valueOf(out).inside.Shape = slices.Clone(shape)
		}
	}
	c.nodes = append(c.nodes, node)
}

// finish plans the kernel in Go, or the nodes with conversions of their inputs and outputs.
func (c *call) finish() {
	steps := func(ops ...flow.Node) {
		for _, op := range ops {
			c.plan.steps = append(c.plan.steps, &flow.Step{Name: c.op.title(), Operation: op, Guards: c.plan.guards})
		}
	}
	if !slices.ContainsFunc(c.nodes, func(n flow.Node) bool { return !n.Moves() }) {
		for _, node := range c.nodes {
			inputs, _ := node.Operands()
			for _, id := range inputs {
				if id < firstInside {
					c.keepsScale(id)
				}
			}
		}
	}
	if !c.inGo {
		pre, post := c.widened()
		post = append(post, c.limited()...)
		for id, example := range c.inner {
			tensor := c.plan.describe(int(example))
			if c.wide {
				tensor = inFloats(tensor)
			}
			tensor.Name, tensor.Shape = tensor.Name+", inside", c.plan.shapeOf(id)
			*c.plan.valueOf(id).inside = tensor
		}
		steps(slices.Concat(pre, c.nodes, post)...)
		return
	}
	if c.compute == nil && len(c.nodes) > 0 {
		c.compute = c.move
	}
	if c.compute == nil || c.fold() {
		return
	}
	var inputs, results flow.IDs
	for _, i := range c.reads {
		inputs = append(inputs, flow.ID(c.op.inputs[i]))
	}
	for _, t := range c.op.outputs {
		results = append(results, flow.ID(t))
	}
	hosted := flow.Hosted{Inputs: inputs, Results: results, Compute: c.run, Updates: c.updates && !c.wide}
	c.plan.steps = append(c.plan.steps,
		&flow.Step{Name: c.op.title(), Operation: hosted, Guards: c.plan.guards})
}

// widened has the nodes of an operator that is wide compute with single precision in the place of bytes. It returns the
// conversions before and after them.
func (c *call) widened() (pre, post []flow.Node) {
	wide := map[flow.ID]flow.ID{}
	for i, node := range c.nodes {
		inputs, outputs := node.Operands()
		operands := slices.Concat(inputs, outputs)
		for k, id := range operands {
			if !c.wide || id >= firstInside || !c.plan.values[id].dtype.isBytes() {
				continue
			}
			if _, ok := wide[id]; !ok {
				wide[id] = c.Inside(id)
				c.plan.valueOf(wide[id]).inside.Shape = c.plan.values[id].shape
				if k < len(inputs) {
					pre = append(pre, flow.Convert(id, wide[id]))
				} else {
					post = append(post, flow.Convert(wide[id], id))
				}
			}
			operands[k] = wide[id]
		}
		c.nodes[i] = node.With(operands...)
	}
	return pre, post
}

// Inside implements [flow.Composer].
func (c *call) Inside(example flow.ID) flow.ID {
	id := c.addInside(xnnpack.Tensor{})
	if c.inner == nil {
		c.inner = map[flow.ID]flow.ID{}
	}
	c.inner[id] = c.exampleOf(example)
	return id
}

// exampleOf returns the tensor that a value is like, or is.
func (c *call) exampleOf(id flow.ID) flow.ID {
	if example, inside := c.inner[id]; inside {
		return example
	}
	return id
}

// Number implements [flow.Composer]. The number is in no file.
func (c *call) Number(x float64, _ flow.ID) flow.ID {
	single := float32(x)
	return c.constant(c.plan.derive(&constant{name: fmt.Sprint("the number ", single), stored: typeFloat32,
		dtype: typeFloat32, size: 4, data: binary.LittleEndian.AppendUint32(nil, math.Float32bits(single))}))
}

// addInside adds a value inside of the operator.
func (c *call) addInside(t xnnpack.Tensor) flow.ID {
	c.plan.inside = append(c.plan.inside, value{inside: &t})
	return flow.ID(firstInside + len(c.plan.inside) - 1)
}

// constant returns the value of a constant: of an operand, or what was made of one.
func (c *call) constant(k *constant) flow.ID {
	for _, t := range c.op.inputs {
		if t != absent && c.plan.values[t].constant == k {
			return flow.ID(t)
		}
	}
	id, ok := c.plan.internal[k]
	if !ok {
		id = c.addInside(k.describe())
		c.plan.valueOf(id).constant, c.plan.internal[k] = k, id
	}
	return id
}

// inputID returns operand i, and outputID output i.
func (c *call) inputID(i int) flow.ID { return flow.ID(c.op.inputs[i]) }

func (c *call) outputID(i int) flow.ID {
	if i >= len(c.op.outputs) {
		malformed("%d outputs", len(c.op.outputs))
	}
	return flow.ID(c.op.outputs[i])
}

func (c *call) unaryNode(node xnnpack.Unary, in, out flow.ID) {
	node.Input, node.Output = in, out
	c.Add(flow.Unary(node))
}

func (c *call) shaped(in, out flow.ID, shape []int) {
	c.Add(flow.StaticReshape(xnnpack.StaticReshape{Shape: slices.Clone(shape), Input: in, Output: out}))
}

// Integers, booleans and what XNNPACK does not have are computed in Go, between subgraphs, or when the model is opened
// if all that an operator reads is constant.

// A run is one computation of an operator in Go. It is used again, so that a small model's inferences do not allocate.
type run struct {
	file     []byte
	in       []operators.Array // by operand; without content where it is not read
	out      []operators.Array
	src, dst []operators.Array           // of a kernel
	values   map[flow.ID]operators.Array // of move
}

// do plans that Go computes the operator.
func (c *call) do(f func(*run)) { c.compute = f }

// host plans that Go computes the outputs from operands. Outputs that have no shape get it.
func (c *call) host(op operators.Operator, operands ...int) {
	var shapes [][]int
	for _, i := range operands {
		shapes = append(shapes, c.operand(i).shape)
	}
	var kernel operators.Kernel
	checked(func() { kernel = op(shapes) })
	for i, shape := range kernel.Shapes {
		if !slices.Contains(c.defined, i) {
			c.define(i, shape...)
		}
	}
	for _, k := range kernel.Moves {
		c.keepsScale(c.inputID(operands[k]))
	}
	c.updates = kernel.Updates && c.reads[0] == operands[0]
	c.do(kernelOf(kernel, operands))
	c.tabulate(op, kernel, operands)
}

// kernelOf returns what runs a kernel on operands.
func kernelOf(kernel operators.Kernel, operands []int) func(*run) {
	return func(r *run) {
		r.src, r.dst = r.src[:0], append(r.dst[:0], r.out...)
		for _, i := range operands {
			r.src = append(r.src, r.in[i])
		}
		for i, shape := range kernel.Shapes {
			r.dst[i].Shape = shape
		}
		kernel.Run(r.dst, r.src)
	}
}

func (p *plan) quantized(t int) bool {
	return p.values[t].dtype.isBytes() && !p.graph.tensors[t].inGo()
}

// run computes from the operands that are read: quantized ones in single precision if the operator is wide.
func (c *call) run(out, in []operators.Array) {
	if c.table != nil {
		c.lookUp(out[0], in)
		return
	}
	c.runWith(c.compute, out, in)
}

func (c *call) runWith(compute func(*run), out, in []operators.Array) {
	p := c.plan
	r, ok := c.idle.Get().(*run)
	if !ok {
		r = &run{file: p.file, in: make([]operators.Array, len(c.op.inputs))}
		for i, t := range c.op.inputs {
			if t != absent {
				r.in[i] = p.Array(flow.ID(t))
			}
		}
	}
	r.out = append(r.out[:0], out...)
	for k, i := range c.reads {
		r.in[i] = in[k]
		switch t := c.op.inputs[i]; {
		case !c.wide || !p.quantized(t):
		case p.values[t].constant != nil && !c.folding:
			floats := p.read.Content(widenedConstant(t), func() []byte { return p.floats(t, in[k]).Data })
			r.in[i] = operators.Array{Element: models.Float32, Shape: in[k].Shape, Data: floats}
		default:
			r.in[i] = p.floats(t, in[k])
		}
	}
	for i, t := range c.op.outputs {
		if c.wide && p.quantized(t) {
			r.out[i] = operators.New(models.Float32, out[i].Shape...)
		}
	}
	compute(r)
	for i, t := range c.op.outputs {
		if c.wide && p.quantized(t) {
			p.quantize(t, out[i].Data, r.out[i].Data)
		}
	}
	c.idle.Put(r)
}

// widenedConstant is the key of a constant in single precision, by its tensor.
type widenedConstant int

// move moves elements as the nodes would. Values inside of the operator have the type of their inputs.
func (c *call) move(r *run) {
	if r.values == nil {
		r.values = map[flow.ID]operators.Array{}
	}
	clear(r.values)
	for _, i := range c.reads {
		r.values[flow.ID(c.op.inputs[i])] = r.in[i]
	}
	for i, t := range c.op.outputs {
		r.values[flow.ID(t)] = r.out[i]
	}
	for _, op := range c.nodes {
		inputs, outputs := op.Operands()
		r.src = r.src[:0]
		for _, id := range inputs {
			r.src = append(r.src, r.values[id])
		}
		out, ok := r.values[outputs[0]]
		if !ok {
			out = operators.New(r.src[0].Element, c.plan.valueOf(outputs[0]).inside.Shape...)
			r.values[outputs[0]] = out
		}
		r.dst = append(r.dst[:0], out)
		op.Move(r.dst, r.src)
	}
}

// floats returns a quantized value in single precision.
func (p *plan) floats(t int, stored operators.Array) operators.Array {
	tensor := constant{stored: p.values[t].dtype, quant: p.graph.tensors[t].quantization, shape: stored.Shape}
	if k := p.values[t].constant; k != nil {
		tensor.quant = k.quant
	}
	wide := operators.New(models.Float32, stored.Shape...)
	tensor.dequantize(wide.Data, stored.Data, 0)
	return wide
}

// quantize computes bytes from single precision, rounded as TensorFlow Lite rounds. What is not a number becomes the
// lowest.
func (p *plan) quantize(t int, dst, floats []byte) {
	q := p.describe(t).Quantization
	quantized := quantizedTypes[p.values[t].dtype]
	for i := range dst {
		x := math.Float32frombits(binary.LittleEndian.Uint32(floats[4*i:]))
		n := math.Round(float64(x/q.Scale)) + float64(q.ZeroPoint)
		if math.IsNaN(n) {
			n = float64(quantized.low)
		}
		dst[i] = byte(int64(min(max(n, float64(quantized.low)), float64(quantized.high))))
	}
}

// mostFolded bounds the bytes of constants that are computed when a model is opened: a small file must not take much
// memory then.
const mostFolded = 16 << 20

// fold computes in Go at once if all that is read is constant, makes the outputs constants, and reports that.
func (c *call) fold() bool {
	p := c.plan
	var in, out []operators.Array
	var parent *constant
	for _, i := range c.reads {
		t := c.op.inputs[i]
		if p.values[t].constant == nil {
			return false
		}
		if parent == nil {
			parent = p.values[t].constant
		}
		a := p.Array(flow.ID(t))
		a.Data = p.Content(flow.ID(t))
		in = append(in, a)
	}
	for _, t := range c.op.outputs {
		a := p.Array(flow.ID(t))
		n := xnnpack.Elements(a.Shape) * a.Element.Size()
		if p.folded += n; p.folded > mostFolded {
			return false
		}
		a.Data = make([]byte, n)
		out = append(out, a)
	}
	c.folding = true
	checked(func() { c.run(out, in) })
	for i, t := range c.op.outputs {
		tensor := &p.graph.tensors[t]
		if p.values[t].state == empty {
			continue
		}
		p.values[t].state = static
		p.values[t].constant = &constant{name: tensor.name, stored: tensor.element(), dtype: tensor.element(),
			data:   out[i].Data,
			parent: parent, shape: p.values[t].shape, size: len(out[i].Data), quant: tensor.quantization}
	}
	return true
}

// Tensor implements [flow.Values].
func (p *plan) Tensor(id flow.ID) xnnpack.Tensor { return p.Bare(id) }

// Bare implements [flow.Values]. That there is a description planning has seen.
func (p *plan) Bare(id flow.ID) xnnpack.Tensor {
	switch v := p.valueOf(id); {
	case v.inside != nil:
		return *v.inside
	case v.constant != nil:
		return v.constant.describe()
	}
	return p.describe(int(id))
}

// Array implements [flow.Values].
func (p *plan) Array(id flow.ID) operators.Array {
	v := p.valueOf(id)
	if v.inside != nil {
		return operators.Array{Element: models.Value{Type: v.inside.Type}.Element(), Shape: v.inside.Shape}
	}
	return operators.Array{Element: elementTypes[v.dtype], Shape: v.shape}
}

// InGo implements [flow.Values].
func (p *plan) InGo(id flow.ID) bool { return id < firstInside && p.graph.tensors[id].inGo() }

// Constant implements [flow.Values].
func (p *plan) Constant(id flow.ID) (name string, ok bool) {
	if c := p.valueOf(id).constant; c != nil {
		return c.name, true
	}
	return "", false
}

// Content implements [flow.Values].
func (p *plan) Content(id flow.ID) []byte { return p.valueOf(id).constant.bytes(p.file) }

// View implements [flow.Values].
func (p *plan) View(do func()) {
	if err := p.mapped.View(func([]byte) error { do(); return nil }); err != nil {
		fault.Check(fmt.Errorf("%s: %w", p.mapped.Path(), xpwc.ErrClosed))
	}
}

// takes are the values that an operator computes with, besides single precision. In Go it also computes with
// integers and booleans.
type takes uint8

const (
	// bytes8: int8 and uint8, as XNNPACK's kernels for them do, or as they are stored.
	bytes8 takes = 1 << iota
	// widened: int8 and uint8, in single precision between two conversions.
	widened
	// complexes: complex numbers, which only Go has, and no model as inputs or outputs.
	complexes
)

// An operatorRow is what this package knows of an operator.
type operatorRow struct {
	// plan checks the operator, gives its outputs their shapes, and returns what adds it to a subgraph, or nil if it
	// needs no node. It is nil if XNNPACK does not have the operator.
	plan  func(*call)
	takes takes
	// inGo plans what Go computes, where plan does not; nil if it cannot.
	inGo func(*call)
}

// keepsScale has an operator that moves elements of a tensor computed in single precision where they get another scale
// on the way. One whose nodes all move elements is asked about these when it is planned.
func (c *call) keepsScale(input flow.ID) {
	if src := &c.plan.graph.tensors[input]; src.inGo() {
		for _, n := range c.op.outputs {
			if dst := &c.plan.graph.tensors[n]; dst.dtype != src.dtype || !dst.inGo() {
				malformed("values of type %v become %v", src.dtype, dst.dtype)
			}
		}
		return
	}
	in := c.plan.describe(int(input))
	for _, n := range c.op.outputs {
		out := c.plan.describe(n)
		if in.Type != out.Type || in.Quantization.Scale != out.Quantization.Scale ||
			in.Quantization.ZeroPoint != out.Quantization.ZeroPoint {
			c.wide = true
		}
	}
}

// moves gives output 0 a shape, of elements of operand 0.
func (c *call) moves(shape ...int) {
	c.define(0, shape...)
	c.keepsScale(c.inputID(0))
}

// axisIndex returns the dimension of so many that a number stands for; a negative one counts from the end.
func axisIndex(n, rank int) int {
	d := n
	if d < 0 {
		d += rank
	}
	if d < 0 || d >= rank {
		malformed("dimension %d of %d", n, rank)
	}
	return d
}

// axes returns the dimensions whose numbers operand i, a constant, has.
func (c *call) axes(i, rank int) []int {
	axes := slices.Clone(c.integers(i))
	for k, a := range axes {
		axes[k] = axisIndex(a, rank)
	}
	return axes
}

// axis returns the dimension whose number operand i, a constant, is.
func (c *call) axis(i, rank int) int { return axisIndex(c.oneInteger(i), rank) }

// integerIndices checks that an operand has integers.
func (c *call) integerIndices(i int) {
	if t := c.declared(i); t != typeInt32 && t != typeInt64 {
		unsupported("indices of type %v", t)
	}
}

// oneInteger returns operand i, a constant.
func (c *call) oneInteger(i int) int {
	n := c.integers(i)
	if len(n) != 1 {
		malformed("input %d has %d numbers, not 1", i, len(n))
	}
	return n[0]
}

// mostJoined is how many values are joined: more than models have, and few enough to compose.
const mostJoined = 256

// broadcast returns the shape of an operation on elements of a and b, whose dimensions are matched from the last and
// are equal or 1.
func (c *call) broadcast(a, b []int) []int {
	shape, ok := operators.Broadcast(a, b)
	if !ok {
		malformed("shapes %v and %v do not go together", a, b)
	}
	return shape
}

// constantNumber returns the only element of operand i, a constant.
func (c *call) constantNumber(i int) float64 {
	v := c.resolve(i)
	n, _ := elements(v.shape)
	if v.state != static || n != 1 || elementTypes[v.dtype] == 0 || c.plan.quantized(c.op.inputs[i]) {
		unsupported("input %d is not a constant number", i)
	}
	return c.array(v).Number(0)
}

func clamp(low, high float64) xnnpack.Unary {
	return xnnpack.Unary{Op: xnnpack.Clamp, Limits: xnnpack.Range{Min: float32(low), Max: float32(high)}}
}

// copies plans that output 0 is operand 0.
func (c *call) copies() {
	c.Add(flow.Copy(xnnpack.Copy{Input: c.inputID(0), Output: c.outputID(0)}))
}

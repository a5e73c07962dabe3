package executorch

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/models"
	"xpwc/xnnpack"
)

// An invocation is a call of an operator outside of delegates, while it is planned. The first error ends that, see
// package fault.
type invocation struct {
	*planner
	name string
	args []int // values of the method
}

// errOutside is the error of a call that cannot be run here, though its operator can.
var errOutside = errors.New("outside of XNNPACK")

// outside ends a call that is not planned.
func (c *invocation) outside() { fault.Check(errOutside) }

// refuse ends a call that is not planned, with the cause that the method's error names.
func (c *invocation) refuse(format string, args ...any) { fault.Because(errOutside, format, args...) }

// arg returns the value of an argument.
func (c *invocation) arg(i int) *evalue {
	if i < 0 || i >= len(c.args) {
		malformed("%d arguments", len(c.args))
	}
	return &c.method.values[c.args[i]]
}

// lastArg is the index of the last argument, which is what the operator computes.
func (c *invocation) lastArg() int { return len(c.args) - 1 }

// absent reports whether an argument is not given.
func (c *invocation) absent(i int) bool { return c.arg(i).kind == evalueNull }

// integer returns an integer or a boolean.
func (c *invocation) integer(i int) int {
	v := c.arg(i)
	if v.kind != evalueInt && v.kind != evalueBool {
		malformed("argument %d is no integer", i)
	}
	v.planned(i)
	return clampedInt(v.whole)
}

// planned ends the planning of a call if one of its numbers follows from the content of a tensor.
func (v *evalue) planned(argument int) {
	if v.reading != nil {
		unsupported("argument %d follows from the content of a tensor", argument)
	}
}

func clampedInt(n int64) int { return int(max(min(n, math.MaxInt32), math.MinInt32)) }

// number returns a number of any kind.
func (c *invocation) number(i int) float64 {
	switch v := c.arg(i); v.kind {
	case evalueInt, evalueBool:
		v.planned(i)
		return float64(v.whole)
	case evalueDouble:
		return v.number
	}
	malformed("argument %d is no number", i)
	return 0
}

// integers returns a list of integers, and a single one as a list.
func (c *invocation) integers(i int) []int {
	v := c.arg(i)
	if v.kind == evalueInt {
		return []int{c.integer(i)}
	}
	if v.kind != evalueIntList {
		malformed("argument %d is no list of integers", i)
	}
	out := make([]int, len(v.list))
	for k, n := range v.list {
		item := &c.method.values[n]
		if item.kind != evalueInt {
			malformed("argument %d has what is no integer", i)
		}
		item.planned(i)
		out[k] = clampedInt(item.whole)
	}
	return out
}

// tensorAt returns the tensor that a value of the method is.
func (c *invocation) tensorAt(value int) *tensor {
	if t := c.method.values[value].tensor; t != nil {
		return t
	}
	malformed("value %d is no tensor", value)
	return nil
}

// tensor returns the tensor that an argument is.
func (c *invocation) tensor(i int) *tensor {
	c.arg(i)
	return c.tensorAt(c.args[i])
}

// tensors returns the values of a list of tensors.
func (c *invocation) tensors(i int) []int {
	v := c.arg(i)
	if v.kind != evalueTensorList || len(v.list) == 0 {
		malformed("argument %d is no list of tensors", i)
	}
	return v.list
}

// operandAt returns a value of the method: one of XNNPACK's or, where it has no such elements, of Go's.
func (c *invocation) operandAt(value int) xnnpack.ValueID {
	t := c.tensorAt(value)
	if err := fault.Try(func() { c.know(value) }); errors.Is(err, ErrUnsupported) {
		c.refuse("%s", strings.TrimPrefix(err.Error(), ErrUnsupported.Error()+": "))
	} else {
		fault.Check(err)
	}
	id := c.current(value)
	if c.plan.values[id].host {
		c.computable(t, id)
	}
	return id
}

// computable ends a call with a tensor that Go does not compute with.
func (c *invocation) computable(t *tensor, id xnnpack.ValueID) {
	c.rows(t)
	if longest := slices.Max(t.shape); longest > operators.MostIndices {
		c.refuse("a dimension of %d, of at most %d", longest, operators.MostIndices)
	}
	if !operators.Computable(c.plan.values[id].element()) || t.dtype == ComplexFloat && !takesComplex(c.name) {
		c.refuse("a tensor of %v", t.dtype)
	}
}

// operand returns an argument that is a tensor.
func (c *invocation) operand(i int) xnnpack.ValueID {
	c.arg(i)
	return c.operandAt(c.args[i])
}

// float returns an argument of floats that XNNPACK computes with.
func (c *invocation) float(i int) xnnpack.ValueID {
	id := c.operand(i)
	if t := c.described(id).Type; t != xnnpack.Float32 && t != xnnpack.Float16 {
		c.outside()
	}
	return id
}

// described returns a value of the plan.
func (c *invocation) described(id xnnpack.ValueID) *xnnpack.Tensor { return &c.plan.values[id].tensor }

// resultAt plans that a value of the method is computed, with elements like another's.
func (c *invocation) resultAt(value int, example xnnpack.ValueID) xnnpack.ValueID {
	t := c.tensorAt(value)
	out, in := &c.plan.values[c.base+value], &c.plan.values[example]
	if in.host {
		if t.dtype != in.dtype {
			c.outside()
		}
		return c.operandAt(value)
	}
	if want := argumentTypes[in.tensor.Type]; t.dtype != want {
		c.outside()
	}
	if out.typed && (out.tensor.Type != in.tensor.Type || !sameMeaning(out, in)) {
		malformed("value %d means other things than what it is computed from", value)
	}
	declaredTensor := out.tensor
	out.typed, out.tensor, out.scales = true, in.tensor, in.scales
	out.tensor.Name, out.tensor.Shape = declaredTensor.Name, declaredTensor.Shape
	return xnnpack.ValueID(c.base + value)
}

// result is resultAt for the output, the last argument.
func (c *invocation) result(example xnnpack.ValueID) xnnpack.ValueID {
	c.arg(c.lastArg())
	return c.resultAt(c.args[c.lastArg()], example)
}

// Inside implements [flow.Composer].
func (c *invocation) Inside(example xnnpack.ValueID) xnnpack.ValueID {
	t := *c.described(example)
	t.Name, t.Shape = fmt.Sprint("within ", c.name), nil
	id := c.plan.internal(t)
	c.plan.values[id].host, c.plan.values[id].dtype = c.plan.values[example].host, c.plan.values[example].dtype
	return id
}

// filledConstant returns a constant of that shape with one number everywhere.
func (c *invocation) filledConstant(shape []int, number float64, example xnnpack.ValueID) xnnpack.ValueID {
	kind := c.described(example).Type
	if kind != xnnpack.Float32 && kind != xnnpack.Float16 {
		c.outside()
	}
	n := elements(shape...)
	t := xnnpack.Tensor{Type: kind, Shape: shape}
	k := &constant{elements: n, filled: float32(number), from: argumentTypes[kind], to: argumentTypes[kind]}
	k.name = fmt.Sprintf("%d of %x, %v", n, math.Float32bits(k.filled), k.to)
	t.Name = k.name
	return c.plan.value(value{typed: true, constant: k, tensor: t})
}

// Number implements [flow.Composer].
func (c *invocation) Number(x float64, example xnnpack.ValueID) xnnpack.ValueID {
	return c.filledConstant(scalar(), x, example)
}

// Add implements [flow.Composer].
func (c *invocation) Add(op flow.Operation) { c.add(c.name, op) }

// axis returns where a tensor has a dimension of the method's in memory; a negative one counts from the last.
func (c *invocation) axis(t *tensor, dim int) int {
	return slices.Index(t.order, counted(dim, len(t.order)))
}

// axes returns where the first argument has the dimensions that argument i is, or lists: all if there are none.
func (c *invocation) axes(i int) (axes []int) {
	x := c.tensor(0)
	if v := c.arg(i); v.tensor == nil && v.kind != evalueNull {
		for _, d := range c.integers(i) {
			axes = append(axes, c.axis(x, d))
		}
	}
	if len(axes) == 0 {
		return operators.Every(0, len(x.shape), 1)
	}
	return axes
}

// counted returns an index below a length; a negative one counts from the end.
func counted(n, length int) int {
	index := n
	if index < 0 {
		index += length
	}
	if index < 0 || index >= length {
		malformed("index %d of %d", n, length)
	}
	return index
}

// rows ends a call whose tensors are not all row by row in memory, outermost dimension first.
func (c *invocation) rows(tensors ...*tensor) {
	for _, t := range tensors {
		if !slices.IsSorted(t.order) {
			c.refuse("a tensor with its dimensions in the order %v in memory", t.order)
		}
	}
}

// alike ends a call whose tensors have their dimensions in different orders in memory.
func (c *invocation) alike(tensors ...*tensor) {
	for _, t := range tensors {
		if !slices.Equal(t.order, tensors[0].order) {
			c.rows(tensors...)
		}
	}
}

// hostedOperand returns an argument that Go computes with.
func (c *invocation) hostedOperand(i int) xnnpack.ValueID {
	c.arg(i)
	return c.givenValue(c.args[i])
}

// givenValue returns a value of the method that Go computes with.
func (c *invocation) givenValue(value int) xnnpack.ValueID {
	id := c.operandAt(value)
	c.computable(c.tensorAt(value), id)
	return id
}

// hostResult plans that Go computes the last argument from operands.
func (c *invocation) hostResult(op operators.Operator, operands ...int) {
	c.hostTo([]int{c.lastArg()}, op, operands...)
}

// hostTo plans that Go computes some arguments from operands.
func (c *invocation) hostTo(outputs []int, op operators.Operator, operands ...int) {
	var in, out ids
	for _, i := range operands {
		in = append(in, c.hostedOperand(i))
	}
	for _, i := range outputs {
		out = append(out, c.hostedOperand(i))
	}
	c.hosted(op, in, out...)
}

// hosted plans a step that Go computes. Outputs may have dimensions of 1 that the operator does not have, and the
// reverse. An output inside of the call gets its shape.
func (c *invocation) hosted(op operators.Operator, in ids, out ...xnnpack.ValueID) {
	var shapes [][]int
	for _, id := range in {
		shapes = append(shapes, c.described(id).Shape)
	}
	var kernel operators.Kernel
	checked(func() { kernel = op(shapes) })
	for i, id := range out {
		y, shape := &c.plan.values[id], kernel.Shapes[i]
		c.adopt(id, shape)
		if elements(shape...); y.internal && y.tensor.Shape == nil {
			y.tensor.Shape = shape
		}
		if !slices.Equal(withoutOnes(shape), withoutOnes(y.tensor.Shape)) {
			malformed("it computes the shape %v, where its output has %v", shape, y.tensor.Shape)
		}
		for _, k := range kernel.Moves {
			if c.plan.values[in[k]].element() != y.element() {
				c.outside()
			}
		}
	}
	c.Add(flow.Hosted{Inputs: in, Results: out, Computed: c.described(out[0]).Shape, Updates: kernel.Updates,
		Compute: func(out, in []array) {
			for i, shape := range kernel.Shapes {
				out[i].Shape = shape
			}
			kernel.Run(out, in)
		}})
	for _, id := range out[1:] {
		c.plan.values[id].compute(c.described(id).Shape)
		c.computed(id)
	}
}

func withoutOnes(shape []int) []int {
	return slices.DeleteFunc(slices.Clone(shape), func(d int) bool { return d == 1 })
}

// hostedRow returns the row of an operator that Go computes from its first arguments.
func hostedRow(op operators.Operator, operands ...int) operatorRow {
	return operatorRow{inGo: func(c *invocation) { c.hostResult(op, operands...) }}
}

// combined plans what Go computes of two operands, of which the second may be a number. A third argument that the
// second is multiplied by must be 1.
func combined(o operators.Operation) func(*invocation) {
	return func(c *invocation) {
		if c.arg(2).tensor == nil && c.number(2) != 1 {
			c.outside()
		}
		c.combine(o)
	}
}

func (c *invocation) combine(o operators.Operation) {
	switch c.arg(1).kind {
	case evalueDouble, evalueInt, evalueBool:
		c.hostResult(operators.CombineNumber(o, c.numberFor(c.hostedOperand(0), 1)), 0)
	default:
		c.hostResult(operators.Combine(o), 0, 1)
	}
}

// numberFor returns argument i, a number, with the type that PyTorch gives it next to a tensor.
func (c *invocation) numberFor(operand xnnpack.ValueID, i int) array {
	e := c.plan.values[operand].element()
	switch c.arg(i).kind {
	case evalueDouble:
		switch e {
		case models.Float16:
			e = models.Float32
		case models.Float32:
		default:
			e = models.Float64
		}
	case evalueInt:
		if e == models.Bool {
			e = models.Int64
		}
	}
	return operators.Number(e, c.number(i))
}

// comparisonRow returns the row of a comparison.
func comparisonRow(o operators.Operation) operatorRow {
	return operatorRow{inGo: func(c *invocation) { c.combine(o) }}
}

// divided is a quotient that is rounded as the third argument asks for.
func (c *invocation) divided() {
	rounded := map[string]operators.Operation{"": operators.Quotient, "floor": operators.FloorQuotient,
		"trunc": operators.TruncatedQuotient}
	o, ok := rounded[c.arg(2).text]
	if !ok {
		c.outside()
	}
	c.combine(o)
}

// integerFunction plans what Go computes of an integer.
func integerFunction(f operators.Function) func(*invocation) {
	return func(c *invocation) {
		c.integersOnly()
		c.hostResult(f.ComputeWhole(), 0)
	}
}

// integersOnly ends a call of anything but integers.
func (c *invocation) integersOnly() {
	for _, t := range []*tensor{c.tensor(0), c.tensor(c.lastArg())} {
		if isReal(t.dtype) {
			c.outside()
		}
	}
}

// clampInGo limits elements to two numbers, each of which may be missing.
func (c *invocation) clampInGo() {
	if isReal(c.tensor(0).dtype) {
		low, high := c.limits()
		c.hostResult(operators.Apply(func(x float64) float64 { return min(max(x, low), high) }), 0)
		return
	}
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	if !c.absent(1) {
		low = int64(c.integer(1))
	}
	if !c.absent(2) {
		high = int64(c.integer(2))
	}
	c.integersOnly()
	c.hostResult(operators.LimitWhole(low, high), 0)
}

// clampBetween limits numbers by the numbers of two tensors, each of which may be missing.
func (c *invocation) clampBetween() {
	operands := []int{0}
	for i := 1; i < 3; i++ {
		if !c.absent(i) {
			operands = append(operands, i)
		}
	}
	c.hostResult(operators.Clamp(!c.absent(1), !c.absent(2)), operands...)
}

// reducedRow returns the row of a reduction in Go along some dimensions: one, a list, or all of them.
func reducedRow(o operators.Operation) operatorRow { return operatorRow{inGo: reducedBy(o)} }

// anyOf is whether any element along some dimensions is true. The exporter asks so whether a row of attention is masked
// as a whole: whether any score is not equal to -Inf. Then the scores are read until there is one, and no mask is made.
func (c *invocation) anyOf() {
	plan := reducedBy(operators.Or)
	inverted, ok := c.callOf(c.args[0], "aten::logical_not.out")
	if !ok {
		plan(c)
		return
	}
	compared, ok := c.callOf(inverted[0], "aten::eq.Scalar_out")
	if !ok || c.tensorAt(compared[0]).dtype != Float || !slices.Equal(c.tensorAt(compared[0]).shape,
		c.tensor(0).shape) {
		plan(c)
		return
	}
	equality := &invocation{planner: c.planner, args: compared}
	x := equality.hostedOperand(0)
	c.hosted(operators.AnyDiffers(operators.Number(c.plan.values[x].element(), equality.number(1)), c.axes(1)),
		ids{x}, c.hostedOperand(c.lastArg()))
}

// callOf returns the arguments of the call that computes a value of the method, if it is one of this operator.
func (c *invocation) callOf(value int, operator string) (args []int, ok bool) {
	for _, in := range c.method.instructions {
		if in.kind == kernelCall && len(in.args) > 1 && in.args[len(in.args)-1] == value {
			return in.args, c.method.operators[in.target] == operator
		}
	}
	return nil, false
}

func reducedBy(o operators.Operation) func(*invocation) {
	return func(c *invocation) { c.hostResult(operators.Reduce(o, c.axes(1), false), 0) }
}

// extremeRow returns the row of the largest or smallest elements along a dimension, and their indices.
func extremeRow(o operators.Operation, index func(axis int) operators.Operator) operatorRow {
	return operatorRow{inGo: func(c *invocation) {
		x := c.tensor(0)
		axis := c.axis(x, c.integer(1))
		if c.tensor(3).dtype != x.dtype {
			malformed("elements of %v for %v", x.dtype, c.tensor(3).dtype)
		}
		c.hostTo([]int{3}, operators.Reduce(o, []int{axis}, false), 0)
		c.hostTo([]int{4}, index(axis), 0)
	}}
}

// indexRow returns the row of the index of the largest or smallest element: along a dimension, or of all in their
// order.
func indexRow(index func(axis int) operators.Operator) operatorRow {
	return operatorRow{inGo: func(c *invocation) {
		if c.absent(1) {
			c.hostResult(operators.Flat(index(0)), 0)
		} else {
			c.hostResult(index(c.axis(c.tensor(0), c.integer(1))), 0)
		}
	}}
}

// topK is the largest or smallest elements along a dimension, and their indices.
func (c *invocation) topK() {
	x := c.tensor(0)
	if c.tensor(5).dtype != x.dtype {
		malformed("elements of %v for %v", x.dtype, c.tensor(5).dtype)
	}
	op := operators.TopK(c.integer(1))
	if axis, largest := c.axis(x, c.integer(2)), c.integer(3) != 0; axis != len(x.shape)-1 || !largest {
		op = operators.Extremes(axis, c.integer(1), largest)
	}
	c.hostTo([]int{5, 6}, op, 0)
}

func (c *invocation) cumulativeSum() {
	c.hostResult(operators.CumulativeSum(c.axis(c.tensor(0), c.integer(1)), false, false), 0)
}

// maskedFill is a tensor with a number where a condition is true.
func (c *invocation) maskedFill() { c.hostResult(operators.Fill(c.number(2)), 0, 1) }

func (c *invocation) logSoftmaxNodes() {
	x, y := c.tensor(0), c.tensor(c.lastArg())
	c.alike(x, y)
	in := c.float(0)
	c.inSinglePrecision(in, c.result(in), func(in, out xnnpack.ValueID) {
		flow.LogSoftmax(c, in, x.shape, c.axis(x, c.integer(1)), out)
	})
}

func (c *invocation) logSoftmax() {
	c.hostResult(operators.LogSoftmax(c.axis(c.tensor(0), c.integer(1))), 0)
}

// arange counts from a number in steps.
func (c *invocation) arange() {
	start, _, step := c.rangeArgs()
	c.hostResult(operators.Count(start, step, c.tensor(c.lastArg()).shape...))
}

// rangeArgs returns the arguments of a count. If it has one only, that is the end.
func (c *invocation) rangeArgs() (start, end, step float64) {
	if c.lastArg() < 3 {
		return 0, c.number(0), 1
	}
	return c.number(0), c.number(1), c.number(2)
}

// fullOf plans that argument i, a number, is everywhere.
func fullOf(i int) func(*invocation) {
	return func(c *invocation) { c.hostResult(operators.Count(c.number(i), 0, c.tensor(c.lastArg()).shape...)) }
}

// An operatorRow plans the calls of an operator outside of delegates: as nodes, or where XNNPACK does not have what is
// called, in Go. Either may be nil.
type operatorRow struct{ nodes, inGo func(*invocation) }

// isReal reports whether Go computes with elements as floats.
func isReal(t ScalarType) bool { return t == Double || isFloat(t) }

// isFloat reports whether XNNPACK converts elements from and to others of this kind.
func isFloat(t ScalarType) bool { return t == Float || t == Half || t == BFloat16 }

// permuted plans a transposition, or a copy if there is nothing to transpose.
func (c *invocation) permuted(source, target xnnpack.ValueID, permutation []int) {
	if slices.IsSorted(permutation) {
		c.Add(flow.Copy(xnnpack.Copy{Input: source, Output: target}))
		return
	}
	c.Add(flow.StaticTranspose(xnnpack.StaticTranspose{Permutation: permutation, Input: source, Output: target}))
}

func product(dims []int) int { return xnnpack.Elements(dims) }

// binaryNode plans a node to the last argument.
func (c *invocation) binaryNode(op xnnpack.BinaryOperator, a, b xnnpack.ValueID) {
	if c.described(a).Type != c.described(b).Type {
		c.outside()
	}
	c.Add(flow.Binary(xnnpack.Binary{Op: op, A: a, B: b, Output: c.result(a)}))
}

// second returns the second operand, a tensor or a number.
func (c *invocation) second(example xnnpack.ValueID) xnnpack.ValueID {
	if c.arg(1).tensor == nil {
		return c.Number(c.number(1), example)
	}
	c.alike(c.tensor(0), c.tensor(1), c.tensor(c.lastArg()))
	return c.float(1)
}

// factors returns argument i, a list of numbers, or nothing if it is not given.
func (c *invocation) factors(i int) []float64 {
	if c.absent(i) {
		return nil
	}
	v := c.arg(i)
	if v.kind != evalueDoubleList || len(v.numbers) != 2 {
		malformed("argument %d is no list of two numbers", i)
	}
	for _, x := range v.numbers {
		if !(x > 0) || math.IsInf(x, 0) {
			malformed("a factor of %g", x)
		}
	}
	return v.numbers
}

package tflite

import (
	"errors"
	"fmt"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
)

// WHILE, IF and STABLEHLO_COMPOSITE call other subgraphs. A subgraph is planned anew for each time that it is called,
// with the values that it is called with: so a loop that counts, as that of a recurrent layer, becomes as many steps as
// it has rounds.

// calls returns the numbers of the subgraphs that the operator may call.
func (o *operator) calls() []int {
	switch o.code {
	case "WHILE":
		return []int{int(o.options.Int32(whileCondition, 0)), int(o.options.Int32(whileBody, 0))}
	case "CALL_ONCE":
		return []int{int(o.options.Int32(callOnceInit, 0))}
	case "IF":
		return []int{int(o.options.Int32(ifThen, 0)), int(o.options.Int32(ifElse, 0))}
	case "STABLEHLO_COMPOSITE":
		return []int{int(o.options.Int32(compositeBody, 0))}
	case "STABLEHLO_SCATTER":
		return []int{int(o.options.Int32(scatterComputation, 0))}
	}
	return nil
}

// inliner plans operators, and in place of calls the called subgraphs' operators.
type inliner struct {
	*plan
	reasons flow.Reasons
	planned int // operators and rounds
	depth   int
	variables
}

// mostPlanned bounds what loops of a small file may become, and mostNested how deep they are in each other.
const (
	mostPlanned = 1 << 16
	mostNested  = 16
)

// errRefused stands for the reasons of an operator before.
var errRefused = errors.New("it needs what another operator cannot compute")

// operators plans operators in their order, and notes why some cannot run. What such a one would compute is refused.
func (n *inliner) operators(ops []operator) {
	for i := range ops {
		op := &ops[i]
		err := fault.Try(func() { n.operator(op) })
		if errors.Is(err, ErrMalformed) {
			fault.Check(fmt.Errorf("%s: %w", op.title(), err))
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, errRefused) {
			n.reasons.Add(fmt.Sprint(op.code, op.custom, ": ", err), fmt.Errorf("%s: %w", op.title(), err))
		}
		for _, t := range op.outputs {
			n.values[t] = value{state: refused}
		}
	}
}

func (n *inliner) operator(op *operator) {
	row, ok := supported[op.code]
	if op.code == "CUSTOM" {
		row, ok = customOperators[op.custom]
	}
	switch {
	case op.code == "CALL_ONCE":
		n.once(op)
	case op.ofVariable():
		n.ofVariable(op)
	case op.code == "WHILE", op.code == "IF", op.code == "STABLEHLO_COMPOSITE":
		n.call(op)
	case op.code == "UNIDIRECTIONAL_SEQUENCE_LSTM":
		n.sequence(op)
	case !ok:
		fault.Check(ErrUnsupportedOp)
	default:
		n.add(op, row)
	}
}

// add plans one operator that calls no other subgraph. What a loop joins to nothing yet is not joined.
func (n *inliner) add(op *operator, row operatorRow) {
	present := func(t int) bool { return t == absent || n.values[t].state != empty }
	if op.code == "CONCATENATION" && slices.ContainsFunc(op.inputs, present) {
		joined := *op
		joined.inputs = slices.DeleteFunc(slices.Clone(op.inputs), func(t int) bool { return !present(t) })
		op = &joined
	}
	fault.Check(n.plan.plan(op, row))
}

// call plans an operator that calls subgraphs.
func (n *inliner) call(op *operator) {
	if n.depth++; n.depth > mostNested {
		unsupported("more than %d calls in each other", mostNested)
	}
	defer func() { n.depth-- }()
	switch op.code {
	case "WHILE":
		n.loop(op)
	case "IF":
		n.choose(op)
	default:
		n.expand(op)
	}
}

// expand plans a composite: the operators of its body, which compute its outputs in place.
func (n *inliner) expand(op *operator) {
	results := n.inline(op, op.calls()[0], op.inputs, op.outputs...)
	if len(results) != len(op.outputs) {
		malformed("%d outputs of %d", len(op.outputs), len(results))
	}
	for i, out := range op.outputs {
		if results[i] != out {
			n.copied(op, results[i], out)
		}
	}
}

// loop plans WHILE: as many rounds as it has, which must be known.
func (n *inliner) loop(op *operator) {
	if len(op.inputs) != len(op.outputs) {
		malformed("%d values, and %d after the loop", len(op.inputs), len(op.outputs))
	}
	current := op.inputs
	for {
		condition := n.inline(op, op.calls()[0], current)
		if len(condition) != 1 {
			malformed("a condition of %d values", len(condition))
		}
		goesOn, ok := n.decided(condition[0])
		if !ok {
			unsupported("how often it repeats depends on what is computed")
		}
		if !goesOn {
			break
		}
		if current = n.inline(op, op.calls()[1], current); len(current) != len(op.outputs) {
			malformed("a round has %d values, and the next %d", len(op.outputs), len(current))
		}
	}
	for i, out := range op.outputs {
		n.copied(op, current[i], out)
	}
}

// choose plans IF. If the condition is not known, both subgraphs are planned, and each run computes one of them.
func (n *inliner) choose(op *operator) {
	if len(op.inputs) == 0 {
		malformed("no condition")
	}
	holds, ok := n.decided(op.inputs[0])
	var results [2][]int
	defer func(prev bool, guards []flow.Guard) { n.perhaps, n.guards = prev, guards }(n.perhaps, n.guards)
	n.perhaps = n.perhaps || !ok
	outer := slices.Clip(n.guards)
	for i, subgraph := range op.calls() {
		if ok && holds != (i == 0) {
			continue
		}
		if !ok {
			n.guards = append(outer, flow.Guard{Value: flow.ID(op.inputs[0]), Holds: i == 0})
		}
		if results[i] = n.inline(op, subgraph, op.inputs[1:]); len(results[i]) != len(op.outputs) {
			malformed("%d values of %d", len(results[i]), len(op.outputs))
		}
	}
	n.guards = outer
	for i, out := range op.outputs {
		switch {
		case ok && holds:
			n.copied(op, results[0][i], out)
		case ok:
			n.copied(op, results[1][i], out)
		default:
			n.operators([]operator{{index: op.index, caller: op.name() + ": ", code: "SELECT_V2", options: op.options,
				inputs: []int{op.inputs[0], results[0][i], results[1][i]}, outputs: []int{out}}})
		}
	}
}

// copied makes an output of a call one of the values of the subgraph.
func (n *inliner) copied(op *operator, src, dst int) {
	single := operator{index: op.index, caller: op.caller, code: op.code, options: op.options,
		inputs: []int{src}, outputs: []int{dst}}
	n.add(&single, operatorRow{plan: planCopy, takes: bytes8, inGo: planCopy})
}

// planCopy plans what gives a value another number.
func planCopy(c *call) {
	in := c.operand(0)
	c.sameTypes(in)
	c.reshape(in.shape)
}

// value returns what a tensor is, which must have been computed before or be a constant.
func (n *inliner) value(t int) *value {
	c := &call{plan: n.plan, op: &operator{inputs: []int{t}}}
	return c.resolve(0)
}

// decided returns a boolean, if it is a constant.
func (n *inliner) decided(t int) (holds, ok bool) {
	v := n.value(t)
	if v.dtype != typeBool || !slices.Equal(v.shape, []int{1}) && len(v.shape) > 0 {
		malformed("a condition of %v%v", v.dtype, v.shape)
	}
	return v.state == static && v.constant.bytes(n.plan.file)[0] != 0, v.state == static
}

// inline plans the operators of a subgraph that is called with some values, and returns its outputs. Those that can be
// computed as the results, of which there may be none, are.
func (n *inliner) inline(op *operator, subgraph int, inputs []int, results ...int) (outputs []int) {
	b := n.graph.bodies[subgraph]
	if n.planned += 1 + len(b.operators); n.planned > mostPlanned {
		unsupported("more than %d operators in all rounds", mostPlanned)
	}
	if len(inputs) != len(b.inputs) {
		malformed("%d values for a subgraph of %d", len(inputs), len(b.inputs))
	}
	renumbered := slices.Repeat([]int{absent}, b.tensors) // the numbers that its tensors have this time
	for i, t := range b.inputs {
		n.passes(inputs[i], t)
		renumbered[t-b.first] = inputs[i]
	}
	for i, t := range b.outputs[:min(len(results), len(b.outputs))] {
		if k := t - b.first; renumbered[k] == absent && n.graph.tensors[t].data.Size == 0 && n.alike(t, results[i]) {
			renumbered[k] = results[i]
		}
	}
	number := func(tensors []int) []int {
		out := slices.Clone(tensors)
		for i, t := range tensors {
			if t == absent {
				continue
			}
			if k := t - b.first; renumbered[k] == absent {
				renumbered[k] = n.repeat(t)
			}
			out[i] = renumbered[t-b.first]
		}
		return out
	}
	ops := slices.Clone(b.operators)
	for i := range ops {
		o := &ops[i]
		o.index, o.caller = op.index, fmt.Sprintf("%s: operator %d, ", op.name(), o.index)
		o.inputs, o.outputs = number(o.inputs), number(o.outputs)
	}
	prev := n.reasons.Len()
	if n.operators(ops); n.reasons.Len() > prev {
		fault.Check(errRefused)
	}
	return number(b.outputs)
}

// passes checks that a value can be an input of a subgraph.
func (n *inliner) passes(value, input int) {
	if value == absent {
		malformed("a value is missing")
	}
	src, dst := &n.graph.tensors[value], &n.graph.tensors[input]
	switch {
	case dst.data.Size != 0:
		malformed("the input %q is constant", dst.name)
	case src.dtype != dst.dtype:
		malformed("%q is of type %v, and %q of %v", src.name, src.dtype, dst.name, dst.dtype)
	case !n.alike(value, input):
		unsupported("%q and %q have different scales", src.name, dst.name)
	}
}

// alike reports whether two tensors have the same type and scales.
func (n *inliner) alike(a, b int) bool {
	x, y := &n.graph.tensors[a], &n.graph.tensors[b]
	return x.dtype == y.dtype && slices.Equal(x.quantization.scales, y.quantization.scales) &&
		slices.Equal(x.quantization.zeroPoints, y.quantization.zeroPoints)
}

// repeat returns a tensor of a subgraph for one more time that it is called: itself if it is constant.
func (n *inliner) repeat(t int) int {
	original := n.graph.tensors[t]
	if original.data.Size > 0 {
		return t
	}
	return n.tensor(original)
}

// tensor adds a tensor to the graph, under a name that none has.
func (n *inliner) tensor(original tensor) int {
	name := fmt.Sprintf("%s@%d", original.name, len(n.graph.tensors))
	for n.taken(name) {
		name += "@"
	}
	n.names[name], original.name = true, name
	n.graph.tensors, n.values = append(n.graph.tensors, original), append(n.values, value{})
	return len(n.values) - 1
}

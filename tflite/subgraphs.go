package tflite

import (
	"errors"
	"fmt"
	"slices"
)

// WHILE and IF call other subgraphs. A subgraph is planned anew for each time that it is called, with the values that
// it is called with: so a loop that counts, as that of a recurrent layer, becomes as many steps as it has rounds.

// calls returns the numbers of the subgraphs that the operator may call.
func (o *operator) calls() []int {
	switch o.code {
	case opWhile:
		return []int{int(o.options.Int32(whileCondition, 0)), int(o.options.Int32(whileBody, 0))}
	case opCallOnce:
		return []int{int(o.options.Int32(callOnceInit, 0))}
	case opIf:
		return []int{int(o.options.Int32(ifThen, 0)), int(o.options.Int32(ifElse, 0))}
	}
	return nil
}

// inliner plans operators, and those of the subgraphs that they call in their place.
type inliner struct {
	*plan
	file    []byte
	why     *reasons
	planned int // operators and rounds
	depth   int
	variables
}

// mostPlanned bounds what loops of a small file may become, and mostNested how deep they are in each other.
const (
	mostPlanned = 1 << 16
	mostNested  = 16
)

// operators plans operators in their order, and notes why some cannot run.
func (n *inliner) operators(ops []operator) error {
	for i := range ops {
		op := &ops[i]
		var err error
		row, ok := operators[op.code]
		switch {
		case op.code == opCustom:
			row, ok = customOperators[op.custom]
		case op.calls() != nil, op.code == opSequenceLSTM, op.ofVariable():
			ok = true
		}
		switch {
		case !ok:
			err = ErrUnsupportedOp
		case op.code == opCallOnce:
			err = n.once(op)
		case op.ofVariable():
			err = n.ofVariable(op)
		case op.calls() != nil:
			err = n.call(op)
		case op.code == opSequenceLSTM:
			err = n.sequence(op)
		default:
			err = n.add(op, row)
		}
		if errors.Is(err, ErrMalformed) {
			return fmt.Errorf("operator %d, %s: %w", op.index, op.name(), err)
		}
		if err != nil {
			n.why.add(op, err)
			n.refuse(op)
		}
	}
	return nil
}

// add plans one operator that calls no other subgraph. What a loop joins to nothing yet is not joined.
func (n *inliner) add(op *operator, row operatorRow) error {
	some := func(t int) bool { return t == absent || n.values[t].state != empty }
	if op.code == opConcatenation && slices.ContainsFunc(op.inputs, some) {
		joined := *op
		joined.inputs = slices.DeleteFunc(slices.Clone(op.inputs), func(t int) bool { return !some(t) })
		op = &joined
	}
	s, err := n.plan.plan(op, row, n.file)
	if err == nil && (s.emit != nil || s.compute != nil) {
		n.steps = append(n.steps, s)
	}
	return err
}

// call plans an operator that calls subgraphs.
func (n *inliner) call(op *operator) error {
	if err := op.options.Err(); err != nil {
		return err
	}
	if n.depth++; n.depth > mostNested {
		return fmt.Errorf("%w: more than %d calls in each other", ErrUnsupported, mostNested)
	}
	defer func() { n.depth-- }()
	if op.code == opWhile {
		return n.loop(op)
	}
	return n.choose(op)
}

// loop plans WHILE: as many rounds as it has, which must be known.
func (n *inliner) loop(op *operator) error {
	if len(op.inputs) != len(op.outputs) {
		return fmt.Errorf("%w: %d values, and %d after the loop", ErrMalformed, len(op.inputs), len(op.outputs))
	}
	current := op.inputs
	for {
		again, err := n.inline(op, op.calls()[0], current)
		if err != nil {
			return err
		}
		if len(again) != 1 {
			return fmt.Errorf("%w: a condition of %d values", ErrMalformed, len(again))
		}
		goesOn, known, err := n.decided(again[0])
		if err == nil && !known {
			err = fmt.Errorf("%w: how often it repeats depends on what is computed", ErrUnsupported)
		}
		if err != nil {
			return err
		}
		if !goesOn {
			break
		}
		if current, err = n.inline(op, op.calls()[1], current); err != nil {
			return err
		}
		if len(current) != len(op.outputs) {
			return fmt.Errorf("%w: a round has %d values, and the next %d", ErrMalformed, len(op.outputs), len(current))
		}
	}
	for i, out := range op.outputs {
		if err := n.copied(op, current[i], out); err != nil {
			return err
		}
	}
	return nil
}

// choose plans IF. If the condition is not known, both subgraphs are computed.
func (n *inliner) choose(op *operator) error {
	if len(op.inputs) == 0 {
		return fmt.Errorf("%w: no condition", ErrMalformed)
	}
	holds, known, err := n.decided(op.inputs[0])
	if err != nil {
		return err
	}
	var results [2][]int
	defer func(before bool) { n.perhaps = before }(n.perhaps)
	n.perhaps = n.perhaps || !known
	for i, subgraph := range op.calls() {
		if known && holds != (i == 0) {
			continue
		}
		if results[i], err = n.inline(op, subgraph, op.inputs[1:]); err != nil {
			return err
		}
		if len(results[i]) != len(op.outputs) {
			return fmt.Errorf("%w: %d values of %d", ErrMalformed, len(results[i]), len(op.outputs))
		}
	}
	for i, out := range op.outputs {
		switch {
		case known && holds:
			err = n.copied(op, results[0][i], out)
		case known:
			err = n.copied(op, results[1][i], out)
		default:
			chosen := operator{index: op.index, within: op.name() + ": ", code: opSelectV2,
				options: op.options, inputs: []int{op.inputs[0], results[0][i], results[1][i]}, outputs: []int{out}}
			err = n.operators([]operator{chosen})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copied makes an output of a call one of the values of the subgraph.
func (n *inliner) copied(op *operator, from, to int) error {
	one := operator{index: op.index, within: op.within, code: op.code, options: op.options,
		inputs: []int{from}, outputs: []int{to}}
	return n.add(&one, operatorRow{plan: planCopy, takes: bytes8, inGo: planCopy})
}

// planCopy plans what gives a value another number.
func planCopy(c *call) func(*emitter) error {
	in := c.data(0)
	c.sameTypes(in)
	return c.reshape(in.shape)
}

// decided returns a boolean, if it is a constant.
func (n *inliner) decided(t int) (holds, known bool, err error) {
	c := &call{plan: n.plan, op: &operator{inputs: []int{t}}, file: n.file}
	v := c.resolve(0)
	switch {
	case c.err != nil:
		return false, false, c.err
	case v.dtype != typeBool || !slices.Equal(v.shape, []int{1}) && len(v.shape) > 0:
		return false, false, fmt.Errorf("%w: a condition of %v%v", ErrMalformed, v.dtype, v.shape)
	case v.state != static:
		return false, false, nil
	}
	b, err := v.constant.bytes(n.file)
	return err == nil && b[0] != 0, true, err
}

// inline plans the operators of a subgraph that is called with some values, and returns its outputs.
func (n *inliner) inline(op *operator, subgraph int, inputs []int) (outputs []int, err error) {
	b := n.graph.bodies[subgraph]
	if n.planned += 1 + len(b.operators); n.planned > mostPlanned {
		return nil, fmt.Errorf("%w: more than %d operators in all rounds", ErrUnsupported, mostPlanned)
	}
	if len(inputs) != len(b.inputs) {
		return nil, fmt.Errorf("%w: %d values for a subgraph of %d", ErrMalformed, len(inputs), len(b.inputs))
	}
	now := make([]int, b.tensors) // the numbers that its tensors have this time
	for i := range now {
		now[i] = absent
	}
	for i, t := range b.inputs {
		if err := n.passes(inputs[i], t); err != nil {
			return nil, err
		}
		now[t-b.first] = inputs[i]
	}
	number := func(tensors []int) []int {
		out := slices.Clone(tensors)
		for i, t := range tensors {
			if t == absent {
				continue
			}
			if k := t - b.first; now[k] == absent {
				now[k] = n.again(t)
			}
			out[i] = now[t-b.first]
		}
		return out
	}
	ops := slices.Clone(b.operators)
	for i := range ops {
		o := &ops[i]
		o.index, o.within = op.index, fmt.Sprintf("%s: operator %d, ", op.name(), o.index)
		o.inputs, o.outputs = number(o.inputs), number(o.outputs)
	}
	before := len(n.why.list)
	if err = n.operators(ops); err == nil && len(n.why.list) > before {
		err = errRefused
	}
	return number(b.outputs), err
}

// passes checks that a value can be an input of a subgraph.
func (n *inliner) passes(value, input int) error {
	if value == absent {
		return fmt.Errorf("%w: a value is missing", ErrMalformed)
	}
	from, to := &n.graph.tensors[value], &n.graph.tensors[input]
	switch {
	case to.data.Size != 0:
		return fmt.Errorf("%w: the input %q is constant", ErrMalformed, to.name)
	case from.dtype != to.dtype:
		return fmt.Errorf("%w: %q is of type %v, and %q of %v", ErrMalformed, from.name, from.dtype, to.name, to.dtype)
	case !slices.Equal(from.quantization.scales, to.quantization.scales),
		!slices.Equal(from.quantization.zeroPoints, to.quantization.zeroPoints):
		return fmt.Errorf("%w: %q and %q have different scales", ErrUnsupported, from.name, to.name)
	}
	return nil
}

// again returns a tensor of a subgraph for one more time that it is called: itself if it is constant.
func (n *inliner) again(t int) int {
	of := n.graph.tensors[t]
	if of.data.Size > 0 {
		return t
	}
	return n.tensor(of)
}

// tensor adds a tensor to the graph, under a name that none has.
func (n *inliner) tensor(of tensor) int {
	names, name := n.tensorNames(), fmt.Sprintf("%s@%d", of.name, len(n.graph.tensors))
	for names[name] {
		name += "@"
	}
	names[name], of.name = true, name
	n.graph.tensors, n.values = append(n.graph.tensors, of), append(n.values, value{})
	return len(n.values) - 1
}

package tflite

import (
	"slices"

	"xpwc/internal/flow"
)

// Variables are values with names that stay from one inference to the next. CALL_ONCE calls a subgraph that gives them
// what they begin with, which must follow from constants. VAR_HANDLE gives a variable by its name, READ_VARIABLE its
// value, and ASSIGN_VARIABLE another value. One that the model never changes is a constant. Others are states.

// A variable is what planning knows of one.
type variable struct {
	initial int  // the constant that it begins with, or absent
	changes bool // the model changes it
	state   int  // its value when an inference begins, or absent while nothing needs it
	current int  // its value at the point that planning has reached
}

// variables are the variables of a model.
type variables struct {
	named    map[string]*variable
	order    []*variable // in which they were named
	handles  map[int]*variable
	starting bool // what is planned is what variables begin with
	perhaps  bool // what is planned is one of two subgraphs, and which of them counts is not known
}

func (o *operator) variableName() string {
	return o.options.String(varContainer) + "\x00" + o.options.String(varName)
}

// ofVariable reports whether the operator gives, reads or changes a variable.
func (o *operator) ofVariable() bool {
	return o.code == "VAR_HANDLE" || o.code == "READ_VARIABLE" || o.code == "ASSIGN_VARIABLE"
}

// variable returns the one of a name.
func (v *variables) variable(name string) *variable {
	item := v.named[name]
	if item == nil {
		item = &variable{initial: absent, state: absent, current: absent}
		v.named[name] = item
		v.order = append(v.order, item)
	}
	return item
}

// change notes which variables operators change. A handle that comes from elsewhere may be any variable's.
func (v *variables) change(ops []operator) {
	for i := range ops {
		switch op := &ops[i]; {
		case op.code == "VAR_HANDLE" && len(op.outputs) == 1:
			v.handles[op.outputs[0]] = v.variable(op.variableName())
		case op.code == "ASSIGN_VARIABLE" && len(op.inputs) == 2:
			changed := v.order
			if item := v.handles[op.inputs[0]]; item != nil {
				changed = []*variable{item}
			}
			for _, item := range changed {
				item.changes = true
			}
		}
	}
}

// prepare notes the variables that the model changes, except in subgraphs that are called once.
func (n *inliner) prepare(ops []operator) {
	once := map[int]bool{}
	for i := range ops {
		if ops[i].code == "CALL_ONCE" {
			once[ops[i].calls()[0]] = true
		}
	}
	n.change(ops)
	for number, b := range n.graph.bodies {
		if !once[number] {
			n.change(b.operators)
		}
	}
}

// once plans CALL_ONCE.
func (n *inliner) once(op *operator) {
	if n.starting || op.caller != "" {
		unsupported("within another subgraph")
	}
	n.starting = true
	defer func() { n.starting = false }()
	n.inline(op, op.calls()[0], nil)
}

// ofVariable plans what gives, reads and changes variables.
func (n *inliner) ofVariable(op *operator) {
	in, out := 1, 1
	switch op.code {
	case "VAR_HANDLE":
		in = 0
	case "ASSIGN_VARIABLE":
		in, out = 2, 0
	}
	if len(op.inputs) != in || len(op.outputs) != out || slices.Contains(op.inputs, absent) {
		malformed("%d inputs and %d outputs", len(op.inputs), len(op.outputs))
	}
	if op.code == "VAR_HANDLE" {
		n.handles[op.outputs[0]] = n.variable(op.variableName())
		return
	}
	v := n.handles[op.inputs[0]]
	if v == nil {
		unsupported("a variable that is not known")
	}
	if op.code == "ASSIGN_VARIABLE" && n.starting {
		n.starts(v, op.inputs[1])
		return
	}
	if v.initial == absent {
		unsupported("a variable that begins with nothing")
	}
	if v.changes && v.state == absent {
		begins := n.values[v.initial]
		item := n.graph.tensors[v.initial]
		v.state = n.tensor(tensor{name: item.name, dtype: item.dtype, quantization: item.quantization})
		n.values[v.state] = value{state: dynamic, shape: begins.shape, dtype: begins.dtype}
		v.current = v.state
	}
	if op.code == "READ_VARIABLE" {
		n.copied(op, v.current, op.outputs[0])
	} else {
		n.changed(v, op)
	}
}

// starts notes the first value of a variable.
func (n *inliner) starts(v *variable, constant int) {
	if n.value(constant).state != static {
		unsupported("a variable that begins with no constant")
	}
	v.initial, v.current = constant, constant
}

// changed plans ASSIGN_VARIABLE: the variable's value is another one from now on.
func (n *inliner) changed(v *variable, op *operator) {
	assigned, first := n.value(op.inputs[1]), n.value(v.initial)
	switch {
	case n.perhaps:
		unsupported("a variable that changes on a condition")
	case assigned.dtype != first.dtype, !slices.Equal(assigned.shape, first.shape):
		unsupported("a variable of %v%v that becomes %v%v", first.dtype, first.shape, assigned.dtype, assigned.shape)
	case assigned.state != dynamic:
		unsupported("a variable that is given a constant")
	}
	item := n.graph.tensors[v.state]
	next := n.tensor(tensor{name: item.name, dtype: item.dtype,
		quantization: n.graph.tensors[op.inputs[1]].quantization})
	v.current = next
	n.copied(op, op.inputs[1], next)
}

// keep adds the variables that were changed to the states of the plan.
func (n *inliner) keep() {
	for _, v := range n.order {
		if v.state != absent {
			begin := func(dst []byte) error { return flow.Part{Values: n.plan}.WriteContent(dst, flow.ID(v.initial)) }
			n.states = append(n.states, flow.State{Value: flow.ID(v.state), Next: flow.ID(v.current), Initial: begin})
		}
	}
}

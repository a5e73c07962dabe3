package tflite

import (
	"encoding/binary"
	"slices"

	"xpwc/internal/flatbuf"
	"xpwc/internal/flow"
)

// UNIDIRECTIONAL_SEQUENCE_LSTM is planned as the operators that it consists of: matrix products for each gate, of all
// steps at once and of the output of the step before, and elementwise operators. Its states stay from one inference to
// the next, as TensorFlow Lite keeps them, until they are reset. Where it computes with int8, what a step gives to the
// next is rounded as there, and the rest is computed in single precision.

// The operands of the gates begin at these numbers.
const (
	lstmInput      = 0
	lstmWeights    = 1 // of the input, the forget, the cell and the output gate
	lstmRecurrent  = 5
	lstmPeephole   = 9 // of the input, the forget and the output gate
	lstmBias       = 12
	lstmProjection = 16
	lstmProjected  = 17 // the bias of the projection
	lstmState      = 18
	lstmCell       = 19
	lstmNorm       = 20
	lstmOperands   = 24
)

const (
	inputGate = iota
	forgetGate
	cellGate
	outputGate
)

// A composer plans an operator as several others.
type composer struct {
	*inliner
	op        *operator
	noOptions flatbuf.Table // options that are not given
	wide      map[int]int   // tensors in single precision, by the tensors that they were converted from
}

func (n *inliner) sequence(op *operator) {
	c := &composer{inliner: n, op: op, noOptions: op.options.Table(unset), wide: map[int]int{}}
	if len(op.inputs) != lstmOperands || len(op.outputs) != 1 {
		malformed("%d inputs and %d outputs", len(op.inputs), len(op.outputs))
	}
	if slices.ContainsFunc(op.inputs[lstmNorm:], func(t int) bool { return t != absent }) {
		unsupported("layer normalization inside")
	}
	if op.options.Bool(lstmDiagonal) {
		unsupported("recurrent weights that are a diagonal")
	}
	c.lstm()
}

func (c *composer) lstm() {
	x := c.floats(c.op.inputs[lstmInput])
	shape := c.value(x).shape
	if len(shape) != 3 {
		malformed("an input of shape %v, not batch, time and numbers", shape)
	}
	byTime := c.op.options.Bool(lstmTimeMajor)
	if !byTime {
		x = c.computes("TRANSPOSE", x, c.integers(1, 0, 2))
		shape = []int{shape[1], shape[0], shape[2]}
	}
	steps, batch := shape[0], shape[1]
	var gates [4][]int // what each gate makes of the input, by step
	for gate := range gates {
		if w := c.op.inputs[lstmWeights+gate]; w != absent {
			list := c.computes("FULLY_CONNECTED", x, c.floats(w), c.bias(lstmBias+gate))
			gates[gate] = c.plans("SPLIT", steps, c.integers(0), list)
		}
	}
	if slices.ContainsFunc(gates[forgetGate:], func(g []int) bool { return g == nil }) {
		malformed("a gate without weights")
	}
	width := c.value(gates[cellGate][0]).shape[1]
	last := width
	if p := c.op.inputs[lstmProjection]; p != absent {
		last = c.value(c.floats(p)).shape[0]
	}
	output, cell := c.state(batch, last), c.state(batch, width)
	h, state := output, cell
	var list []int
	for t := range steps {
		gate := func(k, peephole int) int {
			sum := c.computes("ADD", gates[k][t], c.computes("FULLY_CONNECTED", h,
				c.floats(c.op.inputs[lstmRecurrent+k]), absent))
			if peephole != absent && c.op.inputs[peephole] != absent {
				sum = c.computes("ADD", sum, c.computes("MUL", state, c.floats(c.op.inputs[peephole])))
			}
			return sum
		}
		forget := c.computes("LOGISTIC", gate(forgetGate, lstmPeephole+1))
		candidate := c.activated(gate(cellGate, absent))
		remembered := c.computes("MUL", forget, state)
		var added int
		if gates[inputGate] != nil {
			added = c.computes("MUL", c.computes("LOGISTIC", gate(inputGate, lstmPeephole)), candidate)
		} else { // what is not forgotten is not replaced
			added = c.computes("SUB", candidate, c.computes("MUL", forget, candidate))
		}
		state = c.clipped(c.computes("ADD", remembered, added), lstmCellClip)
		h = c.computes("MUL", c.computes("LOGISTIC", gate(outputGate, lstmPeephole+2)), c.activated(state))
		if p := c.op.inputs[lstmProjection]; p != absent {
			h = c.clipped(c.computes("FULLY_CONNECTED", h, c.floats(p), c.bias(lstmProjected)), lstmProjectionClip)
		}
		h = c.rounded(h, c.op.inputs[lstmState])
		list = append(list, c.computes("RESHAPE", h, c.integers(1, batch, last)))
	}
	if c.states = append(c.states, zeroState(output, h), zeroState(cell, state)); len(list) > mostJoined {
		unsupported("%d steps", len(list))
	}
	joined := c.computes("CONCATENATION", list...)
	if !byTime {
		joined = c.computes("TRANSPOSE", joined, c.integers(1, 0, 2))
	}
	sequenceTensor, out := &c.graph.tensors[c.op.outputs[0]], c.op.outputs
	if sequenceTensor.dtype == typeFloat32 {
		c.copied(c.op, joined, out[0])
	} else {
		c.planStep("QUANTIZE", []int{joined}, out)
	}
}

// zeroState is a state that begins with zeros.
func zeroState(t, next int) flow.State {
	zeros := func(dst []byte) error { clear(dst); return nil }
	return flow.State{Value: flow.ID(t), Next: flow.ID(next), Initial: zeros}
}

// planStep plans one of the operators.
func (c *composer) planStep(name opcode, inputs, outputs []int) {
	c.stepOf(name, supported[name], inputs, outputs)
}

func (c *composer) stepOf(name opcode, row operatorRow, inputs, outputs []int) {
	c.add(&operator{index: c.op.index, caller: c.op.name() + ": ", code: name, options: c.noOptions,
		inputs: inputs, outputs: outputs}, row)
}

// computes plans an operator with one output in single precision, and plans one with some. They return the outputs.
func (c *composer) computes(name opcode, inputs ...int) int { return c.plans(name, 1, inputs...)[0] }

func (c *composer) plans(name opcode, n int, inputs ...int) (outputs []int) {
	for range n {
		outputs = append(outputs, c.fresh(typeFloat32, quantization{}))
	}
	c.planStep(name, inputs, outputs)
	return outputs
}

// fresh returns a new tensor.
func (c *composer) fresh(dtype elementType, q quantization) int {
	return c.tensor(tensor{name: c.op.name(), dtype: dtype, quantization: q})
}

// constant returns a new constant.
func (c *composer) constant(dtype elementType, shape []int, data []byte) int {
	t := c.fresh(dtype, quantization{})
	c.values[t] = value{state: static, shape: shape, dtype: dtype, constant: &constant{name: c.graph.tensors[t].name,
		stored: dtype, dtype: dtype, data: data, shape: shape, size: len(data)}}
	return t
}

func (c *composer) integers(numbers ...int) int {
	var data []byte
	for _, n := range numbers {
		data = binary.LittleEndian.AppendUint32(data, uint32(n))
	}
	return c.constant(typeInt32, []int{len(numbers)}, data)
}

// state returns a value that is kept from one inference to the next, and begins with zeros.
func (c *composer) state(shape ...int) int {
	t := c.fresh(typeFloat32, quantization{})
	if _, err := elements(shape); err != nil {
		malformed("a state: %v", err)
	}
	c.values[t] = value{state: dynamic, shape: shape, dtype: typeFloat32}
	return t
}

// floats returns a tensor in single precision: another one if it is quantized, the same each time that it is asked for.
func (c *composer) floats(t int) int {
	if t == absent {
		malformed("an operand is missing")
	}
	operand := &c.graph.tensors[t]
	if operand.element() == typeFloat32 ||
		c.graph.tensors[c.op.outputs[0]].dtype == typeFloat32 && operand.dtype == typeInt8 {
		return t
	}
	if wide, ok := c.wide[t]; ok {
		return wide
	}
	c.wide[t] = c.computes("DEQUANTIZE", t)
	return c.wide[t]
}

// bias returns operand i in single precision, or absent.
func (c *composer) bias(i int) int {
	if c.op.inputs[i] == absent {
		return absent
	}
	return c.floats(c.op.inputs[i])
}

// rounded is a value as a tensor of another type has it.
func (c *composer) rounded(t, example int) int {
	operand := tensor{dtype: typeFloat32}
	if example != absent {
		operand = c.graph.tensors[example]
	}
	if !operand.dtype.isBytes() {
		return t
	}
	stored := c.fresh(operand.dtype, operand.quantization)
	c.planStep("QUANTIZE", []int{t}, []int{stored})
	return c.computes("DEQUANTIZE", stored)
}

// activated applies the operator's activation.
func (c *composer) activated(t int) int {
	switch a := c.op.options.Byte(lstmActivation); a {
	case activationNone:
		return t
	case activationTanh:
		return c.computes("TANH", t)
	default:
		unsupported("activation %d", a)
		return t
	}
}

// clipped limits a value to an option, if that is more than 0.
func (c *composer) clipped(t, slot int) int {
	limit := float64(c.op.options.Float32(slot, 0))
	if !(limit > 0) {
		return t
	}
	out := c.fresh(typeFloat32, quantization{})
	row := operatorRow{plan: planUnary(clamp(-limit, limit))}
	c.stepOf("MAXIMUM", row, []int{t}, []int{out})
	return out
}

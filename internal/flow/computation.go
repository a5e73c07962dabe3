package flow

import (
	"fmt"
	"slices"
	"sync"

	"xpwc/internal/fault"
)

// A computation is one run of a step in Go. The caller passes the buffer of each value once; constants are read from
// the model's files. A computation is used again, so that the inferences of a small model do not allocate.
type computation struct {
	part            Part
	step            *Step
	op              Hosted
	settled         bool
	operands        []operand // the inputs
	results         []operand
	inputs, outputs [][]byte
	in, out         []Array
	view, run       func() // its methods
}

// An operand is an input or a result of a step.
type operand struct {
	Array  // without content, but a constant that was read
	id     ID
	buffer int // the index among the buffers of the caller, or inFile
	size   int
}

const inFile = -1

func (p Part) operand(id ID, buffer int) operand {
	return operand{p.Array(id), id, buffer, p.Bytes(id)}
}

// computation returns what computes the step, in any number of goroutines. The results of a settled one are computed
// in the first run alone.
func (p Part) computation(step *Step, op Hosted, settled bool) func(inputs, outputs [][]byte) error {
	idle := sync.Pool{New: func() any { return p.newComputation(step, op, settled) }}
	return func(inputs, outputs [][]byte) error {
		c := idle.Get().(*computation)
		c.inputs, c.outputs = inputs, outputs
		if err := fault.Try(c.view); err != nil { // what it left behind is not used again
			return p.named(fmt.Errorf("%s: %w", step.Name, err))
		}
		idle.Put(c)
		return nil
	}
}

func (p Part) newComputation(step *Step, op Hosted, settled bool) *computation {
	c := &computation{part: p, step: step, op: op, settled: settled,
		in: make([]Array, len(op.Inputs)), out: make([]Array, len(op.Results))}
	count := 0
	for i, id := range op.Inputs {
		buffer := inFile
		if first := slices.Index(op.Inputs, id); first < i {
			buffer = c.operands[first].buffer
		} else if !p.constant(id) {
			buffer = count
			count++
		}
		c.operands = append(c.operands, p.operand(id, buffer))
	}
	for i, id := range op.Results {
		c.results = append(c.results, p.operand(id, i))
	}
	c.run = c.compute
	if settled {
		c.run = c.computeOnce
	}
	c.view = func() { p.View(c.run) }
	return c
}

func (c *computation) compute() {
	for i := range c.operands {
		o := &c.operands[i]
		if o.buffer == inFile && o.Data == nil {
			o.Data = c.part.Constants.Content(o.id, func() []byte { return c.part.Content(o.id) })[:o.size]
		}
		c.in[i] = o.in(c.inputs)
	}
	for i, o := range c.results {
		c.out[i] = o.in(c.outputs)
	}
	c.op.Compute(c.out, c.in)
}

// in returns the operand with its content. A buffer has the largest size of several plans.
func (o *operand) in(buffers [][]byte) Array {
	a := o.Array
	if o.buffer != inFile {
		a.Data = buffers[o.buffer][:min(o.size, len(buffers[o.buffer]))]
	}
	return a
}

// computeOnce copies what the step computed in the first run.
func (c *computation) computeOnce() {
	outputs := slices.Clone(c.outputs) // a buffer may be larger
	for i, o := range c.results {
		outputs[i] = outputs[i][:o.size]
	}
	results := c.part.Constants.Content(c.step, func() []byte {
		c.outputs = outputs
		c.compute()
		return slices.Concat(outputs...)
	})
	for _, out := range outputs {
		results = results[copy(out, results):]
	}
}

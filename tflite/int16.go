package tflite

import (
	"fmt"
	"math"

	"xpwc/xnnpack"
)

// XNNPACK has no kernels for int16. What the file has as int16 with a scale (its activations, beside weights of int8)
// is computed in single precision, with weights that are dequantized when they are packed. QUANTIZE and DEQUANTIZE keep
// it in the range that int16 has; between operators it is neither rounded nor limited. Inputs and outputs of int16 are
// converted in Go.

// fromInt16 is a constant of int16 in single precision.
func (c *call) fromInt16(k *constant) *constant {
	if k.scatter != nil {
		c.unsupported("sparse values of type %v", k.stored)
		return k
	}
	if c.err = k.scaled(); c.err != nil {
		return k
	}
	return c.plan.derive(k, (*constant).dequantized)
}

// withinInt16 limits single precision to what int16 of the output, or else of the input, has.
func (c *call) withinInt16() xnnpack.Unary {
	t := &c.plan.graph.tensors[c.op.outputs[0]]
	if t.dtype != typeInt16 {
		t = &c.plan.graph.tensors[c.op.inputs[0]]
	}
	var step float32
	step, c.err = t.int16Step()
	return clamp(math.MinInt16*float64(step), math.MaxInt16*float64(step))
}

// int16Step is what int16 of a tensor counts.
func (t *tensor) int16Step() (float32, error) {
	q := t.quantization
	if t.dtype != typeInt16 || len(q.scales) != 1 || !(q.scales[0] > 0 && q.scales[0] < math.MaxFloat32/math.MaxInt16) {
		return 0, fmt.Errorf("%w: values of type %v with the scales %v", ErrUnsupported, t.dtype, q.scales)
	}
	for _, z := range q.zeroPoints {
		if z != 0 {
			return 0, fmt.Errorf("%w: values of type %v with the zero point %d", ErrUnsupported, t.dtype, z)
		}
	}
	return q.scales[0], nil
}

// inputsOfInt16 puts a tensor of integers before each input of int16, which has its name then.
func (n *inliner) inputsOfInt16() error {
	for i, t := range n.graph.inputs {
		if n.graph.tensors[t].element() == n.graph.tensors[t].dtype {
			continue
		}
		outside, err := n.outside(t)
		if err != nil {
			return fmt.Errorf("input %q: %w", n.graph.tensors[outside].name, err)
		}
		n.values[outside] = value{state: dynamic, shape: n.values[t].shape, dtype: typeInt16}
		n.values[t] = value{}
		if err := n.edge(outside, t); err != nil {
			return fmt.Errorf("input %q: %w", n.graph.tensors[outside].name, err)
		}
		n.graph.inputs[i] = outside
	}
	return nil
}

// outputsOfInt16 puts a tensor of integers after each output of int16.
func (n *inliner) outputsOfInt16() error {
	for i, t := range n.graph.outputs {
		if n.graph.tensors[t].element() == n.graph.tensors[t].dtype {
			continue
		}
		outside, err := n.outside(t)
		if err == nil {
			err = n.edge(t, outside)
		}
		if err != nil {
			return fmt.Errorf("output %q: %w", n.graph.tensors[outside].name, err)
		}
		n.graph.outputs[i] = outside
	}
	return nil
}

// outside adds a tensor of integers that has a tensor's name from now on.
func (n *inliner) outside(t int) (int, error) {
	step, err := n.graph.tensors[t].int16Step()
	of := n.tensor(tensor{name: n.graph.tensors[t].name, dtype: typeInt16, step: step})
	in, out := &n.graph.tensors[t], &n.graph.tensors[of]
	in.name, out.name = out.name, in.name
	return of, err
}

// edge plans the conversion of a tensor to the one outside, or from it.
func (n *inliner) edge(from, to int) error {
	op := &operator{code: opDequantize, inputs: []int{from}, outputs: []int{to}}
	return n.add(op, operatorRow{inGo: func(c *call) func(*emitter) error {
		in := c.data(0)
		c.define(0, in.shape...)
		return c.do(func(r *run) error {
			for i := range len(r.in[0].Data) / r.in[0].Element.Size() {
				x := r.in[0].Number(i)
				if step := n.graph.tensors[from].step; step > 0 {
					r.out[0].Put(i, x*float64(step))
					continue
				}
				x = math.RoundToEven(x / float64(n.graph.tensors[to].step))
				r.out[0].Put(i, min(max(x, math.MinInt16), math.MaxInt16))
			}
			return nil
		})
	}})
}

package tflite

import (
	"slices"

	"xpwc/internal/operators"
	"xpwc/models"
	"xpwc/xnnpack"
)

// A table has the result of an elementwise operator for each value of its only operand that is not constant, which has
// 8 bits. Looking it up replaces two conversions and the operator's function for each element.
type table struct {
	read    int        // the operand, as an index of call.reads
	compute func(*run) // computes the results of all values
}

// byteValues is the number of values of 8 bits, and the fewest elements for which a table is computed.
const byteValues = 256

// A tableKey is the key of a table's results, which are computed once.
type tableKey struct{ *call }

// tabulate plans a table for an operator of quantized values if one operand has as many elements as the output, and the
// others are constants of one element.
func (c *call) tabulate(op operators.Operator, kernel operators.Kernel, operands []int) {
	if !c.wide || !kernel.Elementwise || xnnpack.Elements(kernel.Shapes[0]) < byteValues {
		return
	}
	read, shapes := absent, make([][]int, len(operands))
	for k, i := range c.reads {
		v := &c.plan.values[c.op.inputs[i]]
		switch {
		case v.constant != nil && xnnpack.Elements(v.shape) == 1:
			shapes[k] = v.shape
		case v.constant == nil && c.plan.quantized(c.op.inputs[i]) && read == absent:
			read, shapes[k] = k, []int{byteValues}
		default:
			return
		}
	}
	if read != absent && len(c.reads) == len(operands) {
		c.table = &table{read, kernelOf(op(shapes), c.reads)}
	}
}

// lookUp computes an output from the table.
func (c *call) lookUp(out operators.Array, in []operators.Array) {
	size := out.Element.Size()
	results := c.plan.read.Content(tableKey{c}, func() []byte { return c.results(out.Element, in) })
	src := in[c.table.read].Data
	if size != 1 {
		for i, b := range src {
			copy(out.Data[i*size:][:size], results[int(b)*size:])
		}
		return
	}
	results, dst := results[:byteValues], out.Data[:len(src)]
	for i, b := range src {
		dst[i] = results[b]
	}
}

// results computes the results of all values.
func (c *call) results(element models.Element, in []operators.Array) []byte {
	codes := operators.New(in[c.table.read].Element, byteValues)
	for b := range codes.Data {
		codes.Data[b] = byte(b)
	}
	operands := slices.Clone(in)
	operands[c.table.read] = codes
	out := operators.New(element, byteValues)
	c.runWith(c.table.compute, []operators.Array{out}, operands)
	return out.Data
}

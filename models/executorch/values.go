package executorch

import (
	"encoding/binary"
	"math"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/internal/mapped"
	"xpwc/internal/operators"
	"xpwc/models"
	"xpwc/xnnpack"
)

// ids are values of a plan.
type ids = flow.IDs

// array is a tensor that Go computes with.
type array = operators.Array

// Tensor implements [flow.Values].
func (p *plan) Tensor(id xnnpack.ValueID) xnnpack.Tensor {
	v := &p.values[id]
	t := v.tensor
	if v.scales != nil {
		count, size := scaleCount(&t)
		readScales(&t, p.files.inPlace(*v.scales)[:count*size]) // named data may be longer
	}
	return t
}

// Bare implements [flow.Values].
func (p *plan) Bare(id xnnpack.ValueID) xnnpack.Tensor { return p.values[id].tensor }

// Array implements [flow.Values].
func (p *plan) Array(id xnnpack.ValueID) array {
	return array{Element: p.values[id].element(), Shape: p.values[id].tensor.Shape}
}

// InGo implements [flow.Values].
func (p *plan) InGo(id xnnpack.ValueID) bool { return p.values[id].host }

// Constant implements [flow.Values].
func (p *plan) Constant(id xnnpack.ValueID) (name string, is bool) {
	if c := p.values[id].constant; c != nil {
		return c.name, true
	}
	return "", false
}

// Content implements [flow.Values].
func (p *plan) Content(id xnnpack.ValueID) []byte {
	c, v := p.values[id].constant, &p.values[id]
	stored := c.at.In(p.files.files[c.file].data)
	if c.inFile() && !c.converts() {
		return stored
	}
	content := make([]byte, xnnpack.Elements(v.tensor.Shape)*v.element().Size())
	fault.Check(c.fill(content, stored))
	return content
}

// View implements [flow.Values].
func (p *plan) View(do func()) { viewAll(p.files.files, do) }

func viewAll(files []*File, do func()) {
	if len(files) == 0 {
		do()
	} else {
		fault.Check(files[0].read(func([]byte) { viewAll(files[1:], do) }))
	}
}

// element returns what Go has a value of the plan as, or 0.
func (v *value) element() models.Element {
	if v.host {
		return declared[v.dtype]
	}
	return models.Value{Type: v.tensor.Type}.Element()
}

// readScales gives a value its scales, little-endian as they are in a file. XNNPACK keeps a pointer to them, in
// runtimes too. They are read where they are in the mapping, which outlives all runtimes, and copied only if they are
// not aligned: a large model has hundreds of megabytes of them.
func readScales(t *xnnpack.Tensor, b []byte) {
	q := &t.Quantization
	if t.Type == xnnpack.BlockQInt4 {
		q.BlockScales = numbersIn(b, binary.LittleEndian.Uint16)
	} else {
		q.Scales = numbersIn(b, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
	}
}

// numbersIn returns the numbers that b consists of, in place if possible, or else each as get reads it.
func numbersIn[T uint16 | float32](b []byte, get func([]byte) T) []T {
	if there, ok := mapped.Numbers[T](b); ok {
		return there
	}
	var numbers []T
	for size := binary.Size(T(0)); len(b) >= size; b = b[size:] {
		numbers = append(numbers, get(b))
	}
	return numbers
}
